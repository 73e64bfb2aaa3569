"""Tables of a Jupyter notebook: those of its text, and those that its outputs show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.errors import RegistryError, SourceError
from registry.reading.json_reader import parse_json
from registry.tables.markdown import read_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.tables.raw_table import DraftTable

#: Outputs that can hold a table, the best first; an output shows the same thing in all its forms.
_FORMS = ("text/html", "text/markdown")


def read_notebook(text: str) -> list[DraftTable]:
    """Return the tables of a notebook's Markdown and of its outputs, in order.

    Lines count in the text of these together. Raises SourceError where it is no notebook.
    """
    try:
        document = parse_json(text, origin="notebook")
    except RegistryError as error:
        raise SourceError(str(error).removeprefix("notebook: ")) from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise SourceError("found no list of cells, expected a notebook of version 4")
    pieces = [piece for cell in cells if isinstance(cell, dict) for piece in _pieces(cell)]
    return read_markdown("\n\n".join(pieces))


def _pieces(cell: dict[str, Any]) -> Iterator[str]:
    if cell.get("cell_type") == "markdown":
        yield _join(cell.get("source"))
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        data = output.get("data") if isinstance(output, dict) else None
        form = next((form for form in _FORMS if isinstance(data, dict) and form in data), None)
        if form is not None and isinstance(data, dict):
            yield _join(data[form])


def _join(lines: Any) -> str:
    """Return the text of a field, which may be a list of lines."""
    items = lines if isinstance(lines, list) else [lines]
    return "".join(item for item in items if isinstance(item, str))
