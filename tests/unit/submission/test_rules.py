"""Rules break only where they are certainly false."""

from __future__ import annotations

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
        ("a > b", {"a": 2, "b": 2}, False),
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
