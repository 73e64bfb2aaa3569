"""Tables as a document writes them: text cells in a rectangle, nothing interpreted.

Readers yield `DraftTable`s: rows of cells with their spans, as found. `build_table` lays the spans
out and checks the rectangle, so that a malformed table is an error only where somebody reads it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from registry.errors import SourceError
from registry.tables.inline import plain_text


class TooManyCellsError(SourceError):
    """A document has more cells than can be laid out; none of its tables is read."""


CELL_LIMIT_CHARACTERS = 131_072
"""A longer cell is no cell; the same limit as the csv module's own."""

MOST_CELLS = 1_000_000
"""Cells of a document, spans laid out: fifty thousand rows of twenty; as many take some seconds. A
page of 80 kB can ask for a thousand times its own size by rowspan and colspan."""

MOST_CHARACTERS = 64 * 2**20
"""Characters of a table, spans laid out: a workbook of 9 kB can show one long text in each cell."""

MOST_COLUMNS = 5_000
"""Columns of a table; the widest published one that was read has 41."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell's text, entities decoded and outer white space trimmed.

    `origin` is None for a cell that stands where it was written. A cell that a rowspan or colspan
    put here holds the (row, column) of the cell as written, both counted from 1 over all rows of
    the table, header rows and blank rows included.
    """

    text: str
    origin: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class BodyRow:
    """One body row; `line` is the document's line, counted from 1, where the row begins."""

    line: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class RawTable:
    """One table of a document, rectangular: every row has as many cells as `columns`.

    `index` counts the document's tables from 1 in order of appearance. `heading` is the path of
    headings above the table, then the bold line and the caption where there are such.

    `columns` are the header's paths from top to bottom, without markup, joined by ``" / "``: a
    header of one level keeps its leaf name, `256` under `Sequence Length` is ``Sequence Length /
    256``. A cell that spans header rows counts once, blank header cells do not count, and a column
    without any name is ``column N``. A path that repeats gets its occurrence: ``Time``, ``Time
    (2)``.

    `notes` say what was filled in or left out to make it a rectangle. `problem` says why a table
    cannot be read; it has no columns and rows then. `prose` are the paragraphs right above.
    """

    index: int
    heading: tuple[str, ...]
    header: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    rows: tuple[BodyRow, ...]
    line: int = 1
    notes: tuple[str, ...] = ()
    prose: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class DraftCell:
    """A cell as the reader met it; `rowspan` 0 reaches to the end of its row group."""

    text: str
    is_header: bool = False
    rowspan: int = 1
    colspan: int = 1


@dataclass(frozen=True, slots=True)
class DraftRow:
    """A row as the reader met it; spans do not reach from one row `group` into the next."""

    line: int
    cells: tuple[DraftCell, ...]
    group: int = 0


@dataclass(frozen=True)
class DraftTable:
    """A table before its spans are laid out; `n_header_rows` is the reader's finding.

    `pads` says that the format fills short rows with empty cells and leaves surplus ones out.
    `prose` are the paragraphs right above.
    """

    heading: tuple[str, ...]
    rows: tuple[DraftRow, ...]
    line: int
    n_header_rows: int = 1
    names_may_repeat: bool = True
    pads: bool = False
    prose: tuple[str, ...] = ()


def build_table(draft: DraftTable, index: int, n_header_rows: int | None = None) -> RawTable:
    """Lay the draft's spans out and check that the table is a rectangle with names.

    `n_header_rows` overrides what the reader found. Raises SourceError for a row that is shorter or
    longer than the header, spans that overlap, a cell over the limit and a name that repeats.
    """
    _validate_width(draft)
    grid = _lay_out(draft.rows)
    kept = [
        BodyRow(written.line, cells)
        for written, cells in zip(draft.rows, grid, strict=True)
        if not _is_blank(written, cells)
    ]
    n_header = draft.n_header_rows if n_header_rows is None else n_header_rows
    if not 1 <= n_header <= len(kept):
        raise SourceError(
            f"line {draft.line}: found {len(kept)} rows with text, expected {n_header} header "
            "rows; give at least one header row and no more than the table has"
        )
    width = len(kept[0].cells)
    notes: list[str] = []
    if draft.pads:
        kept = [_fit(row, width, notes) for row in kept]
    for row in kept:
        _validate_row(row, width)
    header = kept[:n_header]
    return RawTable(
        index=index,
        heading=draft.heading,
        header=tuple(tuple(cell.text for cell in row.cells) for row in header),
        columns=_name_columns(header, names_may_repeat=draft.names_may_repeat),
        rows=tuple(kept[n_header:]),
        line=draft.line,
        notes=tuple(notes),
        prose=draft.prose,
    )


def _validate_width(draft: DraftTable) -> None:
    width = max(_width(draft.rows), *(len(row.cells) for row in draft.rows), 0)
    if width > MOST_COLUMNS:
        raise SourceError(
            f"line {draft.line}: found {width} columns, expected at most {MOST_COLUMNS}; split the "
            "table"
        )


def broken_table(draft: DraftTable, index: int, problem: str) -> RawTable:
    """Return what stands for a table that cannot be read."""
    return RawTable(index, draft.heading, (), (), (), line=draft.line, problem=problem)


def _fit(row: BodyRow, width: int, notes: list[str]) -> BodyRow:
    """Return a row with as many cells as the header, as GitHub shows it, and note what differs."""
    n_missing = width - len(row.cells)
    if not n_missing:
        return row
    surplus = [cell.text for cell in row.cells[width:] if cell.text]
    if n_missing > 0:
        notes.append(f"line {row.line}: {n_missing} cells missing at the end, taken as empty")
    elif surplus:
        notes.append(f"line {row.line}: cells beyond the header left out: {surplus!r:.80}")
    return BodyRow(row.line, (row.cells + (Cell(""),) * n_missing)[:width])


def _lay_out(rows: tuple[DraftRow, ...]) -> list[tuple[Cell, ...]]:
    width = _width(rows)
    grid: list[dict[int, Cell]] = [{} for _ in rows]
    ends = _group_ends(rows)
    n_cells = n_characters = 0
    for number, row in enumerate(rows):
        if not grid[number] and all(cell.rowspan == cell.colspan == 1 for cell in row.cells):
            grid[number] = {place: Cell(cell.text) for place, cell in enumerate(row.cells)}
            n_cells += len(row.cells)
            n_characters += sum(len(cell.text) for cell in row.cells)
            validate_cell_count(n_cells, row.line, n_characters)
            continue  # nothing to lay out, and several times as fast
        column = 0
        for cell in row.cells:
            while column in grid[number]:
                column += 1
            # a span past the table's right or lower edge is sloppy but clear: it ends at the edge
            n_columns = min(cell.colspan, max(1, width - column))
            end = min(number + cell.rowspan, ends[number]) if cell.rowspan else ends[number]
            n_cells += (end - number) * n_columns
            n_characters += (end - number) * n_columns * len(cell.text)
            validate_cell_count(n_cells, row.line, n_characters)
            _place(cell, grid[number:end], column, n_columns, at=(number + 1, row.line))
            column += n_columns
    return [tuple(cells[column] for column in sorted(cells)) for cells in grid]


def validate_cell_count(n_cells: int, line: int, n_characters: int = 0) -> None:
    """Raise SourceError where tables have too many cells, or too much in them."""
    if n_characters > MOST_CHARACTERS:
        raise TooManyCellsError(
            f"line {line}: found more than {MOST_CHARACTERS} characters in cells, expected tables "
            "for people; split the document, or shorten the text that many cells show"
        )
    if n_cells > MOST_CELLS:
        raise TooManyCellsError(
            f"line {line}: found more than {MOST_CELLS} cells, expected tables for people; split "
            "the document, or correct rowspan and colspan"
        )


def _width(rows: tuple[DraftRow, ...]) -> int:
    """Return the width of the first row that has text: the header's."""
    with_text = (row for row in rows if any(cell.text for cell in row.cells))
    first = next(with_text, None)
    return sum(cell.colspan for cell in first.cells) if first else 0


def _group_ends(rows: tuple[DraftRow, ...]) -> list[int]:
    """Return for each row the number of the row after its group's last."""
    ends = [len(rows)] * len(rows)
    for number in range(len(rows) - 2, -1, -1):
        same_group = rows[number].group == rows[number + 1].group
        ends[number] = ends[number + 1] if same_group else number + 1
    return ends


def _place(
    cell: DraftCell,
    rows: list[dict[int, Cell]],
    column: int,
    n_columns: int,
    *,
    at: tuple[int, int],
) -> None:
    row_number, line = at
    origin = (row_number, column + 1)
    for down, cells in enumerate(rows):
        for place in range(column, column + n_columns):
            if place in cells:
                raise SourceError(
                    f"line {line}: the spans of {cells[place].text!r} and of {cell.text!r} overlap "
                    f"in column {place + 1}, expected one cell there; correct rowspan or colspan"
                )
            is_written_here = down == 0 and place == column
            cells[place] = Cell(cell.text, None if is_written_here else origin)


def _is_blank(written: DraftRow, cells: tuple[Cell, ...]) -> bool:
    return not written.cells or not any(cell.text for cell in cells)


def _validate_row(row: BodyRow, width: int) -> None:
    if len(row.cells) != width:
        raise SourceError(
            f"line {row.line}: found {len(row.cells)} cells, expected {width} as in the header; "
            "write one cell for each column, an empty one too, and a blank line after the table"
        )
    for number, cell in enumerate(row.cells, start=1):
        if len(cell.text) > CELL_LIMIT_CHARACTERS:
            raise SourceError(
                f"line {row.line}: found {len(cell.text)} characters in cell {number}, expected at "
                f"most {CELL_LIMIT_CHARACTERS}; check for a quote or tag that is not closed"
            )


def _name_columns(header: list[BodyRow], *, names_may_repeat: bool) -> tuple[str, ...]:
    paths = [_path(header, column) for column in range(len(header[0].cells))]
    if names_may_repeat:
        paths = _number_repeats(paths)
    repeated = [name for name, count in Counter(paths).items() if count > 1]
    if repeated:
        raise SourceError(
            f"line {header[0].line}: found column {repeated[0]!r} {paths.count(repeated[0])} "
            "times, expected names that differ; rename the columns"
        )
    return tuple(paths)


def _path(header: list[BodyRow], column: int) -> str:
    """Join the column's header cells; one that a rowspan brought from above counts once."""
    levels: list[str] = []
    above: Cell | None = None
    for row in header:
        cell = row.cells[column]
        if cell.text and not _continues(cell, above, column):
            levels.append(plain_text(cell.text))
        above = cell
    return " / ".join(levels) or f"column {column + 1}"


def _continues(cell: Cell, above: Cell | None, column: int) -> bool:
    if cell.origin is None or above is None:
        return False
    return cell.origin[1] == column + 1 or cell.origin == above.origin


def _number_repeats(names: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered
