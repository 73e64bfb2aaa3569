from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from registry.query.cells import cut_text, format_figure, format_for_people, format_json, text_width
from registry.query.formats import ARROW_FORMATS, ROW_FORMATS, unique_names
from registry.query.model import FORMATS, Query
from registry.query.output import Output
from registry.query.process import start_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT = st.text(st.characters(exclude_characters="\r\0", codec="utf-8"))


def written(name: str, columns: Sequence[str], *batches: Any) -> str:
    with tempfile.TemporaryFile() as file:
        output = Output(file.fileno(), lambda _state: None, None)
        ROW_FORMATS[name](columns, iter(batches), output)
        return os.pread(file.fileno(), 1 << 20, 0).decode()


ROWS = [(1, "a|b", 21.300000000000001), (None, 'tab\t"q"\n', float("nan"))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("csv", 'n,s,x\n1,a|b,21.3\n,"tab\t""q""\n",nan\n'),
        ("tsv", 'n\ts\tx\n1\ta|b\t21.3\n\ttab\\t"q"\\n\tnan\n'),
        (
            "json",
            '[\n{"n":1,"s":"a|b","x":21.3},\n{"n":null,"s":"tab\\t\\"q\\"\\n","x":null}\n]\n',
        ),
        ("jsonl", '{"n":1,"s":"a|b","x":21.3}\n{"n":null,"s":"tab\\t\\"q\\"\\n","x":null}\n'),
        (
            "table",
            (
                "n  s              x\n─  ──────────  ────\n1  a|b         21.3\n"
                '   tab\\t"q"\\n   nan\n'
            ),
        ),
        (
            "markdown",
            '| n | s | x |\n| --: | --- | --: |\n| 1 | a\\|b | 21.3 |\n|  | tab\\t"q"\\n | nan |\n',
        ),
    ],
)
def test_rows_in_every_format(name: str, text: str) -> None:
    assert written(name, ["n", "s", "x"], ROWS) == text


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "jsonl", "markdown"])
def test_batches_make_no_difference(name: str) -> None:
    one = written(name, ["n", "s", "x"], ROWS)
    assert written(name, ["n", "s", "x"], ROWS[:1], ROWS[1:]) == one


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("csv", "a,b\n"),
        ("tsv", "a\tb\n"),
        ("json", "[]\n"),
        ("jsonl", ""),
        ("table", "a  b\n─  ─\n"),
        ("markdown", "| a | b |\n| --- | --- |\n"),
    ],
)
def test_no_rows(name: str, text: str) -> None:
    assert written(name, ["a", "b"]) == text


def test_the_formats_are_known_by_name() -> None:
    assert (*ROW_FORMATS, *ARROW_FORMATS) == FORMATS


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2**127 - 1, "170141183460469231731687303715884105727"),
        (0.1, "0.1"),
        (float("inf"), "null"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), "null"),
        (True, "true"),
        (b"\x00\xff", '"00ff"'),
        (datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=8))), '"2024-01-01T04:00:00Z"'),
        (datetime(2024, 1, 1, 12, 0, 0, 5), '"2024-01-01T12:00:00.000005"'),  # noqa: DTZ001 - a TIMESTAMP has no zone
        (date(2024, 1, 2), '"2024-01-02"'),
        (timedelta(days=1, hours=2), '"1 day, 2:00:00"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ({"a": [1, {"b": None}]}, '{"a":[1,{"b":null}]}'),
        ({date(2024, 1, 2): (1, 2)}, '{"2024-01-02":[1,2]}'),
        ("你好\x1b", '"你好\\u001b"'),
    ],
)
def test_json_is_exact(value: Any, text: str) -> None:
    assert format_json(value) == text


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_reads_back_equal(value: Any) -> None:
    assert json.loads(format_json(value)) == value


@given(
    st.lists(
        st.tuples(TEXT, st.integers()),
        min_size=1,
    )
)
def test_csv_reads_back_equal(rows: list[tuple[str, int]]) -> None:
    text = written("csv", ["s", "n"], rows)
    back = list(csv.reader(io.StringIO(text, newline="")))
    assert back == [["s", "n"], *([s, str(n)] for s, n in rows)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (36600000000.25, "36600000000"),
        (123456.7, "123457"),
        (1 / 3, "0.333333"),
        (0.00001234567, "1.23457e-05"),
        (999999.7, "1000000"),
        (1.5e300, "1.5e+300"),
        (0.0, "0"),
        (float("inf"), "inf"),
        (Decimal("2.50"), "2.5"),
    ],
)
def test_figures_are_rounded_for_people(value: Any, text: str) -> None:
    assert format_figure(value) == text


def test_integers_are_never_rounded() -> None:
    assert format_for_people(36600000001) == "36600000001"


def test_wide_characters_take_two_cells() -> None:
    assert text_width("小时") == 4
    assert text_width("e\u0301") == 1
    assert cut_text("小时小时", 5) == "小时…"
    table = written("table", ["t", "n"], [("小时", 1), ("h", 2)])
    assert table == "t     n\n────  ─\n小时  1\nh     2\n"


def test_terminal_escapes_are_shown_not_sent() -> None:
    assert format_for_people("\x1b[31mred\u202e") == "\\u001b[31mred\\u202e"


@pytest.mark.parametrize(
    ("name", "text"),
    [("table", "s\n{}\n{}\n"), ("markdown", "| s |\n| --- |\n| {1} |\n")],
)
def test_people_can_be_shown_every_value(ask: Any, name: str, text: str, *, landlock: bool) -> None:
    value = "a\n\t\r\xa0\x9b\u200b\u202e\u2028\ufeff\U000e0001b"
    shown = r"a\n\t\r\u00a0\u009b\u200b\u202e\u2028\ufeff\udb40\udc01b"
    if name == "table":
        shown = shown[:39] + "…"
    answer = ask("select $s as s", {"s": value}, format=name, landlock=landlock)
    assert answer == text.format("─" * len(shown), shown)


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "jsonl"])
def test_machines_get_the_characters_themselves(ask: Any, name: str, *, landlock: bool) -> None:
    value = "\xa0\x9b\u200b\u202e\u2028"
    assert value in ask("select $s as s", {"s": value}, format=name, landlock=landlock)


def test_repeated_names_stay_apart_in_json() -> None:
    assert written("jsonl", ["a", "a"], [(1, 2)]) == '{"a":1,"a_1":2}\n'
    assert unique_names(["a", "a", "a_1", "a"]) == ["a", "a_2", "a_1", "a_3"]


SQL = "select 1::bigint as i, 1.5::double as x, timestamptz '2024-01-01 00:00:00+00' as t, [1] as l"


def test_parquet_keeps_the_types(dataset: Any, tmp_path: Any, *, landlock: bool) -> None:
    place = tmp_path / "out.parquet"
    with place.open("wb") as file, start_worker() as worker:
        summary = worker.run(dataset, Query(SQL, format="parquet", landlock=landlock), file)
    table = parquet.read_table(place)
    assert (summary.rows, summary.columns) == (1, ("i", "x", "t", "l"))
    assert table.to_pylist() == [
        {"i": 1, "x": 1.5, "t": datetime(2024, 1, 1, tzinfo=UTC), "l": [1]}
    ]
    assert table.schema.field("t").type == pa.timestamp("us", "UTC")


def test_parquet_numbers_repeated_names(dataset: Any, tmp_path: Any) -> None:
    place = tmp_path / "out.parquet"
    query = Query("select 1::bigint as a, 'x' as a, 2::bigint as a_1", format="parquet")
    with place.open("wb") as file, start_worker() as worker:
        summary = worker.run(dataset, query, file)
    assert summary.columns == ("a", "a_2", "a_1")
    assert parquet.read_table(place).to_pylist() == [{"a": 1, "a_2": "x", "a_1": 2}]


def test_every_type_of_the_engine_can_be_written(ask: Any) -> None:
    sql = (
        "select interval 1 day as a, time '10:00' as b, '101'::bit as c, 'ab'::blob as d,"
        " map {'k': 1} as e, [1, 2]::integer[2] as f, 'x'::enum('x') as g, '{}'::json as h,"
        " 170141183460469231731687303715884105727::hugeint as i, date '2024-01-02' as j,"
        " uuid '00000000-0000-0000-0000-000000000001' as k, 1.50::decimal(4, 2) as l,"
        " timestamptz '2024-01-01 00:00:00+01' as m, null as n, 'infinity'::double as o"
    )
    assert json.loads(ask(sql, format="json")) == [
        {
            "a": "1 day, 0:00:00",
            "b": "10:00:00",
            "c": "101",
            "d": "6162",
            "e": {"k": 1},
            "f": [1, 2],
            "g": "x",
            "h": "{}",
            "i": 2**127 - 1,
            "j": "2024-01-02",
            "k": "00000000-0000-0000-0000-000000000001",
            "l": 1.5,
            "m": "2023-12-31T23:00:00Z",
            "n": None,
            "o": None,
        }
    ]
