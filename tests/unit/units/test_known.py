from __future__ import annotations

import pytest

from registry.errors import ContractError, UnitError
from registry.units import known, parse_count, parse_duration, parse_memory, parse_rate
from registry.units.known import (
    parse_unit,
    rate_units_by_spelling,
    units_by_spelling,
    units_by_symbol,
)

PLACE = "row 1"


def test_every_spelling_of_the_contract_is_read() -> None:
    for label, unit in units_by_spelling("memory").items():
        assert parse_memory(f"3{label}", where=PLACE).value == 3 * unit.factor
    for label, unit in units_by_spelling("duration").items():
        assert parse_duration(f"3 {label}", where=PLACE).value == float(3 * unit.factor)
    for label, rate_unit in rate_units_by_spelling().items():
        assert parse_rate(f"3 {label}", where=PLACE).quantity.reading == rate_unit.symbol
    for label, unit in units_by_spelling("count").items():
        if label != "1":
            assert parse_count(f"3{label}", where=PLACE).value == 3 * unit.factor


def test_the_other_reading_of_a_label_is_the_larger_one() -> None:
    units = units_by_symbol("memory")
    for unit in units.values():
        if unit.also is not None:
            assert 1 < units[unit.also].factor / unit.factor < 1.1


def test_durations_stand_from_the_longest_to_the_shortest() -> None:
    factors = [unit.factor for unit in units_by_symbol("duration").values()]
    assert factors == sorted(factors, reverse=True)


def test_an_unknown_unit_is_named_with_the_nearest() -> None:
    with pytest.raises(UnitError) as caught:
        parse_unit("GiBB", "memory", where=PLACE)
    assert str(caught.value) == (
        "row 1: found unit 'GiBB', expected a unit of memory "
        "(B, KB, MB, GB, TB, KiB, MiB, GiB, TiB); did you mean 'GiB'?"
    )


def test_a_spelling_of_two_units_is_a_fault_of_the_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units = {"a": {"factor": 1, "spellings": ["x"]}, "b": {"factor": 2, "spellings": ["x"]}}
    monkeypatch.setattr(known, "read_yaml", lambda _name: {"count": {"units": units}})
    with pytest.raises(ContractError) as caught:
        units_by_spelling.__wrapped__("count")
    assert str(caught.value) == (
        "schemas/units.yaml: count: found x in two places, expected each spelling once"
    )
