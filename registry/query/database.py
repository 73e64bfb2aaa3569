"""The engine's in-memory database: the registry's relations and views, then all doors shut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.query.messages import WRITTEN_OTHERWISE
from registry.query.reach import validate_contents, validate_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from registry.query.model import Dataset, Limits, Relation

# A query about the catalogue, or one that names tables inside strings, needs all of them.
_WHOLE_CATALOGUE = re.compile(
    r"information_schema|duckdb_|pg_catalog|\bsqlite_master\b"
    r"|\b(describe|desc|show|summarize|query|query_table)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_SHOWN_CHARACTERS = 60
_FIRST_VERSION_WITH_ASYNC_THREADS = 2


def mentions_catalogue(sql: str) -> bool:
    """Return whether a query may ask about tables that it does not name as words."""
    return bool(_WHOLE_CATALOGUE.search(sql))


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quote_files(files: Iterable[Path]) -> str:
    """Return paths as the engine takes them: of a relative one, it takes ``~x`` for a home."""
    return ", ".join(_quote_text(str(path.absolute())) for path in files)


def is_first_version(engine: Any) -> bool:
    """Return whether this is DuckDB 1.x; 2.x has other settings and streams Arrow differently."""
    return int(engine.__version__.split(".")[0]) < _FIRST_VERSION_WITH_ASYNC_THREADS


def connect(engine: Any) -> Any:
    """Open an empty in-memory database that starts no thread and spills to no file.

    The threads come later (`open_doors`), when the process is confined.
    """
    config = {
        "threads": "1",
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "python_enable_replacements": "false",
    }
    if not is_first_version(engine):
        config["async_threads"] = "0"
    return engine.connect(":memory:", config=config)


def set_limits(connection: Any, limits: Limits) -> None:
    """Start the engine's threads and give it its memory; times are shown in UTC."""
    connection.execute(f"SET memory_limit = '{max(1, limits.memory_bytes >> 10)}KiB'")
    connection.execute(f"SET threads = {max(1, int(limits.threads))}")
    connection.execute("SET TimeZone = 'UTC'")


def shut_doors(connection: Any, files: Iterable[Path]) -> None:
    """Forbid the engine all files but ``files`` and every change of its settings."""
    paths = _quote_files(files)
    connection.execute(f"SET allowed_paths = [{paths}]")
    if not paths:
        connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def select_names(dataset: Dataset, sql: str) -> set[str]:
    """Return the relations and views that ``sql`` mentions, with all that those build on."""
    sources = {view.name: view.sql for view in dataset.views}
    sources |= {relation.name: relation.where or "" for relation in dataset.relations}
    by_word = {name.lower(): name for name in sources}
    found: set[str] = set()
    texts = [sql]
    while texts:
        words = {word.lower() for word in _WORD.findall(texts.pop())}
        fresh = {by_word[word] for word in words & by_word.keys()} - found
        found |= fresh
        texts.extend(sources[name] for name in fresh)
    return found


def all_names(dataset: Dataset) -> set[str]:
    """Return the names of all relations and views."""
    relations = {relation.name for relation in dataset.relations}
    return relations | {view.name for view in dataset.views}


def _json_pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")  # RFC 6901


def _json_column(name: str, kind: str) -> str:
    # the text of a JSON string, without its quotes; a list has no such text
    extract = "json_extract" if kind.endswith("[]") else "json_extract_string"
    place = _quote_text(_json_pointer(name))
    return f"CAST({extract}(r, {place}) AS {kind}) AS {_quote_name(name)}"


def _load_pending(connection: Any, relation: Relation) -> bool:
    """Create the table of the pending rows; return whether there are any."""
    if relation.json_rows is None:
        return False
    connection.execute("CREATE SCHEMA IF NOT EXISTS pending")
    columns = ", ".join(_json_column(name, kind) for name, kind in relation.columns)
    connection.execute(
        f"CREATE TABLE pending.{_quote_name(relation.name)} AS SELECT {columns}"  # noqa: S608 - names are quoted, values bound
        " FROM (SELECT unnest(CAST(CAST($1 AS JSON) AS JSON[])) AS r)",
        [relation.json_rows.decode()],
    )
    return True


def _read_files(relation: Relation) -> str:
    files = _quote_files(relation.files)
    if not relation.evolved:
        return f"SELECT * FROM read_parquet([{files}], hive_partitioning = false)"  # noqa: S608 - quoted
    nulls = ", ".join(f"NULL AS {_quote_name(name)}" for name, _ in relation.columns)
    casts = ", ".join(_checked_cast(relation.name, *column) for column in relation.columns)
    return (
        f"SELECT {casts} FROM (SELECT {nulls} WHERE false UNION ALL BY NAME SELECT * FROM "  # noqa: S608 - quoted
        f"read_parquet([{files}], hive_partitioning = false, union_by_name = true))"
    )


def _checked_cast(table: str, name: str, kind: str) -> str:
    """Return a cast whose failure can be told from that of a cast the user wrote."""
    column = _quote_name(name)
    begin = _quote_text(f"table {table!r}, column {name!r}: found '")
    end = _quote_text(f"', expected {kind}; it {WRITTEN_OTHERWISE}")
    found = f"left(CAST({column} AS VARCHAR), {_SHOWN_CHARACTERS})"
    failure = f"CAST(error({begin} || {found} || {end}) AS {kind})"
    value = f"TRY_CAST({column} AS {kind})"
    if kind == "BIGINT":  # the cast alone would round
        figure = f"TRY_CAST({column} AS DOUBLE)"
        value = f"CASE WHEN {figure} = trunc({figure}) THEN {value} END"
    return f"coalesce({value}, CASE WHEN {column} IS NOT NULL THEN {failure} END) AS {column}"


def _relation_source(relation: Relation, *, pending: bool) -> str:
    parts = []
    if relation.files:
        parts.append(_read_files(relation))
    if pending:
        parts.append(f"SELECT * FROM pending.{_quote_name(relation.name)}")  # noqa: S608 - names are quoted
    if not parts:
        nulls = (f"CAST(NULL AS {kind}) AS {_quote_name(name)}" for name, kind in relation.columns)
        parts.append(f"SELECT {', '.join(nulls)} WHERE false")
    source = " UNION ALL BY NAME ".join(parts)
    return f"SELECT * FROM ({source}) WHERE {relation.where}" if relation.where else source  # noqa: S608 - our own


def create_objects(
    connection: Any, dataset: Dataset, names: set[str], *, in_memory: bool = False
) -> None:
    """Create the named relations (views over files; tables where ``in_memory``) and views."""
    kind = "TABLE" if in_memory else "VIEW"
    for relation in dataset.relations:
        if relation.name in names:
            validate_files(relation.files, dataset.readable)
            validate_contents(relation)
            source = _relation_source(relation, pending=_load_pending(connection, relation))
            connection.execute(f"CREATE {kind} {_quote_name(relation.name)} AS {source}")
    for view in dataset.views:
        if view.name in names:
            body = view.sql.strip().rstrip(";")
            connection.execute(f"CREATE VIEW {_quote_name(view.name)} AS\n{body}")


def add_comments(connection: Any, dataset: Dataset, *, in_memory: bool = False) -> None:
    """Write what each table and column means to where ``duckdb_columns()`` and others show it."""
    tables = {relation.name for relation in dataset.relations} if in_memory else set()
    comments = dataset.comments() if callable(dataset.comments) else dataset.comments
    for name, column, text in comments:
        kind = "TABLE" if name in tables else "VIEW"
        place = f"{kind} {_quote_name(name)}"
        if column:
            place = f"COLUMN {_quote_name(name)}.{_quote_name(column)}"
        connection.execute(f"COMMENT ON {place} IS {_quote_text(text)}")
