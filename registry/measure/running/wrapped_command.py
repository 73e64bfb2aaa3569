"""Measure any command without editing it: ``registry run -- CMD…``.

A ``sitecustomize`` on the child's PYTHONPATH adds the recorder to Hugging Face Trainer in every
Python process of the command, also below ``torchrun`` and ``accelerate launch``.
"""

from __future__ import annotations

import os
import secrets
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError, SubmissionError
from registry.measure.child_process import Finished, format_exit, run_in_foreground
from registry.measure.environment import collect_environment
from registry.measure.failure import Failure
from registry.measure.matching import match_to_catalogue
from registry.measure.record_files import read_json
from registry.measure.recording.record import Record, build_submission
from registry.measure.running.trial_run import is_record, rank_of_failure
from registry.measure.trial_settings import RECORD_FOLDER
from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from registry.catalogue import Catalogue

Row = dict[str, Any]

#: The folder of the ``sitecustomize``.
_SITE = Path(__file__).resolve().parents[1] / "recording" / "site"

#: Shells add this to the number of a signal that ended a command.
_SIGNAL_BASE = 128

_ABSENT = {"model_id": "unknown", "note": "The run did not say which model it trained."}


@dataclass(frozen=True)
class WrappedRun:
    """What came of a measured command.

    Attributes:
        returncode: Exit status to pass on; 128 + n where signal n ended the command.
        submission: What was recorded.
        outcome: Outcome of the (last) training, or of the command.
        note: Why only figures of the process are known; None where its steps are.
        seconds: Wall time of the command.
    """

    returncode: int
    submission: Row
    outcome: str
    note: str | None
    seconds: float


def run_command(
    command: Sequence[str],
    *,
    catalogue: Catalogue | None = None,
    environment: Mapping[str, str] | None = None,
) -> WrappedRun:
    """Run a command with the recorder in it; its input and output stay the caller's.

    Several trainings of one command become several observations of one submission. Raises
    SourceError where the command cannot be started. Ctrl-C reaches the child, whose end is awaited.
    """
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="registry-run-") as folder:
        finished = _run(command, wrapped_environment(environment or os.environ, folder))
        records, notes = read_folder(Path(folder))
    ended = _Ended(command, finished, began)
    submission, note = _first_valid(ended, records, notes, catalogue)
    returncode = finished.returncode
    status = returncode if returncode >= 0 else _SIGNAL_BASE - returncode
    outcome = submission["observations"][-1]["outcome"]
    return WrappedRun(status, submission, outcome, note, finished.seconds)


def _first_valid(
    ended: _Ended, records: list[Row], notes: list[Row], catalogue: Catalogue | None
) -> tuple[Row, str | None]:
    """Return the finest submission that is valid, and why there is no finer one.

    Records and notes are files that processes of the command wrote, so anything may be in them; a
    run that was made is recorded whatever they hold.
    """
    invalid = "the record that a process of it left is not a valid submission"
    reason = invalid if records else reason_without_record(notes)
    candidates: list[tuple[Callable[[], Row], str | None]] = [
        (lambda: _recorded(records, ended), None),
        (lambda: _unrecorded(ended, notes, reason), reason),
    ]
    for build, note in candidates[not records :]:
        with suppress(*_MALFORMED):
            return _checked(build(), catalogue), note
    return _checked(_unrecorded(ended, [], invalid), catalogue), invalid


#: What documents of another form than expected raise.
_MALFORMED = (SubmissionError, AttributeError, IndexError, KeyError, TypeError, ValueError)


def _checked(submission: Row, catalogue: Catalogue | None) -> Row:
    """Return the submission with the catalogue's names, after a check that it can be recorded."""
    if catalogue is None:
        return submission
    matched = match_to_catalogue(submission, catalogue)
    prepare_submission(matched, catalogue, origin="the measured run")
    return matched


def wrapped_environment(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the child's environment: the caller's, with the recorder's folders."""
    paths = [str(_SITE), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths), RECORD_FOLDER: folder}


def _run(command: Sequence[str], environment: dict[str, str]) -> Finished:
    try:
        return run_in_foreground(command, environment=environment)
    except OSError as error:
        reason = error.strerror or error
        raise SourceError(
            f"{command[0]}: cannot be started: {reason}; expected a command to measure"
        ) from None


def read_folder(folder: Path) -> tuple[list[Row], list[Row]]:
    """Return the records and the process notes that the processes of a command left."""
    read = [(path.name, read_json(path)) for path in sorted(folder.glob("*.json"))]
    records = [document for name, document in read if name.startswith("record-")]
    notes = [document for name, document in read if name.startswith("process-")]
    return [r for r in records if is_record(r)], [n for n in notes if isinstance(n, dict)]


def _recorded(records: list[Row], ended: _Ended) -> Row:
    """Return one submission with the trainings of the first rank, or the most telling failures."""
    returncode = ended.finished.returncode
    observations = [record["observations"][0] for record in _leading(records)]
    how = {"wrapped": format_command(ended.command), "exit": format_exit(returncode)}
    observations = [
        {**each, "provenance": {**each.get("provenance", {}), **how}} for each in observations
    ]
    for each in observations:
        if each["outcome"] == "interrupted" and returncode < 0:
            each["outcome_detail"] = format_exit(returncode)
    return {
        **records[0],
        "models": _distinct(records, "models", "model_id"),
        "gpus": _distinct(records, "gpus", "gpu_id"),
        "observations": observations,
    }


def _leading(records: list[Row]) -> list[Row]:
    """Return the records of rank 0, unless another rank knows why the job failed."""
    telling = [r for r in records if r["observations"][0]["outcome"] in ("oom", "error")]
    if telling:
        failed = min(telling, key=rank_of_failure)
        well = [r for r in records if r["observations"][0]["outcome"] == "ok"]
        return [*well, failed]
    started = sorted(records, key=lambda record: str(record["observations"][0]["observed_at"]))
    done = [r for r in started if r["observations"][0]["outcome"] == "ok"]
    return done or started[:1]


def _distinct(records: list[Row], part: str, key: str) -> list[Row]:
    return list({row[key]: row for record in records for row in record.get(part, ())}.values())


def reason_without_record(notes: list[Row]) -> str:
    """Return why nothing finer than the process is known."""
    if not notes:
        return (
            "no Python process left a note: the command is no Python, was killed, or runs with -I, "
            "-S or a Python that cannot load the recorder"
        )
    if any(note.get("has_trainer") for note in notes):
        return "the process loaded Hugging Face Trainer, but no training of it began"
    if any(note.get("has_torch") for note in notes):
        return "the process used torch without Hugging Face Trainer: steps cannot be told apart"
    return "the process loaded neither torch nor Hugging Face Trainer"


@dataclass(frozen=True)
class _Ended:
    """How a command ended."""

    command: Sequence[str]
    finished: Finished
    began: datetime


def _unrecorded(ended: _Ended, notes: list[Row], note: str) -> Row:
    ranks = [each for each in notes if each.get("is_rank")] or notes
    main = max(ranks, key=lambda each: float(each.get("seconds", 0)), default={})
    record = Record(
        run_id=secrets.token_hex(8),
        observed_at=ended.began.isoformat(timespec="seconds"),
        configuration={"method": "unknown"},
        environment=main.get("environment") or collect_environment(),
        model=dict(_ABSENT),
        gpu=None,
        parts=[
            {"rank": each["rank"], "steps": [], "peaks": each["peaks"]}
            for each in _one_per_rank(ranks)
        ],
        seconds={"total_time": ended.finished.seconds},
        provenance={
            **main.get("provenance", {}),
            "wrapped": format_command(ended.command),
            "exit": format_exit(ended.finished.returncode),
            "note": note,
        },
        failure=_failure(ended.finished.returncode, main),
    )
    return _without_devices(build_submission(record))


def _one_per_rank(notes: list[Row]) -> list[Row]:
    """Return of each rank the process that ran longest: others are its tools."""
    by_length = sorted(notes, key=lambda each: float(each.get("seconds", 0)))
    return list({int(note["rank"]): note for note in by_length}.values())


def _without_devices(submission: Row) -> Row:
    """Leave out figures of single devices: how many there were is not known."""
    observation = submission["observations"][0]
    kept = [row for row in observation["measurements"] if row.get("scope", "total") == "total"]
    observation["measurements"] = kept
    return submission


def _failure(returncode: int, note: Row) -> Failure | None:
    if returncode == 0:
        return None
    how = format_exit(returncode)
    if note.get("outcome") == "oom":
        return Failure("oom", str(note.get("outcome_detail", how)))
    stopped = returncode in (-signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL)
    if stopped or note.get("outcome") == "interrupted":
        return Failure("interrupted", how)
    return Failure("error", str(note.get("outcome_detail", how)))


def format_command(command: Sequence[str]) -> str:
    """Return what was run, without paths and without the arguments of the script.

    >>> format_command(["/usr/bin/python3", "-u", "train/sft.py", "--token", "secret"])
    'python3 -u sft.py'
    """
    shown = []
    for word in command:
        shown.append(Path(word).name)
        if word in ("-c", "-") or word.endswith(".py") or (shown[:-1] and shown[-2] == "-m"):
            break
        if word.startswith("-") and word not in ("-u", "-m"):
            shown.pop()
    return " ".join(shown)
