"""Cells in which several figures stand without a separator, as copied from a web page."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from registry.errors import UnitError
from registry.reading.patterns import compile_pattern
from registry.units.number import strip_bold, unit_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.reading.patterns import Pattern

# Named patterns of one part. `decimals` and `integers` are completed from the text: see _part.
GLUED_PATTERNS = {
    "decimals": "numbers with equally many decimals, as in '19869.937519871.9375'",
    "integers": "integers with equally many digits, as in '2189821892'",
    "clock": "clock times m:ss or h:mm:ss, as in '14:0412:10'",
}
_CLOCK = r"[0-9]{1,2}(?::[0-9]{2}){1,2}"
_MOST_PARTS = 16
_SHOWN_SPLITS = 5


def split_glued(text: str, parts: int, *, where: str, pattern: str) -> tuple[str, ...]:
    r"""Split glued figures into exactly ``parts`` texts, if there is one way only.

    ``pattern`` is a name of ``GLUED_PATTERNS`` or a regular expression which each part must match
    as a whole, such as ``[0-9]+\.[0-9]{4}|[0-9]+MiB``.

    >>> split_glued("1.3031.505", 2, where="row 4", pattern="decimals")
    ('1.303', '1.505')

    Raises:
        UnitError: no split fits, several do (the message lists them), or the pattern is none.
    """
    expected = f"{parts} glued figures, each {GLUED_PATTERNS.get(pattern, pattern)}"
    bare = strip_bold(text, where=where, expected=expected)
    if not 1 <= parts <= _MOST_PARTS:
        raise UnitError(f"{where}: found {parts} parts, expected 1 to {_MOST_PARTS}")
    splits = list(islice(_splits(bare, parts, _part(bare, parts, pattern, where=where)), 6))
    if not splits:
        raise unit_error(where, text, expected)
    if len(splits) > 1:
        listed = "; ".join(" + ".join(split) for split in splits[:_SHOWN_SPLITS])
        more = "; …" if len(splits) > _SHOWN_SPLITS else ""
        raise unit_error(where, text, f"one way to split it into {expected}, not {listed}{more}")
    return splits[0]


def _part(text: str, parts: int, pattern: str, *, where: str) -> Pattern | re.Pattern[str]:
    """Return the regular expression of one part."""
    if pattern == "decimals":
        return re.compile(rf"[0-9]+\.[0-9]{{{max(1, len(text.rpartition('.')[2]))}}}")
    if pattern == "integers":
        digits = len(text) // parts if len(text) % parts == 0 else 0
        return re.compile(rf"[1-9][0-9]{{{digits - 1}}}" if digits else "(?!)")
    if pattern == "clock":
        return re.compile(_CLOCK)
    try:
        return compile_pattern(pattern)
    except ValueError as error:
        raise UnitError(f"{where}: {error}, or one of {', '.join(GLUED_PATTERNS)}") from error


def _splits(text: str, parts: int, part: Pattern | re.Pattern[str]) -> Iterator[tuple[str, ...]]:
    """Yield every split, without dead ends: a hostile text cannot make the search exponential."""
    ends = _reachable_ends(text, parts, part)

    def from_start(start: int, left: int) -> Iterator[tuple[str, ...]]:
        if left == 0:
            yield ()
            return
        for end in ends[left - 1]:
            if end > start and part.fullmatch(text, start, end):
                for rest in from_start(end, left - 1):
                    yield (text[start:end], *rest)

    return from_start(0, parts)


def _reachable_ends(text: str, parts: int, part: Pattern | re.Pattern[str]) -> list[list[int]]:
    """Return for 0, 1, … parts left the positions from which these parts reach the end."""
    ends = [[len(text)]]
    for _ in range(parts):
        ends.append(
            [
                start
                for start in range(len(text))
                if any(end > start and part.fullmatch(text, start, end) for end in ends[-1])
            ]
        )
    return ends
