r"""Tables in Markdown: pipe tables as GitHub's dialect has them, and HTML tables among them.

A line scanner rather than markdown-it-py: a dependency of every installation would buy rendering,
while what matters here, line numbers, cells as written and an error for a ragged row, it repairs
away (GitHub's dialect fills short rows and cuts long ones, which shifts figures silently).

Tables in fenced code blocks and comments are passed over. In a cell ``\|`` is a pipe, a pipe in a
closed code span does not end the cell, entities are decoded, and all other markup stays as written.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from registry.documents.html_reader import read_html
from registry.documents.table import DraftCell, DraftRow, DraftTable

if TYPE_CHECKING:
    from collections.abc import Callable

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_ATX_HEADING = re.compile(r"\s{0,3}(#{1,6})(?!\S)")
_HTML_HEADING = re.compile(r"\s*<h([1-6])\b[^>]*>(.*?)</h\1\s*>\s*$", re.IGNORECASE)
_BOLD_LINE = re.compile(r"(?:\*\*|__|<(?:b|strong)>)(.+?)(?:\*\*|__|</(?:b|strong)>)\s?[:\uff1a]?$")
_SETEXT_LINE = re.compile(r"\s{0,3}(=+|-{2,})\s*$")
_QUOTE_MARKS = re.compile(r"^\s{0,3}(?:> ?)+")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)")
_CELL_TOKEN = re.compile(rf"\\.|{_CODE_SPAN.pattern}|(?P<cut>\|)")
_DELIMITER_CELL = re.compile(r":?-+:?")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w+);")
_TAG = re.compile(r"<[^<>]*>")
_TABLE_TAG = re.compile(r"<(/?)table(?=[\s>])", re.IGNORECASE)
_NO_CAPTION = re.compile(r"\s*(?:[-*+!<|]|\d+[.)])|.*[.!?;\u3002\uff01\uff1f\uff1b]\s*$")
_MAX_CAPTION_CHARACTERS = 60


def read_markdown(text: str) -> list[DraftTable]:
    """Return the document's pipe and HTML tables in order of appearance.

    A table's heading is the path of headings above it, then a line that is bold as a whole, then a
    short line of its own right above the table that does not end like a sentence.
    """
    return _Scanner([_QUOTE_MARKS.sub("", line) for line in text.split("\n")]).scan()


def has_pipe_table(text: str) -> bool:
    """Tell whether some line and the one below it are a pipe table's header and delimiter row."""
    return any(_starts_table(line, below) for line, below in pairwise(text.split("\n")))


def has_html_table(text: str) -> bool:
    """Tell whether an HTML table begins somewhere outside a code span."""
    return any(_table_depth(line) for line in text.split("\n"))


def split_cells(line: str) -> list[str]:
    r"""Split a pipe table's line into its cells, outer pipes or not.

    >>> split_cells(r"| a \| b | `c | d` | **e** |")
    ['a | b', '`c | d`', '**e**']
    """
    line = line.strip()
    cuts = [found.start() for found in _CELL_TOKEN.finditer(line) if found["cut"]]
    parts = [line[start + 1 : end] for start, end in pairwise([-1, *cuts, len(line)])]
    if cuts and cuts[0] == 0:
        parts = parts[1:]
    if cuts and cuts[-1] == len(line) - 1 and len(parts) > 1:
        parts = parts[:-1]
    return [_decode(part.replace("\\|", "|")).strip() for part in parts]


@dataclass
class _Headings:
    """What stands above the current line."""

    levels: dict[int, str] = field(default_factory=dict)
    bold: str = ""
    paragraph: list[str] = field(default_factory=list)
    is_paragraph_open: bool = False

    def add_heading(self, level: int, text: str) -> None:
        self.levels = {above: kept for above, kept in self.levels.items() if above < level}
        if text:
            self.levels[level] = text
        self.bold = ""
        self.end_block()

    def add_bold(self, text: str) -> None:
        self.bold = text
        self.end_block()

    def add_text(self, line: str) -> None:
        if not self.is_paragraph_open:
            self.paragraph = []
        self.paragraph.append(line.strip())
        self.is_paragraph_open = True

    def end_block(self) -> None:
        """Forget the paragraph: something else now stands between it and what follows."""
        self.paragraph, self.is_paragraph_open = [], False

    def path(self) -> tuple[str, ...]:
        parts = [self.levels[level] for level in sorted(self.levels)]
        return tuple(part for part in (*parts, self.bold, self._caption()) if part)

    def _caption(self) -> str:
        line = self.paragraph[0] if len(self.paragraph) == 1 else ""
        is_caption = len(line) <= _MAX_CAPTION_CHARACTERS and not _NO_CAPTION.match(line)
        return _clean_heading(line) if is_caption else ""


class _Scanner:
    """Walks over the lines once; each `_take_` method returns how many lines it consumed."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._headings = _Headings()
        self._tables: list[DraftTable] = []

    def scan(self) -> list[DraftTable]:
        takers = (
            self._take_blank,
            self._take_front_matter,
            self._take_fence,
            self._take_comment,
            self._take_pipe_table,
            self._take_html_table,
            self._take_heading,
            self._take_bold_line,
        )
        while self._at < len(self._lines):
            line = self._lines[self._at]
            consumed = next(filter(None, (take(line) for take in takers)), 0)
            if not consumed:
                self._headings.add_text(line)
            self._at += consumed or 1
        return self._tables

    def _take_blank(self, line: str) -> int:
        if line.strip():
            return 0
        self._headings.is_paragraph_open = False
        return 1

    def _take_front_matter(self, line: str) -> int:
        if self._at > 0 or line.rstrip() != "---":
            return 0
        return self._count_until(lambda below: below.rstrip() == "---", self._at + 1)

    def _take_fence(self, line: str) -> int:
        opening = _FENCE.match(line)
        if not opening or "`" in line[opening.end() :]:
            return 0
        self._headings.end_block()
        closing = re.compile(rf"\s*{opening[1][0]}{{{len(opening[1])},}}\s*$")
        return self._count_until(lambda below: closing.match(below) is not None, self._at + 1)

    def _take_comment(self, line: str) -> int:
        if not line.lstrip().startswith("<!--"):
            return 0
        return self._count_until(lambda below: "-->" in below, self._at)

    def _take_pipe_table(self, line: str) -> int:
        if not _starts_table(line, self._line_at(self._at + 1)):
            return 0
        end = self._at + 2
        while end < len(self._lines) and _continues_table(self._lines[end]):
            end += 1
        rows = [_draft_row(self._lines[number], number + 1) for number in range(self._at, end)]
        # a delimiter row of another width stays, so that building the table names its line
        if len(rows[0].cells) == len(rows[1].cells):
            del rows[1]
        self._tables.append(DraftTable(self._headings.path(), tuple(rows), self._at + 1))
        self._headings.end_block()
        return end - self._at

    def _take_html_table(self, line: str) -> int:
        if _table_depth(line) is None:
            return 0
        end = self._html_table_end()
        text = "\n".join(self._lines[self._at : end])
        above = self._headings.path()
        self._tables += read_html(text, first_line=self._at + 1, above=above)
        self._headings.end_block()
        return end - self._at

    def _html_table_end(self) -> int:
        """Return the line after ``</table>``; a table never closed ends at the next heading."""
        depth = 0
        for number in range(self._at, len(self._lines)):
            depth += _table_depth(self._lines[number]) or 0
            if depth <= 0:
                return number + 1
        below = range(self._at + 1, len(self._lines))
        headings = (number for number in below if _ATX_HEADING.match(self._lines[number]))
        return next(headings, len(self._lines))

    def _take_heading(self, line: str) -> int:
        atx, in_html = _ATX_HEADING.match(line), _HTML_HEADING.match(line)
        if atx:
            self._headings.add_heading(len(atx[1]), _heading_text(line[atx.end() :]))
            return 1
        if in_html:
            self._headings.add_heading(int(in_html[1]), _clean_heading(in_html[2]))
            return 1
        return self._take_setext_line(line)

    def _take_setext_line(self, line: str) -> int:
        underline = _SETEXT_LINE.match(line)
        if not underline:
            return 0
        headings = self._headings
        if headings.is_paragraph_open and len(headings.paragraph) == 1:
            level = 1 if underline[1].startswith("=") else 2
            headings.add_heading(level, _clean_heading(headings.paragraph[0]))
        headings.end_block()
        return 1

    def _take_bold_line(self, line: str) -> int:
        bold = _BOLD_LINE.match(line.strip())
        if not bold or "**" in bold[1]:
            return 0
        self._headings.add_bold(_clean_heading(bold[1]))
        return 1

    def _line_at(self, number: int) -> str:
        return self._lines[number] if number < len(self._lines) else ""

    def _count_until(self, is_last: Callable[[str], bool], start: int) -> int:
        """Count the lines from here through the first `is_last` from `start` on, else all."""
        for number in range(start, len(self._lines)):
            if is_last(self._lines[number]):
                return number + 1 - self._at
        return len(self._lines) - self._at


def _starts_table(line: str, below: str) -> bool:
    if "|" not in line or "|" not in below or "-" not in below:
        return False
    return all(_DELIMITER_CELL.fullmatch(cell) for cell in split_cells(below))


def _continues_table(line: str) -> bool:
    if not line.strip() or _FENCE.match(line) or _ATX_HEADING.match(line):
        return False
    return "|" in line or not line.lstrip().startswith("<")


def _table_depth(line: str) -> int | None:
    """Return opened minus closed table tags outside code spans; None where there is none."""
    tags = _TABLE_TAG.findall(_CODE_SPAN.sub("", line))
    return sum(-1 if slash else 1 for slash in tags) if tags else None


def _draft_row(line: str, number: int) -> DraftRow:
    return DraftRow(number, tuple(DraftCell(text) for text in split_cells(line)))


def _decode(text: str) -> str:
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def _heading_text(text: str) -> str:
    """Return a heading's text without its closing number signs, which stand after a space."""
    text = text.strip()
    opened = text.rstrip("#")
    is_closed = not opened or opened[-1].isspace()
    return _clean_heading(opened if is_closed else text)


def _clean_heading(text: str) -> str:
    return _decode(_TAG.sub("", text)).strip(" \t*_:\uff1a")
