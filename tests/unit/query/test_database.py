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

OUTSIDE = "lies outside what a query may read"


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
        (lambda folder, outside: _fifo(folder / "b.parquet", outside), "is not a regular file"),
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


REWRITE = (
    "was written under another contract than this release's; rewrite it with `registry fold --all`"
)
COLUMNS = (("new", "DOUBLE"), ("id", "BIGINT"), ("l", "VARCHAR[]"), ("t", "TIMESTAMPTZ"))


def evolved(folder: Path, *tables: dict[str, Any], **options: Any) -> Dataset:
    """Return a dataset of the relation `e`, of a file for each of the tables."""
    paths = [folder / f"e{number}.parquet" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        parquet.write_table(pa.table(table), path)
    return Dataset((Relation("e", tuple(paths), COLUMNS, evolved=True, **options),), (), (folder,))


def test_files_of_older_contracts_are_read_as_the_contract_says(
    ask: Any, folder: Path, *, landlock: bool
) -> None:
    over = evolved(
        folder,
        {"id": ["9007199254740993", "2"], "gone": ["x", "y"]},
        {"l": [["a"]], "id": [3], "new": [1]},
        json_rows=b'[{"id": 9007199254740995, "new": 0.5}]',
    )
    assert ask("from e order by id", over=over, landlock=landlock, format="jsonl") == (
        '{"new":null,"id":2,"l":null,"t":null}\n'
        '{"new":1.0,"id":3,"l":["a"],"t":null}\n'
        '{"new":null,"id":9007199254740993,"l":null,"t":null}\n'
        '{"new":0.5,"id":9007199254740995,"l":null,"t":null}\n'
    )
    types = ask("select typeof(columns(*)) from e limit 1", over=over, landlock=landlock)
    assert types == "new,id,l,t\nDOUBLE,BIGINT,VARCHAR[],TIMESTAMP WITH TIME ZONE\n"


def test_one_old_file_alone_is_read_as_the_contract_says(
    ask: Any, folder: Path, *, landlock: bool
) -> None:
    over = evolved(folder, {"l": ["[a, b]"], "id": pa.array([None], pa.string())})
    assert ask("from e", over=over, landlock=landlock) == 'new,id,l,t\n,,"[""a"",""b""]",\n'


@pytest.mark.parametrize("value", ["seven", "it's", "a" * 99, "1.5", "1e30"])
def test_an_old_value_that_cannot_be_cast_says_how_to_rewrite_it(
    ask: Any, folder: Path, value: str, *, landlock: bool
) -> None:
    over = evolved(folder, {"id": ["1", value]}, {"id": [3]})
    with pytest.raises(QueryError) as caught:
        ask("select sum(id) as n from e", over=over, landlock=landlock)
    assert str(caught.value) == (
        f"query: table 'e', column 'id': found '{value[:60]}', expected BIGINT; it {REWRITE}"
    )


def test_files_whose_types_cannot_be_united_say_how_to_rewrite_them(
    ask: Any, folder: Path, *, landlock: bool
) -> None:
    over = evolved(folder, {"l": [["a"]]}, {"l": ["b"]})
    with pytest.raises(QueryError) as caught:
        ask("from e", over=over, landlock=landlock)
    assert str(caught.value) == (
        f"query: {folder}/e1.parquet: column 'l': found VARCHAR, expected VARCHAR[]; the file "
        f"{REWRITE}"
    )


def test_a_cast_that_the_user_wrote_is_the_users_fault(ask: Any, folder: Path) -> None:
    over = evolved(folder, {"l": [["x"]]})
    with pytest.raises(QueryError) as caught:
        ask("select cast(l[1] as bigint) from e", over=over)
    assert "contract" not in str(caught.value)


def layered(dataset: Dataset, **options: Any) -> Dataset:
    """Return a dataset where `own` is `a` without the first rows and those that `other` holds."""
    first, *others = dataset.relations
    condition = "id not in (select id from other) and id > 1"
    other = Relation("other", (), (("id", "BIGINT"),), json_rows=b'[{"id": 3}, {"id": 12}]')
    own = replace(first, name="own", where=condition, **options)
    views = (View("united", "select id from own union all select id from other"),)
    return replace(dataset, relations=(first, *others, other, own), views=views)


@pytest.mark.parametrize("is_evolved", [True, False])
def test_a_condition_hides_rows_of_files_and_pending_ones(
    ask: Any, dataset: Dataset, *, is_evolved: bool, landlock: bool
) -> None:
    pending = b'[{"id": 11}, {"id": 12}]'
    over = layered(dataset, json_rows=pending, evolved=is_evolved)
    answer = ask("select list(id order by id) as l from own", over=over, landlock=landlock)
    assert answer == 'l\n"[2,4,5,6,7,8,9,11]"\n'
    answer = ask("select count(*) as n from united", over=over, landlock=landlock)
    assert answer == "n\n10\n"


def test_a_condition_brings_what_it_names(dataset: Dataset) -> None:
    assert database.select_names(layered(dataset), "from own") == {"own", "other"}
    assert database.select_names(layered(dataset), "from united") == {"united", "own", "other"}


def test_a_condition_holds_for_a_relation_without_rows(ask: Any, *, landlock: bool) -> None:
    over = Dataset((Relation("e", (), COLUMNS, where="id > 1"),))
    assert ask("select id from e", over=over, landlock=landlock) == "id\n"


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
