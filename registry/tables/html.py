"""HTML tables, in a page or in a piece of one.

The standard library's html.parser is enough: cells, spans and their repair are a few lines, and
lxml or BeautifulSoup would be dependencies of every installation for the sake of an importer.
Tags that are not closed are closed by what follows, as browsers do. White space that holds a line
break is one space; ``<br>``, ``<p>``, ``<div>`` and ``<li>`` begin a new line in a cell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from registry.errors import SourceError
from registry.tables.inline import mark_of_tag
from registry.tables.raw_table import DraftCell, DraftRow, DraftTable

_CELLS = {"td", "th"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_ROW_GROUPS = {"thead", "tbody", "tfoot"}
_LINE_BREAKS = {"br", "p", "div", "li"}
_NO_TEXT = {"script", "style"}
_MARKED = {"sup", "s", "del", "strike"}
_BLANKS = " \t\f"
_LEADING_NUMBER = re.compile(r"\s*(\d{1,9})")
_MAX_COLSPAN, _MAX_ROWSPAN = 1000, 65534  # HTML living standard, table model

_MOST_PARAGRAPHS, _LONGEST_PARAGRAPH = 2, 600

_MARKUP = re.compile(r"<[A-Za-z/!?]")

#: What closes the markup that a text begins; all else that begins with `<` closes with `>`.
_CLOSINGS = {"<!--": "-->", "<![CDATA[": "]]>", "<![": "]>"}

#: Longest rest that is never closed: html.parser reads it again from each `<` that it holds.
_LONGEST_OPEN_REST = 4096


def read_html(text: str, *, first_line: int = 1, above: tuple[str, ...] = ()) -> list[DraftTable]:
    """Return the text's tables in the order in which they begin, nested ones included.

    `first_line` is the document's line where `text` begins, `above` the path of headings there. The
    header is what ``<thead>`` holds, else the leading rows of ``<th>`` alone, else the first row.
    Raises SourceError for markup that html.parser cannot pass over, or not in time that grows with
    the text's length alone.
    """
    _validate_markup_closes(text, first_line)
    parser = _TableParser(first_line, above)
    try:
        parser.feed(text)
        parser.close()
    except AssertionError as error:  # what html.parser raises for a malformed `<![`
        line = first_line + parser.getpos()[0] - 1
        raise SourceError(f"line {line}: {error}; expected HTML, write '<' as '&lt;'") from error
    except ValueError as error:  # Python reads no number of thousands of digits
        line = first_line + parser.getpos()[0] - 1
        raise SourceError(
            f"line {line}: found '&#' and thousands of digits, expected HTML; write '&' as '&amp;'"
        ) from error
    return parser.finish()


def _validate_markup_closes(text: str, first_line: int) -> None:
    found = _MARKUP.search(text)
    while found:
        start = found.start()
        begun = (begin for begin in _CLOSINGS if text.startswith(begin, start))
        closing = _CLOSINGS.get(next(begun, ""), ">")
        end = text.find(closing, start)
        if end < 0 and len(text) - start > _LONGEST_OPEN_REST:
            line = first_line + text.count("\n", 0, start)
            raise SourceError(
                f"line {line}: found {text[start : start + 20]!r} and no {closing!r} after it, "
                "expected HTML; write '<' as '&lt;'"
            )
        found = _MARKUP.search(text, max(end, start + 1))


@dataclass
class _OpenTable:
    line: int
    heading: tuple[str, ...]
    prose: tuple[str, ...] = ()
    rows: list[DraftRow] = field(default_factory=list)
    n_thead_rows: int = 0
    caption: str = ""
    group: int = 0
    in_thead: bool = False
    row_line: int | None = None
    cells: list[DraftCell] = field(default_factory=list)
    cell: dict[str, str | None] | None = None
    cell_tag: str = ""
    text: list[str] = field(default_factory=list)
    in_caption: bool = False

    def start_row(self, line: int) -> None:
        self.end_row()
        self.row_line = line

    def end_row(self) -> None:
        self.end_cell()
        if self.row_line is None:
            return
        self.rows.append(DraftRow(self.row_line, tuple(self.cells), self.group))
        if self.in_thead and any(cell.text for cell in self.cells):
            self.n_thead_rows += 1
        self.cells, self.row_line = [], None

    def start_cell(self, tag: str, attributes: dict[str, str | None], line: int) -> None:
        self.end_cell()
        if self.row_line is None:
            self.row_line = line
        self.cell, self.cell_tag, self.text = attributes, tag, []

    def end_cell(self) -> None:
        """Close the open cell or caption, if there is one."""
        if self.in_caption:
            self.caption, self.in_caption = _clean(self.text), False
        if self.cell is None:
            return
        colspan = _parse_span(self.cell.get("colspan"), _MAX_COLSPAN)
        self.cells.append(
            DraftCell(
                _clean(self.text),
                is_header=self.cell_tag == "th",
                rowspan=_parse_span(self.cell.get("rowspan"), _MAX_ROWSPAN),
                colspan=max(colspan, 1),
            )
        )
        self.cell, self.text = None, []

    def mark(self, tag: str) -> None:
        """Write down what a tag says of the text in a cell."""
        if tag.strip("/") in _MARKED:
            self.text.append(mark_of_tag(tag, "".join(self.text)))

    def change_group(self, *, in_thead: bool) -> None:
        self.end_row()
        self.group += 1
        self.in_thead = in_thead

    def start_caption(self) -> None:
        self.end_cell()
        self.in_caption, self.text = True, []

    def finish(self) -> DraftTable:
        self.end_row()
        heading = (*self.heading, self.caption) if self.caption else self.heading
        n_header = self.n_thead_rows or _count_header_rows(self.rows)
        rows = tuple(self.rows)
        return DraftTable(heading, rows, self.line, n_header, pads=True, prose=self.prose)


class _TableParser(HTMLParser):
    def __init__(self, first_line: int, above: tuple[str, ...]) -> None:
        super().__init__(convert_charrefs=True)
        self._line_offset = first_line - 1
        self._above = above
        self._headings: dict[str, str] = {}
        #: What stood above each ``<details>`` that is open.
        self._folded: list[tuple[tuple[str, ...], dict[str, str]]] = []
        self._heading_text: list[str] | None = None
        self._tables: list[_OpenTable] = []
        self._open: list[_OpenTable] = []
        self._silent = ""
        #: The paragraphs since the last heading or table, the open one among them or not.
        self._prose: list[str] = []
        self._paragraph: list[str] | None = None
        #: How many tables there were where each ``<figure>`` began.
        self._figures: list[int] = []

    def finish(self) -> list[DraftTable]:
        return [table.finish() for table in self._tables]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _NO_TEXT:
            self._silent = tag
        elif tag == "table":
            self._start_table()
        elif self._open:
            self._start_in_table(self._open[-1], tag, dict(attrs))
        elif tag in ("p", "figcaption"):
            self._end_paragraph()
            self._paragraph = []
        elif tag == "figure":
            self._figures.append(len(self._tables))
        elif tag == "details":
            self._folded.append((self._above, self._headings))
            self._above, self._headings = self._path(), {}
        elif tag in _HEADINGS or tag == "summary":
            self._end_paragraph()
            self._heading_text, self._prose = [], []

    def handle_endtag(self, tag: str) -> None:
        if tag == self._silent:
            self._silent = ""
        elif tag == "table" and self._open:
            self._open.pop().end_row()
        elif self._open:
            self._end_in_table(self._open[-1], tag)
        elif tag == "figcaption" and self._figures:
            self._end_caption()
        elif tag == "p":
            self._end_paragraph()
        elif tag == "figure" and self._figures:
            self._figures.pop()
        elif tag == "details" and self._folded:
            self._above, self._headings = self._folded.pop()
        elif tag == "summary" and self._heading_text is not None:
            self._above = (*self._above, *filter(None, [_clean(self._heading_text)]))
            self._heading_text = None
        elif tag in _HEADINGS and self._heading_text is not None:
            self._end_heading(tag)

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        text = _join_lines(data)
        if self._open:
            self._open[-1].text.append(text)
        elif self._heading_text is not None:
            self._heading_text.append(text)
        elif self._paragraph is not None:
            self._paragraph.append(text)

    def _end_paragraph(self) -> None:
        """Keep the paragraph that is open as one of those right above the next table."""
        text, self._paragraph = _clean(self._paragraph or []), None
        if text:
            self._prose = [*self._prose[1 - _MOST_PARAGRAPHS :], text[:_LONGEST_PARAGRAPH]]

    def _end_caption(self) -> None:
        """Give the caption of a figure to its tables, those above it or else those below."""
        tables = self._tables[self._figures[-1] :]
        if not tables:
            self._end_paragraph()
            return
        text, self._paragraph = _clean(self._paragraph or []), None
        for table in tables:
            table.caption = table.caption or text

    def _start_table(self) -> None:
        self._end_paragraph()
        table = _OpenTable(self._line(), self._path(), tuple(self._prose))
        self._prose = []
        self._tables.append(table)
        self._open.append(table)

    def _path(self) -> tuple[str, ...]:
        return (*self._above, *(self._headings[tag] for tag in sorted(self._headings)))

    def _start_in_table(self, table: _OpenTable, tag: str, attrs: dict[str, str | None]) -> None:
        if tag == "tr":
            table.start_row(self._line())
        elif tag in _CELLS:
            table.start_cell(tag, attrs, self._line())
        elif tag in _ROW_GROUPS:
            table.change_group(in_thead=tag == "thead")
        elif tag == "caption":
            table.start_caption()
        elif tag in _LINE_BREAKS:
            table.text.append("\n")
        else:
            table.mark(tag)

    def _end_in_table(self, table: _OpenTable, tag: str) -> None:
        if tag in _CELLS or tag == "caption":
            table.end_cell()
        elif tag == "tr":
            table.end_row()
        elif tag in _ROW_GROUPS:
            table.change_group(in_thead=False)
        else:
            table.mark(f"/{tag}")

    def _end_heading(self, tag: str) -> None:
        text = _clean(self._heading_text or [])
        self._heading_text = None
        self._headings = {level: kept for level, kept in self._headings.items() if level < tag}
        if text:
            self._headings[tag] = text

    def _line(self) -> int:
        return self.getpos()[0] + self._line_offset


def _join_lines(text: str) -> str:
    """Return a text whose line breaks, with the blanks around them, are one space each run.

    A regular expression for it takes time that grows with the square of a run of blanks.
    """
    lines = re.split(r"[\r\n]", text)
    if len(lines) == 1:
        return text
    between = (line.strip(_BLANKS) for line in lines[1:-1])
    return " ".join([lines[0].rstrip(_BLANKS), *filter(None, between), lines[-1].lstrip(_BLANKS)])


def _count_header_rows(rows: list[DraftRow]) -> int:
    """Count the leading rows of header cells alone; one where there are none or no others."""
    with_text = [row for row in rows if any(cell.text for cell in row.cells)]
    for number, row in enumerate(with_text):
        if not all(cell.is_header for cell in row.cells if cell.text):
            return max(number, 1)
    return 1


def _parse_span(text: str | None, limit: int) -> int:
    """Return the number the text begins with, at most `limit`; else 1, as browsers do."""
    found = _LEADING_NUMBER.match(text or "")
    return min(int(found[1]), limit) if found else 1


def _clean(pieces: list[str]) -> str:
    lines = (line.strip() for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
