"""Console logs: each is a run of its own, and one that cannot be read does not hold up the rest."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.base import Imported, Refusal
from registry.importers.shared.draft import import_drafts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from registry.importers.base import ImportOptions, RunFile
    from registry.importers.shared.draft import Draft

#: What a job prints that ran out of the memory of its card; the last is what Paddle says.
OUT_OF_MEMORY: Final = re.compile(
    r"(?:CUDA|HIP) out of memory|OutOfMemoryError|Out of memory error on GPU"
)

#: How the last line of Python begins where someone ended it.
STOPPED: Final = "KeyboardInterrupt"

#: Characters of a line that says why a run failed.
LONGEST_DETAIL: Final = 120

_COLOUR: Final = re.compile(r"\x1b\[[\d;]{0,20}m")

#: A dictionary as printed, of a length that Python's parser takes without nesting too deep.
_ENTRY: Final = re.compile(r"\{'[^{}]{0,2000}\}")


def import_logs(
    importer: str,
    what: str,
    logs: Sequence[RunFile],
    read_draft: Callable[[RunFile], Draft],
    options: ImportOptions,
) -> Imported:
    """Return the run of each log; ``what`` is the name of one, such as "a Megatron log"."""
    read, drafts, refused = [], [], []
    for log in logs:
        try:
            drafts.append(read_draft(log))
            read.append(log)
        except SubmissionError as error:
            refused.append(Refusal(log.path, "; ".join(error.problems)))
    if not drafts:
        return Imported(refused=tuple(refused))
    for log, draft in zip(read, drafts, strict=True):
        beside = draft.provenance.get("files", {})
        draft.provenance["files"] = {log.name: log.sha256, **beside}
        draft.place = log.name
    several = f"{len(read)} {what.partition(' ')[2]}s"
    found = import_drafts(importer, what if len(read) == 1 else several, read, drafts, options)
    return replace(found, refused=tuple(refused))


class LogImporter(ABC):
    """Reads console logs: what is one, and what it holds, says who writes the class of a producer.

    ``what`` is the name of one log, such as "a Megatron log".
    """

    name: str
    what: str
    expects: str
    is_single_file = False

    @abstractmethod
    def is_log(self, lines: Sequence[str]) -> bool:
        """Return whether lines are such a log, by what they hold."""

    @abstractmethod
    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log; raise SubmissionError where it cannot be told."""

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Return the logs among files."""
        return [file for file in files if file.kind == "text" and self.is_log(file.document)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log."""
        logs = self.main_files(files)
        return import_logs(
            self.name, self.what, logs, lambda log: self.draft(log, options), options
        )


def plain_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without their colours."""
    return (_COLOUR.sub("", line) for line in lines)


def find_failure(lines: Sequence[str], is_step: Callable[[str], object]) -> dict[str, str]:
    """Return the outcome that a log tells behind its last step; none where it tells none."""
    for line in reversed(lines):
        if found := OUT_OF_MEMORY.search(line):
            return {"outcome": "oom", "outcome_detail": line[found.start() :][:LONGEST_DETAIL]}
        if line.startswith(STOPPED):
            return {"outcome": "interrupted", "outcome_detail": STOPPED}
        if is_step(line):
            break
    return {}


def state_end(
    draft: Draft, lines: Sequence[str], is_step: Callable[[str], object], ends: str | None
) -> None:
    """State that a run failed, or where its log ends; none of both where it came to its end."""
    if failure := find_failure(lines, is_step):
        draft.observation |= failure
    elif ends:
        draft.leave_open(ends)


def validate_growing(steps: Iterable[float]) -> None:
    """Raise SubmissionError where steps go back: a restart, or another run, in the same log."""
    for before, after in pairwise(steps):
        if after <= before:
            raise SubmissionError(
                f"its steps go back from {before:.0f} to {after:.0f}: several runs, or a restart, "
                "in one file; split it"
            )


def parse_stamp(text: str) -> float | None:
    """Return the seconds of a date and a time of day in a log, or None; a comma begins fractions.

    >>> parse_stamp("1970-01-01 00:01:00,250"), parse_stamp("2024-13-45 00:00:00")
    (60.25, None)
    """
    try:
        return datetime.fromisoformat(text.replace(",", ".")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def parse_literal(text: str, otherwise: Any = None) -> Any:
    """Return a value as Python prints it, else ``otherwise``.

    >>> parse_literal("{'a': [1, None]}"), parse_literal("torch.bfloat16", "?")
    ({'a': [1, None]}, '?')
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return otherwise  # the last two are what the parser says of a long run of signs


def printed_entries(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the dictionaries that a Trainer prints, which progress bars may precede."""
    for line in lines:
        for text in _ENTRY.findall(line):
            entry = parse_literal(text)
            if isinstance(entry, dict) and ({"loss", "train_loss", "eval_loss"} & entry.keys()):
                yield {key: value for key, value in entry.items() if isinstance(key, str)}
