"""Rules break only where they are certainly false."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from registry.contract import CrossFieldRule, load_rules, load_table, rule_facts
from registry.errors import ContractError
from registry.submission.rules import check_rules, evaluate, rule_names


def _rule(require: str) -> CrossFieldRule:
    return CrossFieldRule(name="r", require=require, expected="", way_out="")


def _scalar(require: str, **facts: Any) -> Any:
    return evaluate(_rule(require), facts)


@pytest.mark.parametrize(
    ("require", "facts", "truth"),
    [
        ("a == b", {"a": 1, "b": 1}, True),
        ("a == b", {"a": 1, "b": None}, None),
        ("a != 'ok'", {"a": "ok"}, False),
        ("a < b", {"a": 1, "b": 2}, True),
        ("a <= b", {"a": 2, "b": 2}, True),
        ("a < b", {"a": 2, "b": 2}, False),
        ("a <= b", {"a": 3, "b": 2}, False),
        ("a > b", {"a": 2, "b": 2}, False),
        ("a > b", {"a": 3, "b": 2}, True),
        ("a >= b", {"a": 2, "b": 2}, True),
        ("a >= b", {"a": 1, "b": 2}, False),
        ("a == b", {"a": 1, "b": 2}, False),
        ("a != b", {"a": 1, "b": 2}, True),
        ("a != b", {"a": None, "b": None}, None),
        ("not a", {"a": False}, True),
        ("a is None", {"a": 0}, False),
        ("a is not None", {"a": 0}, True),
        ("a >= b", {"a": None, "b": 2}, None),
        ("a == b * c", {"a": 8, "b": 2, "c": 4}, True),
        ("a == b * c", {"a": 8, "b": None, "c": 4}, None),
        ("a is None", {"a": None}, True),
        ("a is not None", {"a": None}, False),
        ("not a", {"a": None}, None),
        ("not a", {"a": True}, False),
    ],
)
def test_what_depends_on_an_unknown_is_unknown(
    require: str, facts: dict[str, Any], *, truth: bool | None
) -> None:
    assert _scalar(require, **facts) is truth


def test_false_and_unknown_is_false_and_true_or_unknown_is_true() -> None:
    assert _scalar("a and b", a=False, b=None) is False
    assert _scalar("a and b", a=True, b=None) is None
    assert _scalar("a or b", a=True, b=None) is True
    assert _scalar("a or b", a=None, b=False) is None
    assert _scalar("a and b", a=True, b=True) is True
    assert _scalar("a and b", a=None, b=False) is False
    assert _scalar("a or b", a=False, b=False) is False
    assert _scalar("a or b", a=None, b=1) is True
    assert _scalar("a or b or c", a=False, b=False, c=True) is True


def test_an_expression_that_is_no_rule_is_a_contract_error() -> None:
    with pytest.raises(ContractError) as caught:
        _scalar("len(a)", a=[])
    assert str(caught.value) == "schemas/rules.yaml: cannot evaluate 'len(a)'"


def test_rules_use_only_columns_and_declared_facts() -> None:
    known = {
        *rule_facts(),
        *load_table("configurations").names,
        *load_table("observations").names,
    }
    for rule in load_rules():
        assert set(rule_names(rule)) <= known, rule.name


def test_rule_names_stand_once_in_order() -> None:
    assert rule_names(_rule("b == a * b or c is None")) == ["b", "a", "c"]


def test_nothing_stated_breaks_nothing() -> None:
    facts = dict.fromkeys(
        (*rule_facts(), *load_table("configurations").names, *load_table("observations").names)
    )
    assert list(check_rules(facts)) == []


@pytest.mark.parametrize(
    ("broken", "facts"),
    [
        (["gpus_add_up"], {"n_gpus": 4, "n_nodes": 2, "gpus_per_node": 4}),
        ([], {"n_gpus": 8, "n_nodes": 2, "gpus_per_node": 4}),
        (["every_node_has_a_gpu"], {"n_gpus": 16, "n_nodes": 64}),
        ([], {"n_gpus": 64, "n_nodes": 64}),
        (["oom_has_no_speed"], {"outcome": "oom", "has_step_time": True, "failed_step": 1}),
        (["oom_has_no_speed"], {"outcome": "oom", "has_rate": True}),
        ([], {"outcome": "oom", "has_step_time": True, "failed_step": 2}),
        (["devices_exist"], {"max_device_index": 2, "n_gpus": 2}),
        ([], {"max_device_index": 1, "n_gpus": 2}),
        (
            ["peak_fits_the_card"],
            {
                "peak_memory_bytes_per_gpu": 25.0,
                "gpu_memory_bytes": 24,
                "peak_over_capacity_flagged": False,
            },
        ),
        (
            ["quantized_type_has_bits", "full_trains_no_adapter"],
            {"quant_type": "nf4", "method": "full", "lora_rank": 8},
        ),
    ],
)
def test_a_rule_that_is_certainly_false_is_broken(broken: list[str], facts: dict[str, Any]) -> None:
    stated = defaultdict(lambda: None, facts)
    assert [rule.name for rule in check_rules(stated)] == broken
