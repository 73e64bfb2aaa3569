"""Find the columns of a table that tell apart rows which are alike in all that a draft reads."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from registry.tables.cell_reader import bare_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from registry.tables.raw_table import RawTable

#: Figures that follow from a run, and what numbers the rows: no settings.
NO_SETTING: Final = re.compile(
    r"(?i)loss|acc\b|accura|score|bleu|rouge|ppl|perplex|\bf1\b|mmlu|win.?rate|reward|seed|"
    r"^(?:#|no\.?|id|run|index)$|util|power|watt|temp|mfu|price|cost|\$|note|comment|remark"
)

_EXPONENT: Final = re.compile(r"(?<=[0-9])[eE](?=[+-]?[0-9])")


def find_untold(
    table: RawTable, meanings: Mapping[str, Mapping[str, str]], unread: Sequence[str]
) -> list[str]:
    """Return the columns not read in which rows differ that say the same in all others.

    ``meanings`` is what each text says in the columns that are read. Columns of texts are asked
    before those of numbers, which are more often results.
    """
    rows = [
        {name: cell.text for name, cell in zip(table.columns, row.cells, strict=False)}
        for row in table.rows
    ]
    said = [tuple(known.get(row[name], "") for name, known in meanings.items()) for row in rows]
    asks = [name for name in unread if not NO_SETTING.search(name)]
    asked: list[str] = []
    for name in sorted(asks, key=lambda name: all(is_number(row[name]) for row in rows)):
        keys = [(*one, *(row[o] for o in asked)) for one, row in zip(said, rows, strict=True)]
        if _differ_in_one(keys, [bare_text(row[name]) for row in rows]):
            asked.append(name)
    return asked


def _differ_in_one(keys: Iterable[tuple[str, ...]], texts: Iterable[str]) -> bool:
    """Return whether rows of one key have different texts."""
    by_key: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for key, text in zip(keys, texts, strict=True):
        by_key[key].add(text)
    return any(len(said) > 1 for said in by_key.values())


def is_number(text: str) -> bool:
    """Return whether a cell has no letters: a number, or a mark such as ``-``.

    >>> is_number("1.33e-8"), is_number("8 GPUs")
    (True, False)
    """
    return re.search(r"[^\W\d_]", _EXPONENT.sub("", bare_text(text))) is None
