"""The units and labels of ``schemas/units.yaml`` as typed objects, read on first use."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from registry.contract.resources import read_yaml
from registry.errors import ContractError, UnitError, did_you_mean

Dimension = Literal["memory", "duration", "rate", "count"]
What = Literal["step", "sample", "token"]


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit: its symbol, and how many canonical units it holds.

    ``also`` is the symbol of the other reading that custom leaves open, None where there is none.
    """

    symbol: str
    factor: Fraction
    also: str | None = None


@dataclass(frozen=True, slots=True)
class RateUnit:
    """One unit of speed: of what, as which canonical unit, and whether it is one GPU's share.

    ``factor`` is how many canonical units it holds.
    """

    symbol: str
    what: What
    unit: str
    per_gpu: bool
    factor: Fraction


@dataclass(frozen=True, slots=True)
class Granularity:
    """How allocators' block sizes tell a binary figure from a decimal one."""

    block_bytes: int
    fraction: int
    min_decimals: int


@lru_cache(maxsize=8)
def units_by_spelling(dimension: Dimension) -> dict[str, Unit]:
    """Return every spelling of the units of a dimension, in the order of the contract."""
    return {
        spelling: Unit(symbol, Fraction(entry["factor"]), entry.get("also"))
        for symbol, entry in _entries(dimension).items()
        for spelling in entry["spellings"]
    }


@lru_cache(maxsize=8)
def units_by_symbol(dimension: Dimension) -> dict[str, Unit]:
    """Return the units of a dimension by symbol, in the order of the contract."""
    return {unit.symbol: unit for unit in units_by_spelling(dimension).values()}


@lru_cache(maxsize=1)
def rate_units_by_spelling() -> dict[str, RateUnit]:
    """Return every spelling of the units of speed."""
    return {
        spelling: RateUnit(
            symbol,
            entry["what"],
            entry["unit"],
            entry.get("per_gpu", False),
            Fraction(entry.get("factor", 1)),
        )
        for symbol, entry in _entries("rate").items()
        for spelling in entry["spellings"]
    }


@lru_cache(maxsize=1)
def granularity() -> Granularity:
    """Return the block sizes of the contract."""
    return Granularity(**read_yaml("units.yaml")["memory"]["granularity"])


def parse_unit(label: str, dimension: Dimension, *, where: str) -> Unit:
    """Return the unit which a label spells.

    Raises:
        UnitError: no unit of this dimension is spelled so.
    """
    known = units_by_spelling(dimension)
    if label not in known:
        raise unknown_unit(label, dimension, list(units_by_symbol(dimension)), where=where)
    return known[label]


def unknown_unit(label: str, dimension: str, symbols: list[str], *, where: str) -> UnitError:
    """Return the error for a label that spells no unit of a dimension."""
    return UnitError(
        f"{where}: found unit {label[:40]!r}, expected a unit of {dimension} "
        f"({', '.join(symbols)}){did_you_mean(label[:40], symbols)}"
    )


def _entries(dimension: Dimension) -> dict[str, Any]:
    entries: dict[str, Any] = read_yaml("units.yaml")[dimension]["units"]
    spellings = [spelling for entry in entries.values() for spelling in entry["spellings"]]
    twice = sorted({spelling for spelling in spellings if spellings.count(spelling) > 1})
    if twice:
        raise ContractError(
            f"schemas/units.yaml: {dimension}: found {', '.join(twice)} in two places, expected "
            "each spelling once"
        )
    return entries
