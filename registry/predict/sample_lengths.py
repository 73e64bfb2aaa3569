"""Lengths of a data set's samples, read from a file that states them in tokens."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from registry.errors import QuestionError, SourceError
from registry.reading.bounded_file import read_bytes
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Columns and keys that hold the tokens of a sample; `input_ids` is counted.
_NAMES: Final = ("length", "lengths", "n_tokens", "num_tokens", "tokens", "input_ids")
#: Bytes of the largest file that is read.
_LARGEST: Final = 2**28
#: Tokens of the longest sample that anybody trains on.
_MOST: Final = 10**9
#: Samples of the largest file that is read; a random part of more tells as much.
_MOST_SAMPLES: Final = 5_000_000
#: What stands between two items of a JSON list, by how its first one begins; else a comma.
_BETWEEN: Final = {"{": re.compile(r"\}\s*,\s*\{"), "[": re.compile(r"\]\s*,\s*\[")}
#: What ends lines for `str.splitlines`; those that are empty are no samples.
_LINE_ENDS: Final = re.compile("[\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]+")
_EXPECTED: Final = (
    "expected a number of tokens a line, a JSON list of them, JSON lines, or CSV with a column "
    f"named {', '.join(_NAMES[:-1])} (JSON also input_ids)"
)


@dataclass(frozen=True)
class SampleLengths:
    """Tokens of each sample of a data set, at least one."""

    tokens: Sequence[int]

    @property
    def longest(self) -> int:
        """Tokens of the longest sample."""
        return max(self.tokens)

    def describe(self) -> str:
        """Return in words how many they are.

        >>> SampleLengths([120, 900]).describe()
        'lengths as of 2 samples, 510 tokens on average and at most 900'
        """
        samples, mean = format_count(len(self.tokens), "sample"), self.mean_below(self.longest)
        return f"lengths as of {samples}, {mean:.0f} tokens on average and at most {self.longest}"

    def mean_below(self, limit: int) -> float:
        """Return the mean tokens of a sample, where each is cut at ``limit``."""
        return sum(min(one, limit) for one in self.tokens) / len(self.tokens)


def read_lengths(path: str) -> SampleLengths:
    """Return the lengths that a file states: text, JSON, JSON lines or CSV.

    Raises QuestionError for a file that cannot be read, for one of more samples than are needed,
    and for what is no length in it, with its place.
    """
    try:
        content = read_bytes(Path(path).expanduser(), limit=_LARGEST, what="lengths of samples")
        text = content.decode("utf-8-sig")
    except SourceError as error:
        raise QuestionError(f"lengths: {error}") from None
    except UnicodeDecodeError as error:
        raise QuestionError(f"lengths: {path}: found no UTF-8 ({error}); {_EXPECTED}") from None
    _limit_samples(_count_ends(text), path)
    values = islice(_values(text, path), _MOST_SAMPLES + 1)
    found = [_parse(value, f"{path}, {where}") for where, value in values]
    _limit_samples(len(found), path)
    if not found:
        raise QuestionError(f"lengths: {path}: found nothing; {_EXPECTED}")
    return SampleLengths(found)


def _limit_samples(count: int, path: str) -> None:
    if count > _MOST_SAMPLES:
        raise QuestionError(
            f"lengths: {path}: found more than {_MOST_SAMPLES:,} samples; expected at most that "
            "many; a random part of them is enough, with the longest among them"
        )


def _count_ends(text: str) -> int:
    """Return how many samples end before another, before any is parsed; 0 where none can tell.

    >>> _count_ends("120, 900"), _count_ends("[120, 900]"), _count_ends('[{"a": 1}, {"a": 2}]')
    (0, 1, 1)
    """
    text = text.strip()
    if text.startswith("["):
        between = _BETWEEN.get(text[1:].lstrip()[:1])
        return _count_matches(between, text) if between else text.count(",")
    if '"' in text and not text.startswith("{"):
        return 0  # a cell of CSV in quotes may have several lines
    return _count_matches(_LINE_ENDS, text)


def _count_matches(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in islice(pattern.finditer(text), _MOST_SAMPLES + 1))


def _values(text: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each stated length with its place."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        return
    if text.lstrip().startswith("["):
        yield from ((f"item {n}", one) for n, one in enumerate(_load(text, path), 1))
    elif text.lstrip().startswith("{") or _is_number(lines[0][1]):
        yield from ((f"line {n}", _load(line, f"{path}, line {n}")) for n, line in lines)
    else:
        yield from _of_columns(text, path)


def _is_number(text: str) -> bool:
    return text.strip().isdecimal()


def _load(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise QuestionError(f"lengths: {where}: found {text[:40]!r}; {_EXPECTED}") from None


def _of_columns(text: str, path: str) -> Iterator[tuple[str, Any]]:
    rows = csv.DictReader(io.StringIO(text))
    names = [name for name in rows.fieldnames or () if name.strip().lower() in _NAMES[:-1]]
    if len(names) != 1:
        found = ", ".join(map(repr, (rows.fieldnames or ())[:8]))
        raise QuestionError(f"lengths: {path}: found columns {found}; {_EXPECTED}")
    yield from ((f"line {rows.line_num}", row[names[0]]) for row in rows)


def _parse(value: Any, where: str) -> int:
    if isinstance(value, dict):
        value = next((value[name] for name in _NAMES if name in value), value)
    if isinstance(value, list):
        return len(value)
    text = str(value).strip()
    if not text.isdecimal() or not 0 < int(text) <= _MOST:
        raise QuestionError(f"lengths: {where}: found {text[:40]!r}; {_EXPECTED}")
    return int(text)
