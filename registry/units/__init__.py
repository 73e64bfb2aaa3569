"""Units: text to value objects which keep what was written, and back to text for people.

Every ``parse_`` function gives an object or a ``UnitError`` that starts with the place.
"""

from __future__ import annotations

from registry.units.cell import (
    MarkedText,
    OutcomeWord,
    parse_outcome_word,
    split_cell,
    split_remark,
    strip_markup,
)
from registry.units.count import parse_count
from registry.units.duration import CLOCK_READINGS, parse_duration
from registry.units.figure import TIME_OF, format_figure, parse_figure, parse_quantity
from registry.units.glued import GLUED_PATTERNS, split_glued
from registry.units.memory import MemoryOptions, parse_memory
from registry.units.memory_list import parse_memory_list
from registry.units.number import rounding_half_width
from registry.units.quantity import Quantity
from registry.units.rate import Rate, RateEvidence, parse_rate
from registry.units.related import (
    Disagreement,
    Figure,
    RelatedFigures,
    check_related,
    figure_of,
)
from registry.units.text import format_duration, format_memory

__all__ = [
    "CLOCK_READINGS",
    "GLUED_PATTERNS",
    "TIME_OF",
    "Disagreement",
    "Figure",
    "MarkedText",
    "MemoryOptions",
    "OutcomeWord",
    "Quantity",
    "Rate",
    "RateEvidence",
    "RelatedFigures",
    "check_related",
    "figure_of",
    "format_duration",
    "format_figure",
    "format_memory",
    "parse_count",
    "parse_duration",
    "parse_figure",
    "parse_memory",
    "parse_memory_list",
    "parse_outcome_word",
    "parse_quantity",
    "parse_rate",
    "rounding_half_width",
    "split_cell",
    "split_glued",
    "split_remark",
    "strip_markup",
]
