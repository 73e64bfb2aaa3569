"""Small faults in a SELECT: every place where one fits, one at a time.

DuckDB's own parser gives the statement as JSON and makes SQL of the JSON again, so a fault is a
changed node, never a changed letter.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import duckdb

    Node = dict[str, Any]
    Fault = tuple[str, Any]

_CONTEXT = 48  # characters shown on either side of a change

#: The function, operator or keyword that takes the place of another.
_SWAPS = {
    "max": ("min",),
    "min": ("max",),
    "arg_min": ("arg_max",),
    "arg_max": ("arg_min",),
    "median": ("max", "min"),
    "sum": ("max",),
    "greatest": ("least",),
    "least": ("greatest",),
    "count": ("max",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "first": ("last",),
    "COMPARE_EQUAL": ("COMPARE_NOTEQUAL",),
    "COMPARE_NOTEQUAL": ("COMPARE_EQUAL",),
    "COMPARE_LESSTHAN": ("COMPARE_LESSTHANOREQUALTO", "COMPARE_GREATERTHAN"),
    "COMPARE_GREATERTHAN": ("COMPARE_GREATERTHANOREQUALTO", "COMPARE_LESSTHAN"),
    "COMPARE_NOT_DISTINCT_FROM": ("COMPARE_EQUAL", "COMPARE_DISTINCT_FROM"),
    "COMPARE_IN": ("COMPARE_NOT_IN",),
    "COMPARE_NOT_IN": ("COMPARE_IN",),
    "OPERATOR_IS_NOT_NULL": ("OPERATOR_IS_NULL",),
    "CONJUNCTION_AND": ("CONJUNCTION_OR",),
    "CONJUNCTION_OR": ("CONJUNCTION_AND",),
    "INNER": ("LEFT",),
    "LEFT": ("INNER",),
    "ORDER_DEFAULT": ("DESCENDING",),
    "DESCENDING": ("ASCENDING",),
}

_NULL = {
    "class": "CONSTANT",
    "type": "VALUE_CONSTANT",
    "alias": "",
    "value": {"type": {"id": "NULL", "type_info": None}, "is_null": True},
}


@dataclass(frozen=True)
class SqlMutant:
    """A statement with one fault; ``name`` shows the fault with what stands around it."""

    name: str
    sql: str


def list_mutants(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[SqlMutant]:
    """Yield the statement with each fault that fits, in the order of its nodes, none twice."""
    (text,) = connection.execute("select json_serialize_sql($1)", [sql]).fetchall()[0]
    tree = json.loads(text)
    original = _to_sql(connection, tree)
    seen = {original}
    for place, node in _walk(tree, ()):
        for what, fault in _list_faults(node):
            mutated = _to_sql(connection, _with(tree, place, fault))
            if mutated not in seen:
                seen.add(mutated)
                yield SqlMutant(f"{what}: {_show_change(original, mutated)}", mutated)


def _to_sql(connection: duckdb.DuckDBPyConnection, tree: Node) -> str:
    rows = connection.execute("select json_deserialize_sql($1::json)", [json.dumps(tree)])
    return str(rows.fetchall()[0][0])


def _walk(node: Any, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Node]]:
    if isinstance(node, dict):
        yield place, node
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in items:
        if isinstance(child, dict | list):
            yield from _walk(child, (*place, key))


def _with(tree: Node, place: tuple[str | int, ...], fault: Any) -> Node:
    changed = copy.deepcopy(tree)
    at: Any = changed
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = fault
    return changed


def _show_change(before: str, after: str) -> str:
    start = _count_alike(before, after)
    end = _count_alike(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    left, right = before[:start][-_CONTEXT:], before[len(before) - end :][:_CONTEXT]
    return f"{left}[{old} -> {new}]{right}"


def _count_alike(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _list_faults(node: Node) -> Iterator[Fault]:
    for rule in _RULES:
        yield from rule(node)


def _swapped(node: Node) -> Iterator[Fault]:
    for key in ("function_name", "type", "join_type"):
        name = node.get(key)
        for other in _SWAPS.get(name, ()) if isinstance(name, str) else ():
            if not (key == "type" and "class" not in node and "ORDER" not in str(name)):
                yield "swap", _replaced(node, key, other)


def _replaced(node: Node, key: str, value: Any) -> Node:
    changed = {**node, key: value}
    if node.get("class") == "WINDOW" and value == "last":  # what is last is so of all rows
        changed |= {"type": "WINDOW_LAST_VALUE", "end": "UNBOUNDED_FOLLOWING"}
    return changed


def _without_clause(node: Node) -> Iterator[Fault]:
    for clause in ("filter", "where_clause", "qualify"):
        if node.get(clause):
            yield f"drop {clause}", {**node, clause: None}


def _without_one(node: Node) -> Iterator[Fault]:
    """Drop one of a list; the first child of IN is what is looked for."""
    for key, least, first in (
        ("children", 2, 0),
        ("case_checks", 2, 0),
        ("partitions", 1, 0),
        ("orders", 1, 0),
    ):
        items = node.get(key) or []
        keeps = {"COMPARE_IN": 1, "COMPARE_NOT_IN": 1}.get(str(node.get("type")), first)
        droppable = key != "children" or _is_list(node) or node.get("class") == "CONJUNCTION"
        for at in range(keeps, len(items)) if len(items) >= least + keeps and droppable else ():
            yield "drop one", {**node, key: items[:at] + items[at + 1 :]}


def _is_list(node: Node) -> bool:
    lists = ("OPERATOR_COALESCE", "COMPARE_IN", "COMPARE_NOT_IN")
    return node.get("function_name") == "list_value" or node.get("type") in lists


def _reordered(node: Node) -> Iterator[Fault]:
    ordered = node.get("type") == "OPERATOR_COALESCE" or node.get("function_name") == "list_value"
    items = node.get("children", [])
    for (i, left), (_, right) in pairwise(enumerate(items)) if ordered else ():
        yield "swap neighbours", {**node, "children": [*items[:i], right, left, *items[i + 2 :]]}


def _unwrapped(node: Node) -> Iterator[Fault]:
    """Take a cast, an abs, a nullif or a least away."""
    if node.get("class") == "CAST":
        yield "drop cast", {**node["child"], "alias": node["alias"]}
    if node.get("function_name") in ("abs", "nullif", "least", "greatest"):
        yield "drop function", {**node["children"][0], "alias": node["alias"]}


def _without_case(node: Node) -> Iterator[Fault]:
    if node.get("class") == "CASE":
        yield "drop else", {**node, "else_expr": _NULL}


def _changed_constant(node: Node) -> Iterator[Fault]:
    value = node.get("value")
    if node.get("class") != "CONSTANT" or not isinstance(value, dict) or value.get("is_null"):
        return
    if value["type"]["id"] == "VARCHAR":
        yield "other text", {**node, "value": {**value, "value": f"{value['value']}x"}}
    elif isinstance(value["value"], int) and not isinstance(value["value"], bool):
        for step in (-1, 1):
            yield "other number", {**node, "value": {**value, "value": value["value"] + step}}


def _without_column(node: Node) -> Iterator[Fault]:
    """Leave a selected column null, or take a key out of GROUP BY ALL."""
    columns = node.get("select_list", [])
    grouped = node.get("aggregate_handling") == "FORCE_AGGREGATES"
    for at, column in enumerate(columns):
        name = column.get("alias") or (column.get("column_names") or [""])[-1]
        if not name:
            continue
        for what, other in (("null column", _NULL), ("drop key", _any_value(column))):
            if what == "null column" or (grouped and column["class"] == "COLUMN_REF"):
                changed = {**other, "alias": name}
                yield what, {**node, "select_list": [*columns[:at], changed, *columns[at + 1 :]]}


def _any_value(column: Node) -> Node:
    return {
        "class": "FUNCTION",
        "type": "FUNCTION",
        "function_name": "any_value",
        "schema": "",
        "children": [{**column, "alias": ""}],
        "filter": None,
        "order_bys": {"type": "ORDER_MODIFIER", "orders": []},
        "distinct": False,
        "is_operator": False,
        "export_state": False,
        "catalog": "",
    }


def _without_distinct(node: Node) -> Iterator[Fault]:
    if node.get("distinct") is True:
        yield "drop distinct", {**node, "distinct": False}


def _one_side(node: Node) -> Iterator[Fault]:
    if node.get("type") == "SET_OPERATION_NODE":
        for side in ("left", "right"):
            yield "one side of a union", {**node[side], "cte_map": node["cte_map"]}


_RULES: tuple[Callable[[Node], Iterator[Fault]], ...] = (
    _swapped,
    _without_clause,
    _without_one,
    _reordered,
    _unwrapped,
    _without_case,
    _changed_constant,
    _without_column,
    _without_distinct,
    _one_side,
)
