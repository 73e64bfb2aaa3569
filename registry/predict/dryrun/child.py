"""Make a dry run in a process of its own: torch stays out of the caller, and so does a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from registry.predict.dryrun.result import DryRunError, Recipe

if TYPE_CHECKING:
    from registry.runner.settings import Settings

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
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-m", "registry.predict.dryrun"],
            input=json.dumps(spec),
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DryRunError(
            f"dry run of {settings.model}: not done after {timeout_seconds:g} s; expected an "
            "answer by then; allow more time, or use the formula"
        ) from None
    return _parse_answer(child, settings.model)


def _parse_answer(child: subprocess.CompletedProcess[str], model: str) -> dict[str, Any]:
    try:
        answer = json.loads(child.stdout)
    except ValueError:
        last = " | ".join(child.stderr.strip().splitlines()[-_LAST_LINES:]) or "no message"
        ended = (
            f"exit status {child.returncode}"
            if child.returncode >= 0
            else f"killed by signal {-child.returncode}"
        )
        raise DryRunError(
            f"dry run of {model}: {ended}: {last}; expected an answer in JSON; use the formula"
        ) from None
    if "error" in answer:
        raise DryRunError(answer["error"])
    return dict(answer["dry_run"])
