"""What a query sees: relations, pending rows, views, comments; and errors in its own words."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from registry.errors import QueryError
from registry.query import database
from registry.query.model import Dataset, Query, Relation, View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OUTSIDE = "lies outside of what a query may read"


def test_a_view_brings_what_it_builds_on(dataset: Dataset) -> None:
    assert database.select_names(dataset, 'select * from "COUNTED"') == {"a", "small", "counted"}
    assert database.select_names(dataset, "select 1") == set()


def test_views_over_views_answer(ask: Any, *, landlock: bool) -> None:
    assert ask("select * from counted", landlock=landlock) == "n\n3\n"


def test_a_relation_without_files_is_empty_and_typed(ask: Any, *, landlock: bool) -> None:
    assert ask("select * from empty", landlock=landlock) == "k,t\n"
    answer = ask("select typeof(k) as k from (from empty union all select 1, null)")
    assert answer == "k\nINTEGER\n"


def test_tables_named_only_in_a_string_are_found(ask: Any, *, landlock: bool) -> None:
    sql = "select * from query('select * from cou' || 'nted')"
    assert ask(sql, landlock=landlock) == "n\n3\n"


def test_all_tables_are_shown(ask: Any, *, landlock: bool) -> None:
    assert ask("show tables", landlock=landlock) == "name\na\ncounted\nempty\nsmall\n"


def test_comments_are_shown(ask: Any, *, landlock: bool) -> None:
    sql = "select column_name, comment from duckdb_columns() where comment is not null"
    assert ask(sql, landlock=landlock) == "column_name,comment\nid,the key\n"


def pending_dataset(dataset: Dataset, **rows: Any) -> Dataset:
    first, *others = dataset.relations
    return replace(dataset, relations=(replace(first, **rows), *others))


def test_pending_rows_are_seen_with_the_files(
    ask: Any, dataset: Dataset, *, landlock: bool
) -> None:
    over = pending_dataset(dataset, json_rows=b'[{"id": 99, "name": "late"}]')
    sql = "select count(*) as n, max(id) as last from a"
    assert ask(sql, over=over, landlock=landlock) == "n,last\n11,99\n"


def test_pending_json_keeps_types(ask: Any, *, landlock: bool) -> None:
    columns = (("t", "TIMESTAMPTZ"), ("l", "VARCHAR[]"), ("d", "DOUBLE"), ("odd \"name'", "BIGINT"))
    rows = (
        '[{"t": "2024-01-01T02:00:00+02:00", "l": ["a, \\"b\\""], "d": 0.1,'
        ' "odd \\"name\'": 9007199254740993}, {"d": null}]'
    )
    over = Dataset((Relation("p", (), columns, json_rows=rows.encode()),))
    assert ask("from p", over=over, landlock=landlock, format="json") == (
        '[\n{"t":"2024-01-01T00:00:00Z","l":["a, \\"b\\""],"d":0.1,'
        '"odd \\"name\'":9007199254740993},\n'
        '{"t":null,"l":null,"d":null,"odd \\"name\'":null}\n]\n'
    )


def test_files_and_names_with_quotes_are_read(ask: Any, tmp_path: Path, *, landlock: bool) -> None:
    place = tmp_path / "it's [odd]"
    place.mkdir()
    parquet.write_table(pa.table({"x": [1]}), place / "a'b.parquet")
    over = Dataset((Relation("odd", (place / "a'b.parquet",)),), (), (place,))
    assert ask("from odd", over=over, landlock=landlock) == "x\n1\n"


def _link(path: Path, outside: Path) -> Path:
    path.symlink_to(outside)
    return path


def _fifo(path: Path, _outside: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (lambda folder, _: folder / ".." / "outside.parquet", OUTSIDE),
        (lambda _, outside: outside, OUTSIDE),
        (lambda folder, outside: _link(folder / "up", outside.parent) / outside.name, OUTSIDE),
        (lambda folder, outside: _link(folder / "b.parquet", outside), "is a link"),
        (lambda folder, outside: _fifo(folder / "b.parquet", outside), "is no regular file"),
        (lambda folder, _: folder, OUTSIDE),
        (lambda folder, _: folder / "no.parquet", "No such file or directory"),
    ],
)
def test_a_file_outside_of_the_tables_is_not_handed_to_the_engine(
    ask: Any, folder: Path, place: Callable[[Path, Path], Path], problem: str, *, landlock: bool
) -> None:
    outside = folder.parent / "outside.parquet"
    parquet.write_table(pa.table({"x": [1]}), outside)
    path = place(folder, outside)
    over = Dataset((Relation("x", (path,)),), (), (folder,))
    with pytest.raises(QueryError) as caught:
        ask("from x", over=over, landlock=landlock)
    assert str(caught.value) == (
        f"{path}: {problem}; expected a file in the registry's own folder; run `registry check` "
        "to see what else is wrong"
    )


def test_tables_that_are_reached_through_a_link_are_read(
    ask: Any, folder: Path, tmp_path: Path, *, landlock: bool
) -> None:
    linked = _link(tmp_path / "linked", folder)
    over = Dataset((Relation("x", (linked / "a.parquet",)),), (), (linked,))
    assert ask("select count(*) as n from x", over=over, landlock=landlock) == "n\n10\n"


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select * from smal", 'table with name smal does not exist; did you mean "small"?'),
        ("select nme from a", 'referenced column "nme" not found in FROM clause; did you mean'),
        ("selec 1", 'syntax error at or near "selec"'),
        ("select cast('x' as integer)", "could not convert string 'x' to INT32"),
        ("select error('boom')", "boom"),
    ],
)
def test_an_error_names_the_fault_and_its_place(
    ask: Any, sql: str, message: str, *, landlock: bool
) -> None:
    with pytest.raises(QueryError) as caught:
        ask(sql, landlock=landlock)
    lines = str(caught.value).split("\n")
    assert lines[0].startswith(f"query: {message}")
    if len(lines) > 1:
        assert lines[1] == f"LINE 1: {sql}"
        assert lines[2].strip("^ ") == ""


def test_parameters_are_bound_not_pasted(ask: Any) -> None:
    evil = "x' union all select content from read_text('/etc/passwd') --"
    assert ask("select $name as name", {"name": evil}) == f"name\n{evil}\n"
    assert ask("select ? + ? as n", {"1": 2, "2": 3}) == "n\n5\n"


def test_a_view_that_fails_is_an_error(ask: Any) -> None:
    over = Dataset(views=(View("bad", "select nope"),))
    with pytest.raises(QueryError, match='referenced column "nope"'):
        ask("from bad", over=over)


def test_a_query_keeps_its_defaults() -> None:
    assert Query("select 1").limits.seconds == 60.0
