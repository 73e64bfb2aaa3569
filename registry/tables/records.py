"""Records as tables: JSON, JSON lines and YAML, one row for each object of a list."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from registry.errors import RegistryError, SourceError
from registry.reading.json_reader import parse_json
from registry.reading.yaml_reader import parse_yaml
from registry.tables.raw_table import DraftCell, DraftRow, DraftTable, validate_cell_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Deepest nesting of objects whose keys become names such as ``gpu.memory.peak``.
_DEEPEST = 8

#: Most lines of JSON lines: each is parsed by itself.
_MOST_LINES = 100_000

#: What stands for a document in the messages of readers; the caller says where it was read.
_ORIGIN = "records"

Record = tuple[int, dict[str, Any]]


def read_json(text: str) -> list[DraftTable]:
    """Return a table for each list of objects in a JSON document, in order of appearance."""
    return _tables_of(_parse(parse_json, text))


def read_yaml(text: str) -> list[DraftTable]:
    """Return a table for each list of objects in a YAML document, in order of appearance."""
    return _tables_of(_parse(parse_yaml, text))


def read_jsonl(text: str) -> list[DraftTable]:
    """Return the one table of JSON lines; a line that is no object is an error."""
    records: list[Record] = []
    n_lines = text.count("\n")
    if n_lines > _MOST_LINES:
        raise SourceError(f"found {n_lines} lines, expected at most {_MOST_LINES}; split the file")
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        record = _parse(parse_json, line, line=number)
        if not isinstance(record, dict):
            raise SourceError(
                f"line {number}: found {line[:40]!r}, expected an object on each line"
            )
        records.append((number, record))
    return [_table((), records)] if records else []


def _parse(parse: Any, text: str, *, line: int | None = None) -> Any:
    try:
        return parse(text, origin=_ORIGIN)
    except RegistryError as error:
        place = "" if line is None else f"line {line}: "
        raise SourceError(place + str(error).removeprefix(f"{_ORIGIN}: ")) from None


def _tables_of(document: Any) -> list[DraftTable]:
    found = list(_find_lists((), document, 0))
    if not found and isinstance(document, dict) and document:
        found = [((), [document])]
    return [_table(path, [(1, record) for record in records]) for path, records in found]


def _find_lists(
    path: tuple[str, ...], value: Any, depth: int
) -> Iterator[tuple[tuple[str, ...], Sequence[dict[str, Any]]]]:
    """Yield each list of objects, and each object of several objects alike, with its path."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        if _is_records(value):
            yield path, value
        return
    if not isinstance(value, dict):
        return
    named = _named_records(value)
    if named:
        yield path, named
        return
    for key, inner in value.items():
        yield from _find_lists((*path, str(key)), inner, depth + 1)


def _named_records(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of an object as records with their names, where they are alike."""
    inner = [item for item in value.values() if isinstance(item, dict)]
    if len(inner) < 2 or len(inner) != len(value):  # noqa: PLR2004 - one object is not alike itself
        return []
    shared = set.intersection(*(set(item) for item in inner))
    if not shared:
        return []
    return [{"name": str(key), **record} for key, item in value.items() for record in _spread(item)]


def _spread(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an object that holds one list of objects as those, each with what stands beside."""
    lists = [key for key, inner in item.items() if _is_records(inner)]
    if len(lists) != 1:
        return [item]
    beside = {key: inner for key, inner in item.items() if key != lists[0]}
    return [{**beside, **record} for record in item[lists[0]]]


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, dict) for v in value)


def _table(path: tuple[str, ...], records: Sequence[Record]) -> DraftTable:
    flat = [(line, dict(_flatten("", record, 0))) for line, record in records]
    names = list(dict.fromkeys(name for _, record in flat for name in record))
    validate_cell_count((len(names) or 1) * (len(flat) + 1), flat[0][0])
    header = DraftRow(flat[0][0], tuple(DraftCell(name) for name in names))
    rows = [
        DraftRow(line, tuple(DraftCell(record.get(name, "")) for name in names))
        for line, record in flat
    ]
    return DraftTable(path, (header, *rows), line=flat[0][0])


def _flatten(prefix: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and depth <= _DEEPEST:
        for key, inner in value.items():
            yield from _flatten(f"{prefix}.{key}" if prefix else str(key), inner, depth + 1)
    else:
        yield prefix, _format(value)


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
