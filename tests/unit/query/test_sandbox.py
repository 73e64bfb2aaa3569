"""Every hole known in the engine's own switches, and every trick tried on top."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _duckdb import __version__ as engine_version

from registry.errors import QueryError
from registry.query.confine import landlock_abi
from registry.query.model import Limits
from registry.query.statements import READS

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.query.model import Dataset

READ_TRICKS = [
    "select * from read_csv('/etc/passwd')",
    "select * from read_csv_auto('/etc/passwd')",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/etc/passwd')",
    "select * from read_json('/etc/passwd')",
    "select * from read_ndjson_objects('/etc/passwd')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from '/etc/passwd'",
    "from '/etc/os-release.csv'",
    "select * from parquet_metadata('/etc/passwd')",
    "select * from parquet_schema('{outside}/secret.parquet')",
    "select * from parquet_scan('{outside}/secret.parquet')",
    "select * from read_parquet('{outside}/*.parquet')",
    "select * from read_text('{tables}/../outside/secret.txt')",
    "select * from read_text('/proc/self/environ')",
    "select * from read_blob('/proc/self/mem')",
    "select * from read_text('/proc/self/fd/0')",
    "select * from read_text('/proc/self/fd/1')",
    "select * from read_text('/proc/self/cmdline')",
    "select * from read_text('/dev/stdin')",
    "select * from read_text('/dev/fd/0')",
    "select * from read_text('file:///etc/passwd')",
    "select * from read_csv(['/etc/passwd', '/etc/group'])",
    "select * from query('select * from read_text(''/etc/passwd'')')",
    "select * from query_table('/etc/passwd')",
    "with x as (from read_text('/etc/passwd')) from x",
    "select (select content from read_text('/etc/passwd'))",
    "describe select * from read_csv('/etc/passwd')",
    "summarize select * from read_csv('/etc/passwd')",
    "explain analyze select * from read_text('/etc/passwd')",
    "select * from read_text('http://127.0.0.1:9/x')",
    "select * from 'https://127.0.0.1:9/x.parquet'",
    "select * from read_parquet('s3://bucket/x.parquet')",
    "select * from read_text('hf://datasets/x/y')",
    "select * from sqlite_scan('x.db', 't')",
    "select * from postgres_scan('host=127.0.0.1', 'public', 't')",
    "select * from iceberg_scan('x')",
    "select * from delta_scan('x')",
    "select getenv('HOME')",
    "select * from arrow_scan(1, 2, 3)",
    "select * from pandas_scan(1)",
    "select * from python_map_function(1)",
    "select * from sys",
    "select * from dataset",
]
WRITE_TRICKS = [
    "copy (select 1) to 'x.csv'",
    "/* c */ copy /* d */ (select 1) to 'x.csv' -- e",
    "copy a to '{tables}/x.parquet'",
    "copy (select 6) to '{tables}/a.parquet' (format parquet, use_tmp_file false)",
    "copy (with c as (select 1) from c) to 'x.csv'",
    "with c as (copy (select 1) to '{tables}/y.parquet') from c",
    "with c as materialized (copy (select 1) to 'y.csv') from c",
    "with c as (select 1), d as (copy c to 'y.csv') from d",
    "explain analyze copy (select 1) to 'x.csv'",
    "explain (analyze) copy (select 1) to 'x.csv'",
    "explain /* a */ analyze /* b */ copy (select 1) to 'x.csv'",
    "explain copy (select 1) to 'x.csv'",
    "explain explain analyze copy (select 1) to 'x.csv'",
    "select 1; copy (select 1) to 'x.csv'",
    "attach '{tables}/z.db' as z",
    "attach 'z.duckdb'",
    "attach ':memory:' as m",
    "export database 'dump'",
    "import database 'dump'",
    "checkpoint",
    "force checkpoint",
    "select * from checkpoint()",
    "select * from force_checkpoint()",
    "install httpfs",
    "force install httpfs from 'http://127.0.0.1:9'",
    "load httpfs",
    "load 'x.duckdb_extension'",
    "update extensions",
    "set threads = 1",
    "set home_directory = '/tmp'",
    "set temp_directory = '/tmp/x'",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "set allowed_directories = ['/']",
    "set variable x = 1",
    "reset allowed_paths",
    "pragma enable_profiling",
    "pragma memory_limit = '100GB'",
    "pragma version",
    "call enable_logging(storage = 'file')",
    "call enable_logging(storage = 'file', storage_path = 'log')",
    "select * from enable_logging(storage = 'file', storage_path = 'log')",
    "from \"enable_logging\"(storage = 'file', storage_path = 'log')",
    "prepare p as select 1",
    "execute p",
    "create table t as select 1",
    "create temp table t as select 1",
    "create macro m() as 1",
    "create secret s (type s3)",
    "create persistent secret s (type http)",
    "create or replace view a as select 1",
    "create type t as enum ('x')",
    "drop view a",
    "insert into a values (1, 'x')",
    "delete from a",
    "update a set id = 1",
    "truncate a",
    "alter view a rename to b",
    "comment on view a is 'x'",
    "begin",
    "vacuum",
    "analyze",
    "use memory",
    "detach memory",
    "pivot a on name",
]


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    stats = {path: path.stat() for path in folder.rglob("*")}
    return {str(path): (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


@pytest.fixture
def attack(ask: Any, folder: Path, tmp_path: Path) -> Callable[..., str]:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (outside / "secret.parquet").write_bytes((folder / "a.parquet").read_bytes())

    def run(sql: str, **options: Any) -> str:
        before = snapshot(tmp_path)
        try:
            answer: str = ask(sql.format(tables=folder, outside=outside), **options)
        finally:
            assert snapshot(tmp_path) == before
        return answer

    return run


@pytest.mark.parametrize("sql", READ_TRICKS)
def test_nothing_outside_can_be_read(attack: Any, sql: str, *, landlock: bool) -> None:
    with pytest.raises(QueryError) as caught:
        attack(sql, landlock=landlock)
    assert str(caught.value).startswith("query: ")
    assert "root:" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("sql", WRITE_TRICKS)
def test_nothing_can_be_written_or_set(attack: Any, sql: str, *, landlock: bool) -> None:
    with pytest.raises(QueryError, match=r"^query: "):
        attack(sql, landlock=landlock)


def test_a_glob_finds_nothing(attack: Any, *, landlock: bool) -> None:
    with pytest.raises(QueryError, match="reaches for"):
        attack("select * from glob('/etc/*')", landlock=landlock)


def test_no_secret_is_listed(attack: Any, *, landlock: bool) -> None:
    assert attack("select count(*) as n from duckdb_secrets()", landlock=landlock) == "n\n0\n"


def test_the_parents_variables_are_no_tables(attack: Any) -> None:
    with pytest.raises(QueryError, match="table with name dataset does not exist"):
        attack("select * from dataset")


def test_a_join_too_large_for_memory_does_not_spill(attack: Any, *, landlock: bool) -> None:
    sql = "select count(*) from (select range r, repeat('x', 900) || range s from range(4000000)"
    limits = Limits(memory_bytes=64 << 20, seconds=20, threads=2)
    with pytest.raises(QueryError, match="needs more than the 64 MiB of memory"):
        attack(f"{sql} order by s)  where r > 0 and s <> ''", landlock=landlock, limits=limits)


def test_settings_keep_the_doors_shut(attack: Any, *, landlock: bool) -> None:
    names = "'enable_external_access', 'lock_configuration', 'autoload_known_extensions'"
    sql = f"select name, value from duckdb_settings() where name in ({names}) order by name"  # noqa: S608 - fixed names
    assert attack(sql, landlock=landlock) == (
        "name,value\nautoload_known_extensions,false\n"
        "enable_external_access,false\nlock_configuration,true\n"
    )


@pytest.fixture
def _belts_off(patch_child: Callable[[str], None]) -> None:
    """Leave the operating system alone to stop a statement."""
    if not landlock_abi():
        pytest.skip("the kernel has no Landlock")
    patch_child(
        "from registry.query import database, worker\n"
        "worker.parse_statement = lambda _, con, sql: con.extract_statements(sql)[0]\n"
        "database.shut_doors = lambda _con, _files: None\n"
    )


@pytest.mark.usefixtures("_belts_off")
@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to 'x.csv'",
        "copy (select 6) to '{tables}/a.parquet' (format parquet, use_tmp_file false)",
        "explain analyze copy (select 1) to '{tables}/x.csv'",
        "attach '{tables}/z.db' as z",
        "export database '{tables}/dump'",
        "select * from read_text('/etc/passwd')",
        "select * from read_text('/proc/self/environ')",
        "select * from read_blob('/proc/self/mem')",
        "select * from parquet_schema('{outside}/secret.parquet')",
        "install httpfs",
        "load httpfs",
        "create persistent secret s (type http)",
    ],
)
def test_landlock_alone_holds(attack: Any, sql: str) -> None:
    with pytest.raises(QueryError):
        attack(sql)


@pytest.mark.usefixtures("_belts_off")
def test_landlock_alone_stops_a_copy_that_is_a_select(attack: Any) -> None:
    message = "A CTE needs a SELECT" if engine_version.startswith("1.") else "reaches for file"
    with pytest.raises(QueryError, match=message):
        attack("with c as (copy (select 1) to '{tables}/y.parquet') from c")


@pytest.mark.usefixtures("_belts_off")
def test_landlock_alone_hides_other_folders(attack: Any) -> None:
    assert attack("select count(*) as n from glob('/etc/*')") == "n\n0\n"


@pytest.mark.usefixtures("_belts_off")
def test_an_inherited_pipe_cannot_be_read(attack: Any) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)  # noqa: FBT003 - has no keyword
    os.write(writing, b"secret")
    os.close(writing)  # or a read would wait for more
    try:
        answer = attack(f"from read_text('/proc/self/fd/{reading}')")
        assert answer == "filename,content,size,last_modified\n"  # 1.5.5 finds no such file
    except QueryError as error:
        assert "reaches for file" in str(error)  # noqa: PT017 - 2.0.0 is refused
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "copy (select 1) to 'x'",
            f"query: a COPY statement is not allowed; a query reads with {READS}",
        ),
        (
            "explain analyze copy (select 1) to 'x'",
            f"query: an EXPLAIN COPY statement is not allowed; a query reads with {READS}",
        ),
        ("select 1; select 2", "query: found 2 statements, expected one at a time"),
        (
            "pivot a on name",
            "query: a pivot needs its values spelled out: pivot T on C in ('x', 'y')",
        ),
        (
            "-- nothing",
            'query: found no statement; write one, such as "select * from results"',
        ),
    ],
)
def test_a_refusal_says_what_is_allowed(ask: Any, sql: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(sql)
    assert str(caught.value) == message


def test_reaching_for_a_file_names_it(ask: Any) -> None:
    with pytest.raises(QueryError) as caught:
        ask("select *\nfrom read_csv('/etc/passwd')")
    first, place, _caret = str(caught.value).split("\n")
    assert first == (
        "query: reaches for file '/etc/passwd', but a query can reach only the registry's"
        " own tables (see them with: show tables)"
    )
    assert place == "LINE 2: from read_csv('/etc/passwd')"


@pytest.mark.parametrize(
    "sql",
    [
        "select 'copy (select 1) to x' as s",
        "select (copy) from (select 1 as copy)",
        "select (copy is null) from (select 1 as copy)",
        'select * from (select 1 as "insert into x")',
        "select 1 -- ; copy (select 1) to 'x'",
        "select 1;",
        "explain (select 1)",
        "explain (format json) select 1",
        "explain analyze select 1",
        "values (1), (2)",
        "from a select id",
        "table a",
        "pivot a on name in ('n1') using count(*)",
        "unpivot a on id",
    ],
)
def test_harmless_statements_run(ask: Any, sql: str, *, landlock: bool) -> None:
    assert ask(sql, landlock=landlock)


def test_a_missing_folder_is_said(ask: Any, dataset: Dataset) -> None:
    if not landlock_abi():
        pytest.skip("the kernel has no Landlock")
    with pytest.raises(QueryError, match=r"^query: No such file or directory: '/nowhere/at/all'$"):
        ask("select 1", over=replace(dataset, readable=(Path("/nowhere/at/all"),)))


def test_a_path_in_place_of_a_table_is_a_file_out_of_reach(ask: Any) -> None:
    with pytest.raises(QueryError, match=r"^query: reaches for file '/etc/passwd', but a query"):
        ask("select * from '/etc/passwd'")


def test_built_in_tables_are_not_suggested(ask: Any) -> None:
    with pytest.raises(QueryError) as caught:
        ask("select * from sys")
    assert str(caught.value).split("\n")[0] == "query: table with name sys does not exist"
