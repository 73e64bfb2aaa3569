"""Measure a command from the command line: record its trainings, and keep it for a rerun."""

from __future__ import annotations

import os
import secrets
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.contract import vocabulary
from registry.errors import RegistryError
from registry.measure.matching import match_to_catalogue
from registry.measure.record_files import write_json
from registry.measure.running.kept_commands import keep_command
from registry.measure.running.records_folder import find_left_over
from registry.measure.running.wrapped_command import CommandError, run_command
from registry.store.add import add_submissions
from registry.store.snapshot import load_catalogue
from registry_cli import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.measure.recording.marks import Marks
    from registry.store.folder import Location


def measure_command(  # noqa: PLR0913 - the options of the command, by keyword
    location: Location,
    words: Sequence[str],
    *,
    folder: Path | None = None,
    label: str | None = None,
    warmup_steps: int | None = None,
    keeps: bool = True,
) -> tuple[int, list[str]]:
    """Run a command, record its trainings and, where ``keeps``, the command for this user alone.

    Return the command's exit status, and the ids of what was recorded.
    """
    catalogue = load_catalogue(location)
    for text in describe_left_over():
        console.hint(text)
    try:
        found = run_command(words, folder=folder, warmup_steps=warmup_steps, label=label)
    except CommandError as error:
        console.error(str(error))
        return error.status, []
    if found.submission is None:
        console.hint(f"nothing was recorded: {_explain_nothing(found.marks)}")
        return found.returncode, []
    try:
        submission = match_to_catalogue(found.submission, catalogue)
        (added,) = add_submissions(location, [("the measured run", submission)])
    except (RegistryError, LookupError, TypeError, AttributeError) as error:
        console.error(f"{error}\n{_keep_record(found.submission)}")
        return found.returncode, []
    identities = list(added.observation_ids)
    _show_recorded(identities, submission)
    if keeps:
        _keep(identities, words, folder or Path.cwd())
    return found.returncode, identities


#: What a job that never met the recorder can do about it.
_WAYS_OUT = (
    "if the command sets PYTHONPATH, write PYTHONPATH=…:$PYTHONPATH there, or set it before "
    "registry run; python -I, -E and -S also keep the recorder out; with a Trainer, you can use "
    "registry.trainer_callback()"
)


def _explain_nothing(marks: Marks) -> str:
    """Return why a command left no record."""
    if marks.trouble is not None:
        return f"the recorder failed: {marks.trouble}"
    if marks.loaded:
        return (
            "no training began in a Python process of the command that loaded the recorder (it "
            "begins with the first step of an optimizer of torch.optim; a process whose PYTHONPATH "
            "was replaced does not load the recorder)"
        )
    return f"no Python process of the command loaded the recorder; {_WAYS_OUT}"


def describe_left_over() -> list[str]:
    """Return what killed runs left that was not added since, each with the way to add it."""
    return [_describe_left(left.folder, is_growing=left.is_growing) for left in find_left_over()]


def _describe_left(folder: Path, *, is_growing: bool) -> str:
    way = f"registry add {shlex.quote(str(folder))}"
    if is_growing:
        return (
            f"{folder}: a training run whose registry run was killed is still running, and is "
            f"recorded there; when it has ended, add it with: {way}"
        )
    return f"{folder}: records of a run that was killed; add them with: {way}, or remove the folder"


def _show_recorded(identities: Sequence[str], submission: dict[str, Any]) -> None:
    for identity, observation in zip(identities, submission["observations"], strict=True):
        console.hint(
            f"recorded observation {identity[:12]} ({observation['outcome']}); see it with: "
            f"registry show {identity[:12]}"
        )
        if not observation.get("samples") and observation["outcome"] == "ok":
            console.hint(
                f"{identity[:12]}: no step was timed, because no optimizer of torch.optim made "
                "one; its total_time is that of the loop"
            )
        if "not_finite" in observation.get("flags", ()):
            meaning = vocabulary("flag")["not_finite"].rstrip(".")
            console.warning(f"{identity[:12]}: flagged not_finite: {meaning}")
        for text in observation.get("provenance", {}).get("contradictions", ()):
            console.warning(f"{identity[:12]}: flagged figures_disagree: {text}")


def _keep(identities: Sequence[str], words: Sequence[str], folder: Path) -> None:
    try:
        keep_command(identities, words, folder)
    except OSError as error:
        reason = error.strerror or error
        console.warning(f"the command is not kept: {reason}; registry rerun cannot repeat it")
    else:
        console.hint(
            "kept the command for registry rerun, readable only by you (--no-keep keeps none)"
        )


def _keep_record(submission: dict[str, Any]) -> str:
    """Write a record that could not be added to a file; return where it is and the way on."""
    name = f"registry-{secrets.token_hex(4)}.json"
    for find_folder in (os.getcwd, tempfile.gettempdir):
        with suppress(OSError):
            path = Path(find_folder(), name)
            write_json(path, submission)
            return (
                f"the record was not added, and is kept in {path}; once the problem is fixed, "
                f"add it with: registry add {shlex.quote(str(path))}"
            )
    return "the record was not added and could not be kept: no folder to write to"
