"""Make a dry run in a process of its own: torch stays out of the caller, and so does a crash."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.child_process import (
    ERRORS_NAME,
    OUTPUT_NAME,
    format_exit,
    job_environment,
    module_command,
    run_process,
)
from registry.predict.dryrun.result import DryRunError, Recipe

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings

#: Lines of a child's last words that go into an error.
_LAST_LINES = 3


def run_in_child(
    settings: Settings,
    model_source: dict[str, Any],
    *,
    recipe: Recipe | None = None,
    timeout_seconds: float = 600.0,
) -> dict[str, Any]:
    """Return the fields of a ``DryRun``, made by ``python -m registry.predict.dryrun``.

    Raises DryRunError with the child's reason: a package that is not installed, settings that
    cannot be executed, a crash, or the time-out.
    """
    spec = {
        "settings": asdict(settings),
        "model": model_source,
        "recipe": asdict(recipe or Recipe()),
    }
    with tempfile.TemporaryDirectory(prefix="registry-dryrun-") as name:
        folder = Path(name)
        finished = run_process(
            module_command("registry.predict.dryrun"),
            environment={**job_environment(os.environ), "HF_HUB_OFFLINE": "1"},
            folder=folder,
            timeout_seconds=timeout_seconds,
            stdin=json.dumps(spec).encode(),
        )
        answer = (folder / OUTPUT_NAME).read_text(encoding="utf-8", errors="replace")
        errors = (folder / ERRORS_NAME).read_text(encoding="utf-8", errors="replace")
    if finished.timed_out:
        raise DryRunError(
            f"dry run of {settings.model}: not done after {timeout_seconds:g} s; expected an "
            "answer by then; allow more time, or use the formula"
        )
    return _parse_answer(answer, errors, finished.returncode, settings.model)


def _parse_answer(text: str, errors: str, returncode: int, model: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        last = " | ".join(errors.strip().splitlines()[-_LAST_LINES:]) or "no message"
        raise DryRunError(
            f"dry run of {model}: {format_exit(returncode)}: {last}; expected an answer in JSON; "
            "use the formula"
        ) from None
    if "error" in answer:
        raise DryRunError(answer["error"])
    return dict(answer["dry_run"])
