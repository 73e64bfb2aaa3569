r"""Tables in Markdown: pipe tables as GitHub's dialect has them, and HTML tables among them.

markdown-it-py's tokens say where tables, headings, fenced code and HTML stand, and what the cells
hold. As on GitHub, short rows are filled with empty cells and surplus cells left out; the table
notes both. Tables in comments are passed over. In a cell ``\|`` is a pipe, entities are decoded,
and all other markup stays as written. Tables drawn in text, in fenced code or outside it
(`text_table`), count after all others: mappings name tables by number, and these came later.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit

from registry.errors import SourceError
from registry.tables.html import read_html
from registry.tables.markdown_context import (
    Fold,
    Headings,
    PlacedTables,
    clean_heading,
    decode_entities,
    find_folds,
    move_captions,
    without_code_spans,
    without_summaries,
)
from registry.tables.raw_table import DraftCell, DraftRow, DraftTable
from registry.tables.text_table import find_rules, find_text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it.token import Token

    from registry.tables.text_table import TextTable

#: Only blocks: the text inside a line is not parsed, and links need no definitions. The marks of
#: quotes are taken off beforehand: the library's rule for them is quadratic in lazy quotes.
_PARSER: Final = MarkdownIt("commonmark").enable("table").disable(["blockquote", "reference"])
_PARSER.core.ruler.enableOnly(["normalize", "block"])

_HTML_HEADING = re.compile(r"\s*<h([1-6])\b[^>]*>(.*?)</h\1\s*>\s*$", re.IGNORECASE)
_BOLD_LINE = re.compile(r"(?:\*\*|__|<(?:b|strong)>)(.+?)(?:\*\*|__|</(?:b|strong)>)\s?[:\uff1a]?$")
_QUOTE_MARKS = re.compile(r"^\s{0,3}(?:> ?)+")
_DELIMITER_CELL = re.compile(r":?-+:?")
_TABLE_TAG = re.compile(r"<(/?)table(?=[\s>])", re.IGNORECASE)
_ONLY_TAGS = re.compile(r"(?:\s*</?[A-Za-z][^<>]*>)+\s*")
_MOST_LINES, _MOST_PIPES = 100_000, 200_000


def read_markdown(text: str) -> list[DraftTable]:
    """Return the document's pipe and HTML tables in order, then those drawn in text.

    A table's heading is the path of headings above it, then a line that is all bold, then a
    short line of its own right above the table that does not end like a sentence.
    """
    _validate_size(text)
    lines = [_QUOTE_MARKS.sub("", line) for line in text.split("\n")]
    n_front = _count_front_matter(lines)
    lines[:n_front] = [""] * n_front
    return _Scanner(lines).scan()


def _validate_size(text: str) -> None:
    """Refuse a text of more lines or cells than people write; each becomes several tokens."""
    for mark, name, most in (("\n", "lines", _MOST_LINES), ("|", "pipes", _MOST_PIPES)):
        n_found = text.count(mark)
        if n_found > most:
            raise SourceError(
                f"found {n_found} {name}, expected at most {most} in Markdown; split the document"
            )


def has_pipe_table(text: str) -> bool:
    """Return whether some line and the one below it are a pipe table's header and delimiter row."""
    return any(_starts_table(line, below) for line, below in pairwise(text.split("\n")))


def has_html_table(text: str) -> bool:
    """Return whether an HTML table begins somewhere outside a code span."""
    return any(_table_depth(line) for line in text.split("\n"))


def split_cells(line: str) -> list[str]:
    r"""Split a pipe table's line into its cells, outer pipes or not.

    >>> split_cells(r"| a \| b | `c` | **e** |")
    ['a | b', '`c`', '**e**']
    """
    cells = escapedSplit(line.strip())
    cells = cells[1:] if cells and not cells[0].strip() else cells
    cells = cells[:-1] if cells and not cells[-1].strip() else cells
    return [decode_entities(cell).strip() for cell in cells]


@dataclass(frozen=True)
class _Block:
    """A heading, or what tables are not looked for in: it begins at a line and ends before one."""

    kind: str
    end: int
    level: int = 0
    text: str = ""
    rows: tuple[DraftRow, ...] = ()


def _find_blocks(lines: list[str]) -> dict[int, _Block]:
    """Return headings, fenced code, rules and comments by the number of their first line."""
    tokens = _PARSER.parse("\n".join(lines))
    blocks: dict[int, _Block] = {}
    for place, token in enumerate(tokens):
        start, end = token.map or (0, 0)
        if token.type == "heading_open":
            # each list around a heading, which adds two levels, puts it below the headings outside
            level = int(token.tag.removeprefix("h")) + token.level // 2
            blocks[start] = _Block("heading", end, level, tokens[place + 1].content)
        elif token.type == "table_open":
            blocks[start] = _Block("table", end, rows=tuple(_collect_rows(tokens, place, lines)))
        elif token.type in ("fence", "hr"):
            blocks[start] = _Block(token.type, end)
        elif token.type == "html_block":
            blocks.update(_find_comments(lines, start, end))
    return blocks


def _collect_rows(tokens: list[Token], place: int, lines: list[str]) -> Iterator[DraftRow]:
    """Yield the rows of the table that begins at a token; surplus cells are kept, to be told."""
    cells: list[str] = []
    line = 0
    for token in islice(tokens, place, None):
        if token.type == "table_close":
            return
        if token.type == "tr_open":
            cells, line = [], (token.map or (0, 0))[0]
        elif token.type == "inline":
            cells.append(decode_entities(token.content))
        elif token.type == "tr_close":
            written = split_cells(lines[line])
            # the tokens hold as many cells as the header; what was written says what is missing
            n_written = max(len(written), 1)
            cells = [*cells[:n_written], *written[len(cells) :]]
            yield DraftRow(line + 1, tuple(DraftCell(text) for text in cells))


def _find_comments(lines: list[str], start: int, end: int) -> Iterator[tuple[int, _Block]]:
    """Yield the comments that begin in a block of HTML; blank lines end the block, not them."""
    while start < end:
        is_comment = lines[start].lstrip().startswith("<!--")
        after = _end_after("-->", lines, start) if is_comment else start + 1
        if is_comment:
            yield start, _Block("comment", after)
        start = after


def _end_after(mark: str, lines: list[str], start: int) -> int:
    """Return the line after the first that holds a mark, or the end."""
    marked = (number for number in range(start, len(lines)) if mark in lines[number])
    return next(marked, len(lines) - 1) + 1


def _count_front_matter(lines: list[str]) -> int:
    """Count the lines of metadata between two ``---`` at a document's very beginning."""
    if lines[0].rstrip() != "---":
        return 0
    closing = (number for number, line in enumerate(lines) if number and line.rstrip() == "---")
    return next(closing, len(lines) - 1) + 1


class _Scanner:
    """Walks over the lines once; each `_take_` method returns how many lines it consumed."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._blocks = _find_blocks(lines)
        self._table_ends = _find_table_ends(lines)
        self._at = 0
        self._headings = Headings()
        self._tables: list[DraftTable] = []
        self._rules = find_rules(lines)
        self._drawn: list[DraftTable] = []
        self._folds = find_folds(lines)
        folds = [(at, fold) for at, folds in self._folds.items() for fold in folds]
        self._summaries = {n for at, fold in folds for n in range(at, at + fold.n_lines)}
        self._outside: list[Headings] = []
        self._section: list[PlacedTables] = []
        self._n_placed = 0

    def scan(self) -> list[DraftTable]:
        takers = (
            self._take_blank,
            self._take_passed_over,
            self._take_pipe_table,
            self._take_html_table,
            self._take_heading,
            self._take_drawn_table,
            self._take_bold_line,
        )
        while self._at < len(self._lines):
            line = self._lines[self._at]
            events = self._folds.pop(self._at, [])
            n_opening = next((n for n, fold in enumerate(events) if not fold.opens), len(events))
            self._pass_folds(events[:n_opening])
            consumed = next(filter(None, (take(line) for take in takers)), 0)
            if not consumed:
                self._add_text(line)
            self._pass_folds(events[n_opening:])
            for number in range(self._at + 1, self._at + consumed):
                self._pass_folds(self._folds.pop(number, []))
            self._at += consumed or 1
        self._end_section()
        return self._tables + self._drawn

    def _add_text(self, line: str) -> None:
        if self._at in self._summaries or _ONLY_TAGS.fullmatch(line):
            self._headings.is_paragraph_open = False
        else:
            self._headings.add_text(line)

    def _pass_folds(self, folds: Sequence[Fold]) -> None:
        """Open and close what ``<details>`` folds away: its headings hold inside of it alone."""
        for fold in folds:
            self._end_section()
            if fold.opens:
                self._outside.append(self._headings)
                self._headings = self._headings.open_details(fold.summary)
            elif self._outside:
                self._headings = self._outside.pop()
                self._headings.end_table()

    def _place(self, tables: list[DraftTable], found: Sequence[DraftTable]) -> None:
        """Keep tables that begin here, and what stands between them and those before."""
        self._end_table_before()
        places = range(len(tables), len(tables) + len(found))
        tables += found
        self._n_placed += 1
        above = self._headings.caption_above()
        self._section.append(PlacedTables(self._n_placed, tables, places, above))
        self._headings.end_table()

    def _end_table_before(self) -> None:
        if self._section:
            last = self._section[-1]
            last.below, last.is_plain = self._headings.caption_below()

    def _end_section(self) -> None:
        self._end_table_before()
        move_captions(self._section)
        self._section = []

    def _take_blank(self, line: str) -> int:
        if line.strip():
            return 0
        self._headings.is_paragraph_open = False
        return 1

    def _take_passed_over(self, _line: str) -> int:
        block = self._blocks.get(self._at)
        if block is None or block.kind in ("heading", "table"):
            return 0
        if block.kind == "fence":
            closes = self._lines[block.end - 1].lstrip().startswith(("```", "~~~"))
            self._find_drawn_tables(block.end - closes)
        if block.kind != "comment":
            self._headings.n_blocks += 1
            self._headings.end_block()
        return block.end - self._at

    def _take_pipe_table(self, line: str) -> int:
        block = self._blocks.get(self._at)
        if block is not None and block.kind == "table":
            rows, n_lines = block.rows, block.end - self._at
        else:
            rows, n_lines = self._uneven_header(line), 2
        if not rows:
            return 0
        path = self._headings.path()
        prose = self._headings.paragraphs()
        is_table = block is not None
        table = DraftTable(path, rows, self._at + 1, pads=is_table, prose=prose)
        self._place(self._tables, [table])
        return n_lines

    def _uneven_header(self, line: str) -> tuple[DraftRow, ...]:
        """Return the header and delimiter row of what is no table, for they differ in width.

        GitHub shows such lines as text. They stay a table that cannot be read, so that whoever
        looks for it is told why.
        """
        below = self._line_at(self._at + 1)
        if not _starts_table(line, below) or len(split_cells(line)) == len(split_cells(below)):
            return ()
        return (_draft_row(line, self._at + 1), _draft_row(below, self._at + 2))

    def _take_html_table(self, line: str) -> int:
        if _table_depth(line) is None:
            return 0
        end = self._html_table_end()
        text = without_summaries("\n".join(self._lines[self._at : end]))
        above = self._headings.path()
        prose = self._headings.paragraphs()
        found = read_html(text, first_line=self._at + 1, above=above)
        tables = [replace(table, prose=(*prose, *table.prose)) for table in found]
        self._place(self._tables, tables)
        return end - self._at

    def _find_drawn_tables(self, end: int) -> None:
        """Keep the tables drawn in the fenced code that begins here."""
        number = self._at + 1
        while number < end:
            found = find_text_table(self._lines, number, end, self._rules)
            self._keep_drawn(found, number)
            number += found.n_lines if found else 1

    def _take_drawn_table(self, _line: str) -> int:
        found = find_text_table(self._lines, self._at, len(self._lines), self._rules)
        self._keep_drawn(found, self._at)
        if found is None:
            return 0
        self._headings.end_table()
        return found.n_lines

    def _keep_drawn(self, found: TextTable | None, at: int) -> None:
        if found is not None:
            path, prose = self._headings.path(), self._headings.paragraphs()
            self._place(self._drawn, [DraftTable(path, found.rows, at + 1, prose=prose)])

    def _html_table_end(self) -> int:
        """Return the line after ``</table>``; a table never closed ends at the next heading."""
        if self._at in self._table_ends:
            return self._table_ends[self._at]
        below = range(self._at + 1, len(self._lines))
        headings = (number for number in below if self._is_heading(number))
        return next(headings, len(self._lines))

    def _take_heading(self, line: str) -> int:
        in_html = _HTML_HEADING.match(line)
        if in_html or self._is_heading(self._at):
            self._end_section()
        if in_html:
            self._headings.add_heading(int(in_html[1]), clean_heading(in_html[2]))
            return 1
        if not self._is_heading(self._at):
            return 0
        block = self._blocks[self._at]
        self._headings.add_heading(block.level, clean_heading(block.text))
        return block.end - self._at

    def _take_bold_line(self, line: str) -> int:
        bold = _BOLD_LINE.match(line.strip())
        if not bold or "**" in bold[1]:
            return 0
        self._headings.add_bold(clean_heading(bold[1]))
        return 1

    def _line_at(self, number: int) -> str:
        return self._lines[number] if number < len(self._lines) else ""

    def _is_heading(self, number: int) -> bool:
        return number in self._blocks and self._blocks[number].kind == "heading"


def _starts_table(line: str, below: str) -> bool:
    if "|" not in line or "|" not in below or "-" not in below:
        return False
    return all(_DELIMITER_CELL.fullmatch(cell) for cell in split_cells(below))


def _table_depth(line: str) -> int | None:
    """Return opened minus closed table tags outside code spans; None where there is none."""
    tags = _TABLE_TAG.findall(without_code_spans(line))
    return sum(-1 if slash else 1 for slash in tags) if tags else None


def _find_table_ends(lines: list[str]) -> dict[int, int]:
    """Return for each line with table tags the line after the one that closes what it opens."""
    ends: dict[int, int] = {}
    opened: list[tuple[int, int]] = []  # lines that open a table, and the depth before each
    depth = 0
    for number, line in enumerate(lines):
        change = _table_depth(line)
        if change is None:
            continue
        opened.append((number, depth))
        depth += change
        while opened and opened[-1][1] >= depth:
            ends[opened.pop()[0]] = number + 1
    return ends


def _draft_row(line: str, number: int) -> DraftRow:
    return DraftRow(number, tuple(DraftCell(text) for text in split_cells(line)))
