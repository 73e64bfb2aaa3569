"""Read what the title of a table says of its runs, where tables that are alike differ in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.tables.guess import guess_setting
from registry.tables.guess_words import read_settings
from registry.tables.header import spoken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from registry.tables.raw_table import RawTable

#: A setting and its number: ``batch_size = 4``, ``seq len: 512``.
_ASSIGNED: Final = re.compile(r"([A-Za-z][A-Za-z_ ]*?)\s*[=:\uff1a]\s*([0-9]{1,7})(?![0-9.,kKM])")
#: Settings that are plain numbers.
_NUMBERS: Final = (
    *("micro_batch_size", "global_batch_size", "seq_len", "grad_accum_steps", "n_gpus"),
    *("lora_rank", "lora_alpha", "tensor_parallel", "pipeline_parallel"),
)


def title_of_table(table: RawTable) -> str | None:
    """Return the two nearest headings above a table, None without one."""
    return " / ".join(table.heading[-2:]) or None


def titles_apart(table: RawTable, tables: Sequence[RawTable]) -> list[str]:
    """Return the headings above a table that tell it from others of the same columns."""
    others = [set(o.heading) for o in tables if o.columns == table.columns and o.heading]
    return [one for one in table.heading if any(one not in other for other in others)]


def read_titles(titles: Iterable[str]) -> dict[str, Any]:
    """Return the settings that titles say of all rows of a table; the last says most.

    >>> read_titles(["NF4", "batch_size = 4"])
    {'quant_bits': 4, 'quant_type': 'nf4', 'micro_batch_size': 4}
    """
    said: dict[str, Any] = {}
    for title in titles:
        said |= read_settings(title).said
        said |= dict(read_assigned(title))
    return said


def read_assigned(text: str) -> Iterator[tuple[str, int]]:
    """Yield the settings to which a text such as ``Memory (GB) @ BS=1`` assigns a number."""
    for name, number in _ASSIGNED.findall(text):
        setting = guess_setting(spoken(name))
        if setting in _NUMBERS:
            yield setting, int(number)
