"""Amounts of memory: text to whole bytes, exactly, with the readings that physics allows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from registry.errors import UnitError
from registry.units.known import Unit, granularity, parse_unit, units_by_symbol
from registry.units.number import (
    NUMBER,
    count_decimals,
    parse_number,
    strip_bold,
    unit_error,
    validate_reason,
)
from registry.units.quantity import Quantity

if TYPE_CHECKING:
    from fractions import Fraction

_EXPECTED = "an amount of memory such as '36.6G', '20822MiB' or '144 GB+'"
_SHOWN_BY = "the source or its producer"
_MEMORY = re.compile(rf"(?P<number>{NUMBER})(?P<early>\+)?\s*(?P<label>[^\W\d_]+)?\s*(?P<more>\+)?")


class UnitOptions(TypedDict, total=False):
    """What a source's mapping knows about the figures of a column.

    Attributes:
        default_unit: the unit of a bare number, from the header or the prose.
        read_as: the reading of a label that custom leaves open, such as ``MiB`` for ``MB``.
        reason: why; required with either of them.
    """

    default_unit: str | None
    read_as: str | None
    reason: str | None


class MemoryOptions(UnitOptions, total=False):
    """What it also knows about figures of memory.

    Attributes:
        capacity_bytes: memory of all cards the figure is about; no peak exceeds it.
        allow_over_capacity: take a figure above the capacity all the same.
    """

    capacity_bytes: int | None
    allow_over_capacity: bool


@dataclass(frozen=True, slots=True)
class _Figure:
    """A memory text taken apart: the number, its label or None, and whether it is a lower bound."""

    raw: str
    digits: str
    number: Fraction
    label: str | None
    is_lower_bound: bool


def parse_memory(text: str, *, where: str, **options: Unpack[MemoryOptions]) -> Quantity[int]:
    """Read one amount of memory, in bytes.

    ``KiB`` to ``TiB`` are binary; ``KB`` to ``TB`` and ``G``, ``M``, … are decimal unless
    ``read_as`` says otherwise. The arithmetic is exact; a remainder below one byte is rounded half
    to even. ``low`` and ``high`` span the decimal and the binary reading of a decimal label, less
    those which exceed ``capacity_bytes`` or are no multiple of an allocator's blocks. ``144 GB+``
    is a lower bound: its ``high`` is None.

    >>> parse_memory("36.6G", where="row 1").value
    36600000000
    >>> parse_memory("1.5GiB", where="row 1").value
    1610612736

    Raises:
        UnitError: the text is no amount of memory, its unit is missing or not known, a reading
            lacks its reason, or the reading taken is physically impossible. The message starts
            with ``where``.
    """
    figure = _parse_figure(text, where=where)
    written = _written_unit(figure, options, where=where)
    reading = _chosen_reading(written, options, where=where)
    by_mapping = figure.label is None or (written.also is not None and bool(options.get("read_as")))
    _validate_reading(figure, written, reading, options, where=where)
    possible = _possible_values(figure, written, options) | {_bytes(figure, reading)}
    return Quantity(
        value=_bytes(figure, reading),
        unit="byte",
        raw=text,
        unit_as_written=figure.label,
        reading=reading.symbol,
        reason=options.get("reason") if by_mapping else None,
        low=min(possible),
        high=None if figure.is_lower_bound else max(possible),
    )


def _parse_figure(text: str, *, where: str) -> _Figure:
    bare = strip_bold(text, where=where, expected=_EXPECTED)
    found = _MEMORY.fullmatch(bare)
    if found is None:
        raise unit_error(where, text, _EXPECTED)
    number = parse_number(found["number"], where=where)
    return _Figure(
        text, found["number"], number, found["label"], bool(found["early"] or found["more"])
    )


def _written_unit(figure: _Figure, options: MemoryOptions, *, where: str) -> Unit:
    if figure.label is not None:
        return parse_unit(figure.label, "memory", where=where)
    default = options.get("default_unit")
    if default is None:
        raise unit_error(
            where, figure.raw, f"{_EXPECTED}: a number alone needs a default unit and its reason"
        )
    validate_reason(
        options.get("reason"), f"the default unit {default!r}", where=where, shown_by=_SHOWN_BY
    )
    return parse_unit(default, "memory", where=where)


def _chosen_reading(written: Unit, options: MemoryOptions, *, where: str) -> Unit:
    read_as = options.get("read_as")
    if read_as is None or written.also is None:
        return written
    validate_reason(
        options.get("reason"), f"the reading {read_as!r}", where=where, shown_by=_SHOWN_BY
    )
    if read_as not in (written.symbol, written.also):
        raise UnitError(
            f"{where}: found the reading {read_as!r} for a figure in {written.symbol}, expected "
            f"{written.symbol!r} or {written.also!r}"
        )
    return units_by_symbol("memory")[read_as]


def _validate_reading(
    figure: _Figure, written: Unit, reading: Unit, options: MemoryOptions, *, where: str
) -> None:
    value, capacity = _bytes(figure, reading), options.get("capacity_bytes")
    if capacity is not None and value > capacity and not options.get("allow_over_capacity"):
        raise UnitError(
            f"{where}: found {figure.raw!r}, read as {reading.symbol} {value} bytes, expected at "
            f"most the {capacity} bytes of the cards; correct the unit or the cards, or flag the "
            "figure as over capacity"
        )
    if options.get("read_as") is None and _is_printed_in_binary(figure, reading):
        raise UnitError(
            f"{where}: found {figure.raw!r}, which in {written.symbol} is not a whole number of "
            f"memory blocks and in {written.also} is one, expected a stated reading; read it as "
            f"{written.also!r} and give the reason"
        )


def _possible_values(figure: _Figure, written: Unit, options: MemoryOptions) -> set[int]:
    """Return the values in bytes of the readings which neither capacity nor blocks exclude."""
    symbols = units_by_symbol("memory")
    readings = [written] if written.also is None else [written, symbols[written.also]]
    kept = {_bytes(figure, unit) for unit in readings if not _is_printed_in_binary(figure, unit)}
    capacity = options.get("capacity_bytes")
    return kept if capacity is None else {value for value in kept if value <= capacity}


def _is_printed_in_binary(figure: _Figure, unit: Unit) -> bool:
    """Whether allocators' block sizes exclude a decimal unit for a figure."""
    if unit.also is None:
        return False
    blocks = granularity()
    return (
        count_decimals(figure.digits) >= blocks.min_decimals
        and figure.number.denominator != 1
        and (figure.number * blocks.fraction).denominator == 1
        and (figure.number * unit.factor / blocks.block_bytes).denominator != 1
    )


def _bytes(figure: _Figure, unit: Unit) -> int:
    return round(figure.number * unit.factor)
