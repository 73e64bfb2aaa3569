from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from registry.contract.resources import read_yaml, schemas_dir
from registry.errors import ContractError
from registry.units import parse_count, parse_duration, parse_memory

PLACE = "row 1"


def test_equality_is_of_amounts_not_of_spellings() -> None:
    assert parse_memory("1GiB", where=PLACE) == parse_memory("1024 MiB", where=PLACE)
    assert len({parse_memory("1GiB", where=PLACE), parse_memory("1024 MiB", where=PLACE)}) == 1


def test_seconds_and_bytes_have_no_order() -> None:
    second, byte = parse_duration("1s", where=PLACE), parse_memory("1B", where=PLACE)
    assert second != byte
    with pytest.raises(TypeError):
        assert second < byte


def test_a_quantity_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        parse_count("1", where=PLACE).value = 2  # type: ignore[misc]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_no_quantity_is_negative_or_endless(value: float) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        replace(parse_duration("1s", where=PLACE), value=value, low=value, high=value)


def test_bounds_enclose_the_value() -> None:
    with pytest.raises(ValueError, match="no quantity"):
        replace(parse_count("5", where=PLACE), high=4)


def test_the_contract_lies_where_it_is_looked_for() -> None:
    assert (schemas_dir() / "units.yaml").is_file()
    assert "byte" in read_yaml("units.yaml")["canonical"]


def test_a_missing_part_of_the_contract_is_named() -> None:
    with pytest.raises(ContractError) as caught:
        read_yaml("no-such.yaml")
    assert str(caught.value) == (
        f"{schemas_dir() / 'no-such.yaml'}: found no readable file (No such file or directory), "
        "expected a part of the contract; install the package again"
    )


def test_importing_the_units_reads_no_yaml() -> None:
    code = (
        "import sys, registry.units; from registry.contract.resources import read_yaml; "
        "sys.exit(read_yaml.cache_info().currsize)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=False, cwd=schemas_dir().parent
        ).returncode
        == 0
    )


def test_quantities_order_by_value_then_low_then_high() -> None:
    plain = parse_count("5", where=PLACE)
    lower, higher = replace(plain, low=4), replace(plain, high=6)
    endless = replace(plain, high=None)
    larger = parse_count("6", where=PLACE)
    assert sorted([larger, endless, higher, plain, lower]) == [
        lower,
        plain,
        higher,
        endless,
        larger,
    ]


def test_what_is_written_does_not_make_two_of_one_quantity() -> None:
    plain = parse_count("5", where=PLACE)
    other = replace(plain, raw="five", unit_as_written="x", reading="k", reason="so")
    assert plain == other
    assert plain != replace(plain, low=4)
    assert plain != replace(plain, high=6)
    assert plain != replace(plain, unit="byte")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"low": 6}, "no quantity: value 5, low 6"),
        ({"low": -1}, "no quantity: value 5, low -1"),
        ({"high": 4}, "no quantity: value 5, high 4"),
        ({"high": float("inf")}, "no quantity: value 5, high inf"),
    ],
)
def test_what_no_parser_may_build_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="no quantity") as caught:
        replace(parse_count("5", where=PLACE), **changes)
    assert str(caught.value) == message


def test_a_quantity_and_a_bare_number_have_no_order() -> None:
    with pytest.raises(TypeError):
        assert parse_count("5", where=PLACE) < 6


def test_no_quantity_is_endless_without_a_high_bound_either() -> None:
    with pytest.raises(ValueError, match="no quantity: value inf"):
        replace(parse_duration("1s", where=PLACE), value=float("inf"), high=None)
