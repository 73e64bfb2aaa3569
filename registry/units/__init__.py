"""Units: text to value objects which keep what was written, and back to text for people.

Every ``parse_`` function gives an object or a ``UnitError`` that starts with the place.
"""

from __future__ import annotations

from registry.units.bound import split_bound
from registry.units.cell import (
    OutcomeWord,
    find_failure,
    parse_outcome_word,
    split_card_list,
    split_cell,
    split_remark,
    strip_markup,
    ways_to_split,
)
from registry.units.count import parse_count
from registry.units.duration import parse_duration
from registry.units.figure import TIME_OF, format_figure, parse_figure, parse_quantity
from registry.units.glued import GLUED_PATTERNS, split_glued
from registry.units.memory import parse_memory
from registry.units.range import figures_in, is_cut, split_change
from registry.units.rate import parse_rate, parse_totals, split_several
from registry.units.related import Figure, check_related, figure_of
from registry.units.text import format_duration, format_memory

__all__ = [
    "GLUED_PATTERNS",
    "TIME_OF",
    "Figure",
    "OutcomeWord",
    "check_related",
    "figure_of",
    "figures_in",
    "find_failure",
    "format_duration",
    "format_figure",
    "format_memory",
    "is_cut",
    "parse_count",
    "parse_duration",
    "parse_figure",
    "parse_memory",
    "parse_outcome_word",
    "parse_quantity",
    "parse_rate",
    "parse_totals",
    "split_bound",
    "split_card_list",
    "split_cell",
    "split_change",
    "split_glued",
    "split_remark",
    "split_several",
    "strip_markup",
    "ways_to_split",
]
