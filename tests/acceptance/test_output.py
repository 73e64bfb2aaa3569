"""What rows look like, and where they may go."""

from __future__ import annotations

import csv
import io
import os
import pty
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

EXAMPLE = Path(__file__).parents[1] / "examples/valid/minimal.json"

PAIRS = "select * from (values (1, 'x'), (2, null)) as t (n, word)"

AS_TEXT = {
    "csv": "n,word\n1,x\n2,\n",
    "tsv": "n\tword\n1\tx\n2\t\n",
    "json": '[\n{"n":1,"word":"x"},\n{"n":2,"word":null}\n]\n',
    "jsonl": '{"n":1,"word":"x"}\n{"n":2,"word":null}\n',
}


def read_terminal(arguments: list[str], environment: dict[str, str], cwd: Path) -> str:
    """Return what the command shows on a terminal."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        arguments, cwd=cwd, env=environment, stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            chunk = os.read(leader, 65_536)
        except OSError:  # Linux says so when the last writer hung up
            break
        if not chunk:
            break
        shown += chunk
    os.close(leader)
    child.wait(timeout=300)
    return shown.decode()


@pytest.mark.parametrize("name", AS_TEXT)
def test_a_format_is_named(run: Run, name: str) -> None:
    done = run("query", PAIRS, "-f", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace("\r\n", "\n") == AS_TEXT[name]


def test_a_markdown_table_has_a_rule_under_its_head(run: Run) -> None:
    lines = run("query", PAIRS, "-f", "markdown").stdout.splitlines()
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == ["n", "word"]
    assert set(lines[1]) <= set("|-: ")
    assert len(lines) == 4


def test_parquet_goes_through_a_pipe(command: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [command, "query", PAIRS, "-f", "parquet"], env=environment, capture_output=True, check=True
    )
    assert pq.read_table(io.BytesIO(done.stdout)).to_pylist() == [
        {"n": 1, "word": "x"},
        {"n": 2, "word": None},
    ]


def test_arrow_goes_through_a_pipe(command: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [command, "query", PAIRS, "-f", "arrow"], env=environment, capture_output=True, check=True
    )
    assert pa.ipc.open_stream(done.stdout).read_all().column("n").to_pylist() == [1, 2]


def test_arrow_in_a_file_has_the_form_that_other_tools_read(run: Run, work: Path) -> None:
    assert run("query", PAIRS, "-o", "x.arrow").returncode == 0
    assert feather.read_table(work / "x.arrow").column("n").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("interval 1 month", "month_day_nano_interval"),
        ("[interval 1 day]", "list<l: month_day_nano_interval>"),
        ("union_value(a := 1)", "sparse_union<a: int32=0>"),
    ],
)
def test_a_type_that_parquet_lacks_is_refused_with_the_way_out(
    run: Run, work: Path, value: str, kind: str
) -> None:
    refused = run("query", f"select 1 as n, {value} as span", "-o", "x.parquet")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"error: query: Parquet has no type for 'span' ({kind}); expected another, such as "
        "epoch(…), the seconds of an interval, or cast(… as varchar); csv, json and arrow take "
        "any\n"
    )
    assert list(work.iterdir()) == []
    sql = f"select 1 as n, cast({value} as varchar) as span"
    assert run("query", sql, "-o", "x.parquet").returncode == 0
    assert run("query", f"select {value} as span", "-o", "x.arrow").returncode == 0


def test_a_pipe_gets_csv_without_being_asked(run: Run) -> None:
    assert run("query", "select 1 as a").stdout.split() == ["a", "1"]


def test_a_terminal_gets_a_table_with_rounded_figures(
    command: Path, environment: dict[str, str], work: Path
) -> None:
    shown = read_terminal([str(command), "query", "select 1 / 3.0e0 as third"], environment, work)
    assert "third" in shown
    assert "0.333" in shown
    assert "0.3333333333" not in shown
    assert b"third," not in shown.encode()


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "jsonl", "table", "markdown"])
def test_a_terminal_gets_no_character_that_it_would_act_on(
    command: Path, environment: dict[str, str], work: Path, name: str
) -> None:
    sql = "select 'x' || chr(155) || chr(8238) || chr(13) || chr(127) || 'y' as s"
    shown = read_terminal([str(command), "query", sql, "-f", name], environment, work)
    assert r"x\u009b\u202e\r\u007fy" in shown
    assert shown.replace("\r\n", "").isprintable()


def test_a_name_in_a_message_is_shown_not_sent(run: Run, work: Path) -> None:
    (work / "a\x9b\u202e\r.sql").write_bytes(b"\xff")
    done = run("query", "--file", "a\x9b\u202e\r.sql")
    assert (done.returncode, done.stderr) == (
        1,
        r"error: a\u009b\u202e\r.sql: byte 0: not UTF-8; expected a SQL statement in UTF-8" + "\n",
    )


def test_what_the_engine_repeats_of_a_statement_is_shown_not_sent(run: Run) -> None:
    lines = run("query", 'select "a\x9b\u202e"').stderr.split("\n")
    assert r'"a\u009b\u202e"' in lines[0]
    assert lines[1] == r'LINE 1: select "a\u009b\u202e"'


def test_figures_in_a_pipe_are_not_rounded(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(run("query", "select 1 / 3.0e0 as third").stdout)))
    assert float(rows[0]["third"]) == 1 / 3


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.csv", b"n,word"),
        ("x.tsv", b"n\tword"),
        ("x.json", b"["),
        ("x.jsonl", b"{"),
        ("x.ndjson", b"{"),
        ("x.md", b"|"),
        ("x.markdown", b"|"),
        ("x.arrow", b"ARROW1"),
        ("x.parquet", b"PAR1"),
        ("x.PQ", b"PAR1"),
    ],
)
def test_the_ending_of_the_output_implies_its_format(
    run: Run, work: Path, name: str, start: bytes
) -> None:
    done = run("query", PAIRS, "-o", name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (work / name).read_bytes().startswith(start)
    assert [path.name for path in work.iterdir()] == [name]


def test_an_unknown_ending_is_refused(run: Run, work: Path) -> None:
    done = run("query", PAIRS, "-o", "x.foo")
    assert done.returncode == 2
    assert "error: x.foo: its extension implies no format; expected one of " in done.stderr
    assert done.stderr.endswith("or a format with -f\n")
    assert list(work.iterdir()) == []


def test_a_format_goes_before_the_ending(run: Run, work: Path) -> None:
    assert run("query", "select 1 as a", "-o", "x.foo", "-f", "jsonl").returncode == 0
    assert (work / "x.foo").read_text() == '{"a":1}\n'


def test_a_failed_query_leaves_the_old_output(run: Run, work: Path) -> None:
    (work / "x.csv").write_text("old")
    assert run("query", "select nothing_such", "-o", "x.csv").returncode == 1
    assert {path.name: path.read_text() for path in work.iterdir()} == {"x.csv": "old"}


def test_an_output_in_a_missing_folder_is_refused(run: Run, work: Path) -> None:
    done = run("query", "select 1", "-o", "sub/x.csv")
    assert (done.returncode, done.stderr) == (
        1,
        (
            "error: sub/x.csv: cannot be written: No such file or directory; nothing was written; "
            "create its folder first, or name another place\n"
        ),
    )
    assert list(work.iterdir()) == []


def test_an_output_that_is_a_link_stays_one(run: Run, work: Path) -> None:
    (work / "real.csv").write_text("old")
    (work / "x.csv").symlink_to("real.csv")
    assert run("query", "select 1 as a", "-o", "x.csv").returncode == 0
    assert (work / "x.csv").is_symlink()
    assert (work / "real.csv").read_text().split() == ["a", "1"]


REFUSED = (
    "error: {path}: {reason}; only a registry's own commands write its files; nothing was written; "
    "name a file outside it\n"
)


def _first_part(registry: Path) -> Path:
    return next((registry / "tables").rglob("observations*.parquet"))


@pytest.mark.parametrize("place", ["tables", "journal", "quarantine", "."])
@pytest.mark.parametrize("named", [["--registry", "mine"], []])
def test_an_output_in_a_registry_is_refused(
    run: Run, registry: Path, snapshot: Callable[[Path], Any], place: str, named: list[str]
) -> None:
    (registry / place).mkdir(exist_ok=True)
    before = snapshot(registry)
    path = Path("mine", place, "x.csv")
    done = run("query", "select 1", "-o", str(path), *named)
    assert done.returncode == 2
    assert done.stderr.endswith(
        REFUSED.format(path=path, reason=f"lies in the registry {registry}")
    )
    assert snapshot(registry) == before


def test_a_registry_that_is_not_in_use_and_not_folded_is_not_written_over(
    run: Run, registry: Path, work: Path, snapshot: Callable[[Path], Any]
) -> None:
    assert run("init", "other").returncode == 0
    assert run("add", str(EXAMPLE), "--registry", "other").returncode == 0
    (entry,) = (work / "other/journal").iterdir()
    before = snapshot(work / "other")
    for path in (entry.relative_to(work), Path("other/registry.json"), Path("other/new.csv")):
        done = run("query", "select 1", "-f", "csv", "-o", str(path), "--registry", registry.name)
        assert done.returncode == 2
        assert done.stderr.endswith(
            REFUSED.format(path=path, reason=f"lies in the registry {work / 'other'}")
        )
    assert snapshot(work / "other") == before


def test_a_folder_with_a_file_called_registry_json_is_no_registry(run: Run, work: Path) -> None:
    (work / "registry.json").write_text("[]")
    assert run("query", "select 1", "-o", "x.csv").returncode == 0


@pytest.mark.parametrize("command_name", [["ls"], ["query", "select 1"]])
def test_a_live_file_is_not_overwritten_through_a_link(
    run: Run,
    registry: Path,
    work: Path,
    snapshot: Callable[[Path], Any],
    command_name: list[str],
) -> None:
    before = snapshot(registry)
    (work / "folder").symlink_to("mine/tables")
    (work / "link.parquet").symlink_to(_first_part(registry))
    for name in ("folder/x.parquet", "link.parquet"):
        done = run(*command_name, "-o", name, "--registry", "mine")
        assert done.returncode == 2
        assert done.stderr.endswith(
            REFUSED.format(path=name, reason=f"lies in the registry {registry}")
        )
    assert snapshot(registry) == before


def test_a_second_name_of_a_live_file_is_not_overwritten(
    run: Run, registry: Path, work: Path, snapshot: Callable[[Path], Any]
) -> None:
    before = snapshot(registry)
    part = _first_part(registry)
    (work / "x.parquet").hardlink_to(part)
    done = run("query", "select 1", "-o", "x.parquet", "--registry", "mine")
    own = part.relative_to(work)
    assert done.returncode == 2
    assert done.stderr.endswith(
        REFUSED.format(path="x.parquet", reason=f"is a second name of {own}")
    )
    assert snapshot(registry) == before


def test_a_folder_of_tables_that_is_no_registry_may_be_written_to(run: Run, work: Path) -> None:
    (work / "tables").mkdir()
    assert run("query", "select 1 as a", "-o", "tables/x.csv").returncode == 0
    assert (work / "tables" / "x.csv").read_text() == "a\n1\n"


def test_an_output_whose_links_go_in_a_circle_is_replaced(run: Run, work: Path) -> None:
    (work / "x.csv").symlink_to("x.csv")
    done = run("query", "select 1 as a", "-o", "x.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert (work / "x.csv").read_text() == "a\n1\n"


def test_a_device_is_written_and_not_replaced(run: Run) -> None:
    assert run("query", "select 1 as a", "-o", "/dev/null", "-f", "csv").returncode == 0
    assert Path("/dev/null").is_char_device()
    done = run("query", "select 1 as a", "-o", "/dev/full", "-f", "csv")
    assert (done.returncode, done.stderr) == (
        1,
        "error: query: cannot write its result: No space left on device\n",
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "select 1"],
        ["ls"],
        ["doctor"],
        ["query", "--help"],
        ["--version"],
    ],
)
def test_a_full_standard_output_is_one_error(
    command: Path, environment: dict[str, str], work: Path, arguments: list[str], unbuffered: str
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [command, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**environment, "PYTHONUNBUFFERED": unbuffered},
            cwd=work,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert done.stderr.count(b"\n") == 1
    assert b"No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("call", "ends"),
    [
        ("query 'select 1' >&-", (1, "query: cannot write its result: Bad file descriptor")),
        ("ls >&-", (1, "query: cannot write its result: Bad file descriptor")),
        ("--version >&-", (1, "Bad file descriptor; expected usable files and output")),
        ("add - <&-", (1, "standard input: found nothing; expected a JSON document")),
        ("query 'select 1' >&- 2>&- <&-", (1, "")),
        ("nope >&- 2>&-", (2, "")),
        ("init new <&- 2>&-", (0, "")),
    ],
)
def test_a_closed_stream_is_at_most_one_error(
    command: Path, environment: dict[str, str], work: Path, call: str, ends: tuple[int, str]
) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec '{command}' {call}"],
        stderr=subprocess.PIPE,
        env=environment,
        cwd=work,
        check=False,
    )
    said = f"error: {ends[1]}\n" if ends[1] else ""
    assert (done.returncode, done.stderr.decode()) == (ends[0], said)
