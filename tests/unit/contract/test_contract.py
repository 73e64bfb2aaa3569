"""The contract's files are whole, and contradict neither themselves nor the design's promises."""

from __future__ import annotations

import pytest

from registry.contract import (
    TABLES,
    load_metrics,
    load_rules,
    load_table,
    load_vocabularies,
    read_view,
    tables,
    view_names,
    vocabulary,
)
from registry.contract.resources import read_yaml, schemas_dir
from registry.errors import ContractError


def test_every_table_has_its_file_and_every_file_its_table() -> None:
    files = {path.stem for path in (schemas_dir() / "tables").glob("*.yaml")}
    assert files == set(TABLES)
    assert all(load_table(name).name == name for name in TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_keys_vocabularies_and_references_exist(name: str) -> None:
    table = load_table(name)
    assert set(table.key) <= set(table.names)
    assert len(set(table.names)) == len(table.names)
    for column in table.columns:
        assert column.vocabulary is None or vocabulary(column.vocabulary)
        assert column.meaning.endswith(".")
        if column.references:
            assert TABLES.index(column.references) < TABLES.index(name)


@pytest.mark.parametrize("name", TABLES)
def test_bare_figures_carry_their_unit_in_the_name_or_in_the_contract(name: str) -> None:
    for column in load_table(name).columns:
        if column.name.endswith("_bytes"):
            assert column.unit == "byte"


def test_every_vocabulary_is_used() -> None:
    used = {column.vocabulary for name in TABLES for column in load_table(name).columns}
    assert set(load_vocabularies()) <= used


def test_metrics_have_one_unit_each() -> None:
    metrics = load_metrics()
    assert metrics["peak_memory"].unit == "byte"
    assert metrics["step_time"].unit == "second"
    assert all(metric.unit for metric in metrics.values())


def test_rules_say_what_is_expected_and_the_way_out() -> None:
    assert all(rule.expected and rule.way_out for rule in load_rules())
    assert len({rule.name for rule in load_rules()}) == len(load_rules())


def test_views_are_one_select_each_and_results_comes_first() -> None:
    assert view_names()[0] == "results"
    assert set(view_names()) == set(read_yaml("views.yaml"))
    for name in view_names():
        assert ";" not in read_view(name)


def test_an_unknown_type_or_attribute_in_a_table_is_told() -> None:
    with pytest.raises(ContractError) as caught:
        tables._column("models", {"name": "x", "type": "int8", "meaning": "X."})
    assert str(caught.value) == (
        "schemas/tables/models.yaml, x: unknown type 'int8'; expected one of string, int64, "
        "float64, bool, timestamp, json, list<string>"
    )
    with pytest.raises(ContractError, match=r"models\.yaml, x: .*'unti'"):
        tables._column("models", {"name": "x", "type": "int64", "meaning": "X.", "unti": "s"})


def test_a_missing_file_of_the_contract_is_told() -> None:
    with pytest.raises(ContractError) as caught:
        read_yaml("tables/none.yaml")
    assert str(caught.value) == (
        f"{schemas_dir() / 'tables' / 'none.yaml'}: found no readable file (No such file or "
        "directory), expected a part of the contract; install the package again"
    )
