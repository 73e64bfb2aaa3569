"""Decimal marks: ``22,5`` and ``1.024,5`` where a mapping says so, and what is said by neither."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from registry.errors import UnitError
from registry.tables.cell_reader import bare_text
from registry.tables.matching import pivot_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.tables.column_spec import ColumnSpec, FigureSpec
    from registry.tables.matching import FoundTable

_TOKEN: Final = re.compile(r"[0-9]+(?:(?:[.,'\u00a0\u202f]| (?=[0-9]{3}(?![0-9])))[0-9]+)*")
_WITH_COMMA: Final = re.compile(r"(?:[0-9]{1,3}(?:[.' \u00a0\u202f][0-9]{3})+|[0-9]+)(?:,[0-9]+)?")
_DECIMAL_COMMA: Final = re.compile(
    r"(?<![0-9.,])(?:[0-9]{1,3}(?:\.[0-9]{3})+|[0-9]+),[0-9]{1,2}(?![0-9.,])"
    r"|(?<![0-9.,])0,[0-9]+(?![0-9.,])"
)
_EITHER: Final = re.compile(r"(?<![0-9.,])[0-9]{1,3}([.,])[0-9]{3}(?![0-9.,])")


def has_decimal_comma(text: str) -> bool:
    """Return whether a figure can only have a decimal comma.

    >>> has_decimal_comma("22,5 GB"), has_decimal_comma("22,500"), has_decimal_comma("1.024,5")
    (True, False, True)
    """
    return _DECIMAL_COMMA.search(text) is not None


def find_open_mark(text: str) -> str | None:
    """Return the mark of a figure that may stand for decimals or for thousands, None for none.

    >>> find_open_mark("22,500"), find_open_mark("1.082 s"), find_open_mark("22,5")
    (',', '.', None)
    """
    found = _EITHER.search(text)
    return None if found is None else found[1]


def read_decimal_commas(text: str, *, where: str) -> str:
    """Return a text whose decimal mark is the comma with points and without marks of thousands.

    >>> read_decimal_commas("1.024,5 GB", where="row 1"), read_decimal_commas("4 653,2", where="")
    ('1024.5 GB', '4653.2')

    Raises:
        UnitError: a number has a point where no thousands end.
    """

    def convert(found: re.Match[str]) -> str:
        if _WITH_COMMA.fullmatch(found[0]) is None:
            raise UnitError(
                f"{where}: found {found[0]!r}, expected a number such as '22,5' or '1.024,5', as "
                "the mapping states `decimal: ','`"
            )
        return re.sub(r"[.' \u00a0\u202f]", "", found[0]).replace(",", ".")

    return _TOKEN.sub(convert, text)


def find_decimal_comma(tables: Iterable[FoundTable]) -> str | None:
    """Return the first figure of some tables that can only have a decimal comma, or None."""
    return next((text for text in _figures(tables) if has_decimal_comma(text)), None)


def _figures(tables: Iterable[FoundTable]) -> Iterator[str]:
    for found in tables:
        pivoted = {n: p.cell for p in found.spec.pivot for n in pivot_labels(found.table, p)}
        for name, spec in {**found.columns, **pivoted}.items():
            if name in found.table.columns and _holds_plain_figures(spec):
                place = found.table.columns.index(name)
                yield from (bare_text(row.cells[place].text) for row in found.table.rows)


def _holds_plain_figures(spec: ColumnSpec) -> bool:
    """Return whether cells are figures, and not lists of them between commas."""
    is_list = spec.card_list or spec.cards_separator is not None or "," in spec.separator
    return bool(spec.figures) and not is_list


def check_decimal(text: str, figure: FigureSpec, comma: str | None, *, where: str) -> None:
    """Raise UnitError for a figure such as ``22,500`` or ``1.082`` in a document with ``22,5``.

    ``comma`` is a figure of the document with a decimal comma; None where there is none.
    """
    mark = find_open_mark(text)
    if comma is None or figure.decimal is not None or mark is None:
        return
    what, other = ("comma", ".") if mark == "," else ("point", ",")
    raise UnitError(
        f"{where}: found {text!r} in a document that writes {comma!r}, expected to be told what "
        f"the {what} is; state `decimal: '{mark}'` of the figure, or `decimal: '{other}'` where "
        f"the {what} is that of thousands"
    )
