"""Cross-field rules of the contract, evaluated on the facts of one observation.

A rule is a small Python expression over names (see ``schemas/rules.yaml``). Logic has three values
(Kleene): what depends on an unknown is unknown, and only a rule that is certainly false is broken.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import CrossFieldRule, load_rules
from registry.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Iterable

Evaluator = Callable[[Mapping[str, Any]], Any]

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate(rule: CrossFieldRule, facts: Mapping[str, Any]) -> Any:
    """Return whether a rule holds: True, False, or None where that is unknown."""
    return _evaluator(rule.require)(facts)


def check_rules(facts: Mapping[str, Any], *, is_new: bool = True) -> Iterable[CrossFieldRule]:
    """Yield the rules that one observation's facts break; some hold for new ones alone."""
    rules = (rule for rule in load_rules() if is_new or not rule.for_new)
    return (rule for rule in rules if evaluate(rule, facts) is False)


def rule_names(rule: CrossFieldRule) -> list[str]:
    """Return the names a rule's expression uses, each once, in order."""
    nodes = ast.walk(_expression(rule.require))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    names.sort(key=lambda node: node.col_offset)
    return list(dict.fromkeys(node.id for node in names))


@lru_cache(maxsize=128)
def _expression(require: str) -> ast.expr:
    return ast.parse(require, mode="eval").body


@lru_cache(maxsize=128)
def _evaluator(require: str) -> Evaluator:
    return _build(_expression(require))


def _build(node: ast.expr) -> Evaluator:
    """Return an expression as a function of the facts: each rule is asked of every observation."""
    match node:
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.Constant(value=value):
            return lambda _: value
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _strict(operator.not_, _build(operand))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _strict(operator.mul, _build(left), _build(right))
        case ast.BoolOp(op=op, values=values):
            return _join(op, [_build(item) for item in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare(op, _build(left), _build(right))
    raise ContractError(f"schemas/rules.yaml: cannot evaluate {ast.unparse(node)!r}")


def _strict(function: Callable[..., Any], *operands: Evaluator) -> Evaluator:
    """Return the function of some operands, unknown where one of them is."""

    def evaluate_all(facts: Mapping[str, Any]) -> Any:
        values = [operand(facts) for operand in operands]
        return None if None in values else function(*values)

    return evaluate_all


def _join(op: ast.boolop, operands: list[Evaluator]) -> Evaluator:
    """Return the conjunction or disjunction; one value that decides it is enough."""
    deciding = isinstance(op, ast.Or)

    def evaluate_some(facts: Mapping[str, Any]) -> bool | None:
        is_unknown = False
        for operand in operands:
            value = operand(facts)
            if value is None:
                is_unknown = True
            elif bool(value) is deciding:
                return deciding
        return None if is_unknown else not deciding

    return evaluate_some


def _compare(op: ast.cmpop, left: Evaluator, right: Evaluator) -> Evaluator:
    if isinstance(op, ast.Is):
        return lambda facts: left(facts) is right(facts)
    if isinstance(op, ast.IsNot):
        return lambda facts: left(facts) is not right(facts)
    return _strict(_COMPARISONS[type(op)], left, right)
