"""Tables drawn in text, as programs print them: cells between bars, or columns over dashes.

Rules of dashes tell the header from the rows: ``+---+---+`` (PrettyTable, tabulate, pandoc's and
docutils' grids), ``---+---`` (psql), ``|---|---|`` (a pipe table in code), lines of box drawing
(rich), or ``-----  -----`` below the names (tabulate's and docutils' simple tables). Columns that
nothing but white space parts, as pandas prints them, are not told apart from other text.
docutils was weighed: it reads two of these, and refuses both where a line is one character off.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from registry.tables.raw_table import DraftCell, DraftRow

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

_BARS = str.maketrans(dict.fromkeys("│┃║", "|"))
_RULE = re.compile(r"[-=+|:\s\u2500-\u257f]*")
_DASHES = re.compile(r"[-=\u2500\u2501\u2504\u2505\u2508\u2509\u254c\u254d\u2550]{3,}")
_UNDERLINE = re.compile(r"\s*(?:-{2,}|={2,})(?:\s+(?:-{2,}|={2,}))+\s*")
_WIDE = ("W", "F")
#: Lines that the names of columns take at most, and places of a line.
_MOST_NAMES, _LONGEST_LINE = 4, 10**6

#: A line's number in the document and its cells.
_Line = tuple[int, tuple[str, ...]]


@dataclass(frozen=True)
class TextTable:
    """Rows of a table drawn in text, the first of them its header, and the lines it takes."""

    rows: tuple[DraftRow, ...]
    n_lines: int


def find_rules(lines: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the lines that may part a table's names from its rows."""
    return frozenset(
        n for n, line in enumerate(lines) if _is_rule(line) or _UNDERLINE.fullmatch(line)
    )


def find_text_table(
    lines: Sequence[str], at: int, end: int, rules: Container[int]
) -> TextTable | None:
    """Return the table that begins at a line and stops before another; None where none begins.

    ``rules`` are those of `find_rules`: most lines are far from one.
    """
    if not any(number in rules for number in range(at, at + _MOST_NAMES + 1)):
        return None
    return _bordered(lines, at, end) or _underlined(lines, at, end)


def _bordered(lines: Sequence[str], at: int, end: int) -> TextTable | None:
    """Return a table of cells between bars, with rules above, below or between its rows.

    A row of more or fewer cells than the header is kept: whoever looks for it is told.
    """
    groups: list[list[_Line]] = [[]]
    after = at
    while after < end and ((is_rule := _is_rule(lines[after])) or _is_row(lines[after])):
        if is_rule and after > at and not groups[-1]:
            break
        if is_rule:
            groups.append([])
        else:
            groups[-1].append((after, _split(lines[after])))
        after += 1
    header, *body = [group for group in groups if group] or [[]]
    widths = {len(cells) for _, cells in header}
    if not body or len(widths) != 1 or min(widths) < 2:  # noqa: PLR2004 - a list is no table
        return None
    return _build([_join(header), *_rows_of(body)], after - at)


def _is_rule(line: str) -> bool:
    return bool(_DASHES.search(line) and _RULE.fullmatch(line))


def _is_row(line: str) -> bool:
    return "|" in line.translate(_BARS)


def _split(line: str) -> tuple[str, ...]:
    cells = line.translate(_BARS).strip().split("|")
    first, last = int(not cells[0].strip()), len(cells) - int(not cells[-1].strip())
    return tuple(cell.strip() for cell in cells[first:last])


def _rows_of(groups: Sequence[Sequence[_Line]]) -> Iterator[_Line]:
    """Yield the rows between rules: a line each, unless lines below others only go on with them."""
    later = [cells for group in groups for _, cells in group[1:]]
    widths = {len(cells) for group in groups for _, cells in group}
    goes_on = len(groups) > 1 and len(widths) == 1 and all(map(_is_mostly_empty, later))
    for group in groups:
        yield from [_join(group)] if goes_on else group


def _is_mostly_empty(cells: Sequence[str]) -> bool:
    return 2 * sum(map(bool, cells)) <= len(cells)


def _join(group: Sequence[_Line]) -> _Line:
    columns = zip(*(cells for _, cells in group), strict=True)
    return group[0][0], tuple(" ".join(filter(None, column)) for column in columns)


def _underlined(lines: Sequence[str], at: int, end: int) -> TextTable | None:
    """Return a table whose columns lie over dashes; a rule above the names may begin it."""
    start = at + _is_underline(lines, at, end)
    rules = (n for n in range(start + 1, start + 1 + _MOST_NAMES) if _is_underline(lines, n, end))
    rule = next(rules, None)
    if rule is None or (start == at and rule > start + 1):  # names on two lines: below a rule only
        return None
    spans = [found.span() for found in re.finditer(r"[-=]+", lines[rule])]
    spans[-1] = (spans[-1][0], _LONGEST_LINE)
    after = rule + 1
    while after < end and lines[after].strip() and not _is_underline(lines, after, end):
        after += 1
    header, body = (
        _cut(lines, numbers, spans) for numbers in (range(start, rule), range(rule + 1, after))
    )
    if not header or not body or not all(_join(header)[1]):
        return None
    after += _is_underline(lines, after, end)
    return _build([_join(header), *body], after - at)


def _is_underline(lines: Sequence[str], number: int, end: int) -> bool:
    return number < end and bool(_UNDERLINE.fullmatch(lines[number]))


def _cut(lines: Sequence[str], numbers: range, spans: Sequence[tuple[int, int]]) -> list[_Line]:
    """Return the cells of lines; nothing where one of them writes between the columns."""
    found = []
    for number in numbers:
        places = _places(lines[number].rstrip())
        gaps = [
            places[: spans[0][0]],
            *(places[end:start] for (_, end), (start, _) in pairwise(spans)),
        ]
        if any(place.strip() for gap in gaps for place in gap):
            return []
        cells = tuple("".join(places[start:end]).strip() for start, end in spans)
        found.append((number, cells))
    return found


def _places(line: str) -> list[str]:
    """Return what stands at each place of a line; wide characters take two."""
    return [
        part
        for letter in line.expandtabs()
        for part in ((letter, "") if unicodedata.east_asian_width(letter) in _WIDE else (letter,))
    ]


def _build(rows: Sequence[_Line], n_lines: int) -> TextTable:
    return TextTable(
        tuple(DraftRow(number + 1, tuple(map(DraftCell, cells))) for number, cells in rows), n_lines
    )
