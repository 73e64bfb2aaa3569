"""Small faults in a Python module: every place where one fits, one at a time.

A fault replaces the source text of one node of the syntax tree; all other text stays as it is, so
that line numbers and comments do. Annotations, docstrings, decorators and f-strings are left alone,
and what only a type checker runs.
"""

from __future__ import annotations

import ast
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}

#: The opposite of an order, beside the boundary that `_OPERATORS` moves.
_OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}

_NAMES = {
    "fullmatch": "match",
    "match": "search",
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "startswith": "endswith",
    "endswith": "startswith",
    "setdefault": "get",
}

#: Methods and functions of which nothing but the value they are given remains.
_UNWRAPPED = ("strip", "lower", "abs", "sorted", "round", "casefold", "removeprefix")


@dataclass(frozen=True)
class Mutant:
    """A module with one fault."""

    function: str
    line: int
    change: str
    source: str


def list_mutants(source: str) -> Iterator[Mutant]:
    """Yield the module with each fault that fits, in the order of the text, none twice."""
    seen = {source}
    for function, node in _walk(ast.parse(source), "module"):
        for rule in _RULES:
            for text in rule(node):
                mutated, change = _replace(source, node, text)
                if mutated not in seen and _compiles(mutated):
                    seen.add(mutated)
                    yield Mutant(function, node.lineno, change, mutated)


def _walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_alone(child):
                inner = child.name if isinstance(child, ast.FunctionDef) else function
                if isinstance(child, ast.expr | ast.stmt):
                    yield inner, child
                yield from _walk(child, inner)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()):
            return True  # a docstring
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Subscript(value=ast.Name(id="Literal")) | ast.Call(func=ast.Name(id="TypeVar")):
            return True  # only a type checker reads it
    return False


def _replace(source: str, node: ast.expr | ast.stmt, text: str) -> tuple[str, str]:
    """Return the source with ``text`` for a node, and the change as it is shown."""
    encoded = source.encode()
    lines = encoded.splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    end = sum(map(len, lines[: end_line - 1])) + end_column
    old = " ".join(encoded[begin:end].decode().split())
    new = f"({text})" if isinstance(node, ast.expr) else text
    return (encoded[:begin] + new.encode() + encoded[end:]).decode(), f"{old} -> {text}"


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _other_operator(node: ast.AST) -> Iterator[str]:
    for table in (_OPERATORS, _OPPOSITES):
        match node:
            case ast.Compare(ops=[first, *rest]) if type(first) in table:
                yield _unparse(node, ops=[table[type(first)](), *rest])
                if rest and type(rest[0]) in table:
                    yield _unparse(node, ops=[first, table[type(rest[0])](), *rest[1:]])
            case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in table:
                yield _unparse(node, op=table[type(op)]())


def _unparse(node: ast.AST, **changes: object) -> str:
    changed = copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return ast.unparse(changed)


def _one_less(node: ast.AST) -> Iterator[str]:
    """Leave out one operand of `and` and `or`, or one part of a list, a dict or a set."""
    match node:
        case ast.BoolOp(values=[left, right]):
            yield from map(ast.unparse, (left, right))
        case ast.BoolOp(values=values):
            yield from (
                _unparse(node, values=[v for v in values if v is not one]) for one in values
            )
        case ast.Tuple(elts=items, ctx=ast.Load()) | ast.List(elts=items, ctx=ast.Load()) if items:
            yield _unparse(node, elts=items[:-1])
        case ast.Dict(keys=keys, values=values) if keys:
            yield _unparse(node, keys=keys[:-1], values=values[:-1])


def _other_constant(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=bool(value)):
            yield repr(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (repr(value + 1), repr(value - 1))
        case ast.Constant(value=str(value)):
            yield repr(value + "x" if value else "x")


def _other_name(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) as function) if name in _NAMES:
            yield _unparse(node, func=ast.Attribute(function.value, _NAMES[name], ast.Load()))
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield _unparse(node, func=ast.Name(_NAMES[name], ast.Load()))


def _unwrapped(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in _UNWRAPPED:
            yield ast.unparse(value)
        case ast.Call(func=ast.Name(id=name), args=[value, *_]) if name in _UNWRAPPED:
            yield ast.unparse(value)


def _other_condition(node: ast.AST) -> Iterator[str]:
    match node:
        case (
            ast.UnaryOp(op=ast.Not(), operand=operand) | ast.UnaryOp(op=ast.USub(), operand=operand)
        ):
            yield ast.unparse(operand)
        case ast.IfExp(body=body, orelse=orelse):
            yield from map(ast.unparse, (body, orelse))
        case ast.If(orelse=[]) | ast.While():
            yield _header(node, "False")


def _header(node: ast.If | ast.While, test: str) -> str:
    """Return the statement with another test; its indentation is that of the place."""
    text = _unparse(node, test=ast.Name(test, ast.Load()))
    return text.replace("\n", "\n" + " " * node.col_offset)


def _other_statement(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Raise() | ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "pass"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Break():
            yield "continue"
        case ast.Continue():
            yield "break"
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            yield "yield from ()"


_RULES: tuple[Callable[[ast.AST], Iterator[str]], ...] = (
    _other_operator,
    _one_less,
    _other_constant,
    _other_name,
    _unwrapped,
    _other_condition,
    _other_statement,
)
