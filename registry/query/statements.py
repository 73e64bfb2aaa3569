"""Which SQL may run: one statement that only reads.

This is the first safeguard, for clear messages. What a statement does behind its type (on 2.0.0 a
COPY inside a CTE is a SELECT) is stopped by the confinement, not here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

READS = "select, with, values, from, describe, show, summarize, pivot or explain"
_TOKEN = re.compile(rb'"(?:[^"]|"")*"|\w+|.', re.DOTALL)
_WRITES = {"copy", "insert", "update", "delete", "merge"}
# After these a writing word in brackets is a column's name, as in `(copy is null)`.
_OPERATORS = {"as", "is", "in", "like", "ilike", "between", "and", "or", "not", "order"}
_EXPLAIN_WORDS = {"explain", "analyze", "analyse", "verbose"}
_EXPLAIN_OPTIONS = {"format", "analyze", "analyse"}
# Table functions that change the engine's state or take raw pointers.
_FORBIDDEN_FUNCTIONS = {
    "arrow_scan",
    "arrow_scan_dumb",
    "checkpoint",
    "disable_logging",
    "disable_profiling",
    "enable_logging",
    "enable_profiling",
    "force_checkpoint",
    "pandas_scan",
    "python_map_function",
    "truncate_duckdb_logs",
}


def _split_tokens(engine: Any, sql: str) -> list[tuple[int, str]]:
    """Return the (byte offset, text) of each token, strings and comments left out."""
    raw = sql.encode()
    found = []
    for offset, kind in engine.tokenize(sql):
        if kind.name in ("string_const", "comment"):
            continue
        match = _TOKEN.match(raw, offset)
        if match:
            found.append((offset, match.group().decode(errors="replace")))
    return found


def _is_write(first: str, second: str) -> bool:
    if first.lower() not in _WRITES or second.lower() in _OPERATORS:
        return False
    return second == "(" or second[:1] == '"' or second[:1].isalnum() or second[:1] == "_"


def _check_tokens(words: list[str]) -> Iterator[str]:
    if words and words[0].lower() == "pragma":
        yield "a PRAGMA statement is not allowed"
    for first, second, third in zip(words, words[1:], [*words[2:], ""], strict=False):
        if first == "(" and _is_write(second, third):
            yield f"a {second.upper()} inside a query is not allowed"
        if second == "(" and first.strip('"').lower() in _FORBIDDEN_FUNCTIONS:
            yield f"the function {first.strip(chr(34)).lower()} is not allowed"


def _explained_offset(tokens: list[tuple[int, str]], end: int) -> int:
    """Return where the statement behind EXPLAIN, ANALYZE and their options begins."""
    position = 0
    while position < len(tokens):
        offset, word = tokens[position]
        following = tokens[position + 1][1].lower() if position + 1 < len(tokens) else ""
        if word == "(" and following in _EXPLAIN_OPTIONS:
            closing = [i for i in range(position, len(tokens)) if tokens[i][1] == ")"]
            position = closing[0] + 1 if closing else len(tokens)
        elif word.lower() in _EXPLAIN_WORDS:
            position += 1
        else:
            return offset
    return end


def _refuse(what: str) -> QueryError:
    return QueryError(f"query: {what}; a query reads with {READS}")


def _kind(statement: Any) -> str:
    try:
        return str(statement.type.name)
    except ValueError:  # 2.0.0 has kinds that its own enumeration lacks, such as UPDATE EXTENSIONS
        return "UNKNOWN"


def _one_statement(connection: Any, sql: str) -> Any:
    statements = connection.extract_statements(sql)
    kinds = [_kind(statement) for statement in statements]
    if not statements:
        raise QueryError('query: found no statement; write one, such as "select * from results"')
    if kinds[0] == "MULTI" or (kinds == ["CREATE", "SELECT"] and "pivot" in sql.lower()):
        raise QueryError("query: a pivot needs its values spelled out: pivot T on C in ('x', 'y')")
    if len(statements) > 1:
        raise QueryError(f"query: found {len(statements)} statements, expected one at a time")
    return statements[0]


def parse_statement(engine: Any, connection: Any, sql: str) -> Any:
    """Return the engine's one parsed statement of ``sql``, which only reads by its type.

    Raises:
        QueryError: there is none, there are several, or it is not one that reads.
        engine.Error: the SQL does not parse.
    """
    statement = _one_statement(connection, sql)
    kind = _kind(statement)
    tokens = _split_tokens(engine, sql)
    for problem in _check_tokens([word for _, word in tokens]):
        raise _refuse(problem)
    if kind == "EXPLAIN":
        raw = sql.encode()
        inner = raw[_explained_offset(tokens, len(raw)) :].decode(errors="replace")
        explained = _kind(_one_statement(connection, inner))
        kind = "SELECT" if explained == "SELECT" else f"EXPLAIN {explained}"
    if kind != "SELECT":
        article = "an" if kind[0] in "AEIOU" else "a"
        raise _refuse(f"{article} {kind} statement is not allowed")
    return statement
