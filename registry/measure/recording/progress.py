"""A record that grows with the training: one file for each process, a line for each step.

Whatever ends the process, its file says what was measured until then. Lines that were cut short are
passed over. The first line describes the training, the last one, where there is one, its end. A
lock, which ends with the process however it ends, says that it still writes.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.measure.failure import Failure, rank_outcome
from registry.measure.record_files import LARGEST_RECORD
from registry.measure.recording.checks import cross_check
from registry.measure.recording.clock import count_warmup
from registry.measure.recording.ranks import merge_steps
from registry.measure.recording.record import Record, build_submission, note_missing
from registry.reading.bounded_file import ReadingError, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Row = dict[str, Any]

SUFFIX = ".jsonl"

#: Seconds between two times that the steps are flushed to the disk.
_FLUSH_SECONDS = 1.0

#: What reading raises of JSON that the recorder did not write: the job may have written any.
_NOT_OURS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

#: How a training ended whose file does not say it, until somebody knows how its job ended.
WITHOUT_AN_END = Failure("interrupted", "the job ended without a message", "train")


class Progress:
    """The growing file of one training of this process."""

    def __init__(self, path: Path, rank: int, record: Record, n_ranks: int = 1) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self.path = path
        self._file = os.open(path, flags, 0o644)
        self._opened = os.fstat(self._file)
        with suppress(OSError):  # a file system without locks
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._stop = threading.Event()
        self._write({"rank": rank, "n_ranks": n_ranks, "training": asdict(record)})
        flush = threading.Thread(target=self._flush, name="registry-progress", daemon=True)
        flush.start()

    def add_step(self, step: Row, **known: Any) -> None:
        """Add a step, and the ``peaks``, ``configuration``, ``flags`` and so on known by now."""
        self._write({"step": step, **known})

    def change_last(self, steps: Sequence[Row]) -> None:
        """Say anew what the last steps were."""
        self._write({"instead": steps})

    def end(self, **said: Any) -> None:
        """Say how the training ended: ``seconds``, ``counts``, ``failure`` and the last peaks."""
        self._write({"end": said})
        self.close()

    def close(self) -> None:
        """Write nothing further."""
        self._stop.set()
        self.leave()

    def leave(self) -> None:
        """Leave the file to the process that was forked; the child has no thread to stop."""
        if self._is_ours():
            os.close(self._file)
        self._file = -1

    def remove(self) -> None:
        """Remove the file, because all it says stands elsewhere."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _write(self, line: Row) -> None:
        if self._file < 0:
            return
        if not self._is_ours():
            raise OSError(errno.EBADF, "the job closed the file of the record")
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def _is_ours(self) -> bool:
        """Return whether the file is open; a job that closes all may have one by its number."""
        with suppress(OSError):
            return self._file >= 0 and os.path.samestat(os.fstat(self._file), self._opened)
        return False

    def _flush(self) -> None:
        while not self._stop.wait(_FLUSH_SECONDS):
            with suppress(OSError, ValueError):  # closed meanwhile: -1 is no descriptor at all
                os.fdatasync(self._file)


def is_growing(path: Path) -> bool:
    """Return whether a training that goes on writes this file. Not for the process that does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # gone, or not to be read
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def check_ended(paths: Iterable[Path]) -> None:
    """Raise SourceError for a file that a training which goes on still writes."""
    for path in filter(is_growing, paths):
        raise SourceError(
            f"{path}: found a training run that is still in progress; expected one that has "
            "ended; wait for it to end, or stop it, then add it"
        )


@dataclass
class Left:
    """What one process left of a training."""

    rank: int
    record: Record
    n_ranks: int = 1
    steps: list[Row] = field(default_factory=list)
    peaks: list[list[Any]] = field(default_factory=list)
    #: Tokens of the longest sequence that entered the model; nobody says of one that was killed.
    longest: int | None = None
    #: Seconds until the last step that were no training, by their kind.
    seconds_apart: Row = field(default_factory=dict)
    end: Row | None = None

    @property
    def failure(self) -> Failure | None:
        """How the training failed; None where it ended well."""
        if self.end is None:
            return WITHOUT_AN_END
        said = self.end.get("failure")
        return Failure(**said) if said else None


def read_progress(path: Path) -> Left | None:
    """Return what a process left in its file; None where that is no such file."""
    try:
        lines = read_bytes(path, limit=LARGEST_RECORD, what="a record").splitlines()
        first = json.loads(lines[0])
        record = _parse_record(first["training"])
        left = Left(int(first["rank"]), record, int(first.get("n_ranks", 1)))
        for line in lines[1:]:
            with suppress(ValueError):  # cut short, or of a clock that showed no time
                _take(left, json.loads(line, parse_constant=_refuse))
    except (ReadingError, OSError, RecursionError, *_NOT_OURS):
        return None
    return left


def _refuse(constant: str) -> float:
    raise ValueError(f"found {constant}; expected a finite number")


def _parse_record(said: Row) -> Record:
    known = {item.name for item in fields(Record)}
    record = Record(**{name: value for name, value in said.items() if name in known})
    if not isinstance(record.configuration, dict):
        raise TypeError("found no configuration")
    return record


def _take(left: Left, line: Row) -> None:
    if "step" in line:
        left.steps.append(dict(line["step"]))
    if "instead" in line:
        left.steps[-len(line["instead"]) :] = map(dict, line["instead"])
    if "end" in line:
        left.end = dict(line["end"])
    said = line.get("end", line)
    left.peaks = said.get("peaks", left.peaks)
    left.longest = said.get("longest", left.longest)
    left.seconds_apart = said.get("seconds_apart", left.seconds_apart)
    left.record.configuration |= said.get("configuration", {})
    left.record.flags = said.get("flags", left.record.flags)


def assemble(parts: Sequence[Left]) -> Row:
    """Return the submission of one training from what its processes left, the first rank's first.

    It failed as the process says that knows most; without a word of the end it was interrupted.
    """
    parts = sorted(parts, key=lambda left: left.rank)
    first = parts[0]
    record = first.record
    record.parts = [
        {"rank": p.rank, "steps": _marked(p), "peaks": p.peaks, "longest": p.longest} for p in parts
    ]
    record.steps = merge_steps(record.parts)
    note_missing(record, first.n_ranks)
    record.failure = min((part.failure for part in parts), key=_says_little)
    if record.failure is not None:
        record.failed_step = len(record.steps) + 1
    took = {"train_time": sum(step["seconds"] for step in record.steps)} if record.steps else {}
    took |= {f"{kind}_time": seconds for kind, seconds in first.seconds_apart.items()}
    end = first.end or {"seconds": took}
    record.seconds = {name: float(value) for name, value in end.get("seconds", {}).items()}
    record.counts |= end.get("counts", {})
    count_steps(record)
    cross_check(record)
    return build_submission(record)


def _says_little(failure: Failure | None) -> tuple[int, bool]:
    return (
        rank_outcome("ok", "") if failure is None else rank_outcome(failure.outcome, failure.detail)
    )


def _marked(left: Left) -> list[Row]:
    """Return the steps with the first ones marked as warm-up."""
    n_warmup = count_warmup(len(left.steps), left.record.provenance.get("warmup_steps", 0))
    return [{**step, "warmup": place < n_warmup} for place, step in enumerate(left.steps)]


def count_steps(record: Record) -> None:
    """State how many steps there were, and what they trained on where every step says so."""
    if not record.steps:
        return
    record.counts["n_steps"] = len(record.steps)
    for name in ("tokens", "samples"):
        if all(name in step for step in record.steps):
            record.counts[f"n_{name}"] = sum(step[name] for step in record.steps)


def assemble_files(paths: Iterable[Path]) -> list[Row]:
    """Return the submissions of all trainings whose processes left these files.

    Those that are no such file are passed over.
    """
    return assemble_all(left for path in sorted(paths) if (left := read_progress(path)) is not None)


def assemble_all(left: Iterable[Left]) -> list[Row]:
    """Return the submissions of all trainings that processes left, in the order they began.

    Among jobs of equally many processes, the n-th training of each process is the n-th of the
    others. One whose first rank ran on another machine is recorded there, unless a process here
    knows why it failed. Anybody in the job may have written the files, and written anything: a
    training that cannot be put together is passed over.
    """
    jobs: dict[str, dict[int, list[Left]]] = {}
    for one in sorted(left, key=_began):
        row = one.record.configuration
        by_rank = jobs.setdefault(f"{row.get('n_nodes')} x {row.get('gpus_per_node')}", {})
        by_rank.setdefault(one.rank, []).append(one)
    trainings = [
        [of_rank[number] for of_rank in by_rank.values() if number < len(of_rank)]
        for by_rank in jobs.values()
        for number in range(max(map(len, by_rank.values())))
    ]
    trainings.sort(key=lambda training: _began(training[0]))
    telling = [training for training in trainings if any(map(_is_telling, training))]
    return [done for training in telling if (done := _assemble_written(training)) is not None]


def _assemble_written(parts: Sequence[Left]) -> Row | None:
    """Return the submission of one training; None where what was left is not what we write."""
    with suppress(*_NOT_OURS):
        return assemble(parts)
    return None


def _is_telling(left: Left) -> bool:
    return left.rank == 0 or (left.end is not None and left.failure is not None)


def _began(left: Left) -> str:
    return str(left.record.observed_at)
