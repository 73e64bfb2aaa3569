"""Cross-field rules of the contract, evaluated on one observation's facts or on whole tables.

A rule is a small Python expression over names (see ``schemas/rules.yaml``). Logic has three values:
what depends on an unknown is unknown, and only a rule that is certainly false is broken.
"""

from __future__ import annotations

import ast
import operator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import Rule, load_rules
from registry.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("equal", operator.eq),
    ast.NotEq: ("not_equal", operator.ne),
    ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le),
    ast.Gt: ("greater", operator.gt),
    ast.GtE: ("greater_equal", operator.ge),
}


class ScalarLogic:
    """Three-valued logic on plain values; None is unknown."""

    def compare(self, kind: type[ast.cmpop], left: Any, right: Any) -> bool | None:
        """Compare two values; unknown where one is."""
        return None if left is None or right is None else bool(_COMPARISONS[kind][1](left, right))

    def multiply(self, left: Any, right: Any) -> Any:
        """Multiply two values; unknown where one is."""
        return None if left is None or right is None else left * right

    def both(self, left: bool | None, right: bool | None) -> bool | None:  # noqa: FBT001 - truth values
        """Return the conjunction (Kleene)."""
        if left is False or right is False:
            return False
        return None if left is None or right is None else True

    def either(self, left: bool | None, right: bool | None) -> bool | None:  # noqa: FBT001 - truth values
        """Return the disjunction (Kleene)."""
        if left or right:
            return True
        return None if left is None or right is None else False

    def negate(self, value: bool | None) -> bool | None:  # noqa: FBT001 - a truth value
        """Return the negation; unknown stays unknown."""
        return None if value is None else not value

    def is_null(self, value: Any) -> bool:
        """Tell whether a value is unknown."""
        return value is None


class ArrowLogic:
    """The same logic on whole Arrow columns."""

    def __init__(self) -> None:
        import pyarrow.compute as pc  # noqa: PLC0415 - heavy, only for whole tables

        self._pc = pc

    def compare(self, kind: type[ast.cmpop], left: Any, right: Any) -> Any:
        """Compare two columns, or a column and a value."""
        return self._pc.call_function(_COMPARISONS[kind][0], [left, right])

    def multiply(self, left: Any, right: Any) -> Any:
        """Multiply two columns; unknown where one is."""
        return self._pc.multiply(left, right)

    def both(self, left: Any, right: Any) -> Any:
        """Return the conjunction (Kleene)."""
        return self._pc.and_kleene(left, right)

    def either(self, left: Any, right: Any) -> Any:
        """Return the disjunction (Kleene)."""
        return self._pc.or_kleene(left, right)

    def negate(self, value: Any) -> Any:
        """Return the negation; unknown stays unknown."""
        return self._pc.invert(value)

    def is_null(self, value: Any) -> Any:
        """Tell for each row whether its value is unknown."""
        return self._pc.is_null(value)


class _Evaluation:
    """Walk a rule's expression with one of the two logics."""

    def __init__(self, facts: Mapping[str, Any], logic: ScalarLogic | ArrowLogic) -> None:
        self.facts = facts
        self.logic = logic

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return self.facts[name]
            case ast.Constant(value=value):
                return value
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.logic.negate(self.value(operand))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self.logic.multiply(self.value(left), self.value(right))
            case ast.BoolOp(op=op, values=values):
                return self._chain(op, [self.value(item) for item in values])
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._comparison(self.value(left), op, right)
        raise ContractError(f"schemas/rules.yaml: cannot evaluate {ast.unparse(node)!r}")

    def _chain(self, op: ast.boolop, values: list[Any]) -> Any:
        join = self.logic.both if isinstance(op, ast.And) else self.logic.either
        result = values[0]
        for value in values[1:]:
            result = join(result, value)
        return result

    def _comparison(self, left: Any, op: ast.cmpop, right: ast.expr) -> Any:
        if isinstance(op, ast.Is):
            return self.logic.is_null(left)
        if isinstance(op, ast.IsNot):
            return self.logic.negate(self.logic.is_null(left))
        return self.logic.compare(type(op), left, self.value(right))


@lru_cache(maxsize=128)
def _expression(require: str) -> ast.expr:
    return ast.parse(require, mode="eval").body


def evaluate(rule: Rule, facts: Mapping[str, Any], logic: ScalarLogic | ArrowLogic) -> Any:
    """Return whether a rule holds: True, False or unknown (None), or a column of these."""
    return _Evaluation(facts, logic).value(_expression(rule.require))


def check_rules(facts: Mapping[str, Any]) -> Iterable[Rule]:
    """Yield the rules that one observation's facts break."""
    logic = ScalarLogic()
    for rule in load_rules():
        if evaluate(rule, facts, logic) is False:
            yield rule


def rule_names(rule: Rule) -> list[str]:
    """Return the names a rule's expression uses, each once, in order."""
    nodes = ast.walk(_expression(rule.require))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    names.sort(key=lambda node: node.col_offset)
    return list(dict.fromkeys(node.id for node in names))
