"""Cross-field rules of the contract, evaluated on the facts of one observation.

A rule is a small Python expression over names (see ``schemas/rules.yaml``). Logic has three values
(Kleene): what depends on an unknown is unknown, and only a rule that is certainly false is broken.
"""

from __future__ import annotations

import ast
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import CrossFieldRule, load_rules
from registry.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    return _value(_expression(rule.require), facts)


def check_rules(facts: Mapping[str, Any]) -> Iterable[CrossFieldRule]:
    """Yield the rules that one observation's facts break."""
    return (rule for rule in load_rules() if evaluate(rule, facts) is False)


def rule_names(rule: CrossFieldRule) -> list[str]:
    """Return the names a rule's expression uses, each once, in order."""
    nodes = ast.walk(_expression(rule.require))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    names.sort(key=lambda node: node.col_offset)
    return list(dict.fromkeys(node.id for node in names))


@lru_cache(maxsize=128)
def _expression(require: str) -> ast.expr:
    return ast.parse(require, mode="eval").body


def _value(node: ast.expr, facts: Mapping[str, Any]) -> Any:
    match node:
        case ast.Name(id=name):
            return facts[name]
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = _value(operand, facts)
            return None if value is None else not value
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _both_known(operator.mul, _value(left, facts), _value(right, facts))
        case ast.BoolOp(op=op, values=values):
            return _join(op, [_value(item, facts) for item in values])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare(op, _value(left, facts), _value(right, facts))
    raise ContractError(f"schemas/rules.yaml: cannot evaluate {ast.unparse(node)!r}")


def _both_known(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    return None if left is None or right is None else function(left, right)


def _join(op: ast.boolop, values: list[Any]) -> bool | None:
    """Return the conjunction or disjunction; one value that decides it is enough."""
    deciding = isinstance(op, ast.Or)
    if any(value is not None and bool(value) is deciding for value in values):
        return deciding
    return None if None in values else not deciding


def _compare(op: ast.cmpop, left: Any, right: Any) -> bool | None:
    if isinstance(op, ast.Is | ast.IsNot):
        return (left is None) is isinstance(op, ast.Is)
    result: bool | None = _both_known(_COMPARISONS[type(op)], left, right)
    return result
