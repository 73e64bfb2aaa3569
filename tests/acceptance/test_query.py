"""`registry query`: formats, where rows go, parameters, limits."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

ENDLESS = "select count(*) from range(1000000000000) as a (i) where hash(i) = 1"
PAIRS = "select * from (values (1, 'x'), (2, null)) as t (n, word)"

AS_TEXT = {
    "csv": "n,word\n1,x\n2,\n",
    "tsv": "n\tword\n1\tx\n2\t\n",
    "json": '[\n{"n":1,"word":"x"},\n{"n":2,"word":null}\n]\n',
    "jsonl": '{"n":1,"word":"x"}\n{"n":2,"word":null}\n',
}


def wait_for_child(pid: int) -> int:
    """Return the id of a process's first child, once it has one."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    while not children.read_text():
        time.sleep(0.001)
    return int(children.read_text().split()[0])


def wait_for_threads(pid: int) -> None:
    """Wait until a process has several threads, as the engine has when it starts to work."""
    while sum(1 for _ in Path(f"/proc/{pid}/task").iterdir()) == 1:
        time.sleep(0.001)


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
    child.wait(timeout=30)
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
    assert "error: x.foo: its ending implies no format; expected one of " in done.stderr
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
    "error: {path}: {reason}, whose files only its own commands write; nothing was written; "
    "name a file outside of it\n"
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
    command: Path, environment: dict[str, str], work: Path, arguments: list[str]
) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [command, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=work,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert done.stderr.count(b"\n") == 1
    assert b"No space left on device" in done.stderr


def test_values_are_bound_by_name(run: Run) -> None:
    done = run("query", "select $a as a, $b as b", "-p", "a=8192", "--param", "b=it's", "-f", "csv")
    assert done.stdout.split() == ["a,b", "8192,it's"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["select $a", "-p", "b=1"], 1, "query: no value for $a; pass a=VALUE"),
        (
            ["select 1", "-p", "b=1"],
            1,
            "query: parameter 'b' is not in the SQL, which has no parameters",
        ),
        (
            ["select 1", "-p", "b"],
            2,
            "parameter 'b': expected name=value, such as model=qwen-7b",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    run: Run, arguments: list[str], code: int, message: str
) -> None:
    done = run("query", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.endswith(f"error: {message}\n")


def test_the_statement_comes_from_a_file(run: Run, write: Callable[[str, Any], Path]) -> None:
    write("q.sql", "-- a comment\nselect 3 as c;\n")
    assert run("query", "--file", "q.sql").stdout.split() == ["c", "3"]


def test_the_statement_comes_from_standard_input(run: Run) -> None:
    assert run("query", "-", stdin="select 4 as d").stdout.split() == ["d", "4"]


@pytest.mark.parametrize("arguments", [[], ["select 1", "--file", "q.sql"]])
def test_one_statement_is_expected(
    run: Run, write: Callable[[str, Any], Path], arguments: list[str]
) -> None:
    write("q.sql", "select 1")
    done = run("query", *arguments)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "error: expected one statement: as an argument, as - for standard input, or with --file\n"
    )


def test_a_statement_that_is_not_text_is_refused(run: Run) -> None:
    done = run("query", "-", stdin=b"select '\xff'")
    assert (done.returncode, done.stderr) == (
        1,
        "error: standard input: byte 8: not UTF-8; expected a SQL statement in UTF-8\n",
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["query", "select '\udcff'"], "8 of \"select '\\udcff'\""),
        (["query", "select $a", "-p", "a=\udcff"], r"0 of '\udcff'"),
        (["ls", "--model", "\udcff"], r"0 of '\udcff'"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_refused(
    run: Run, arguments: list[str], text: str
) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        f"error: query: character {text}: not UTF-8; expected SQL and values in UTF-8\n",
    )


def test_the_schema_tells_columns_with_units_and_meanings(run: Run) -> None:
    done = run("query", "--schema", "results", "-f", "json")
    rows = json.loads(done.stdout)
    assert {row["relation"] for row in rows} == {"results"}
    assert "n_citations" in {row["column"] for row in rows}
    assert all(row["meaning"] for row in rows)


def test_the_schema_of_all_relations_has_no_internal_ones(run: Run) -> None:
    rows = json.loads(run("query", "--schema", "-f", "json").stdout)
    names = {row["relation"] for row in rows}
    assert {"results", "observations", "measurements", "citations_wide"} <= names
    assert not any(name.startswith(("pending_", "duckdb_")) for name in names)


def test_an_unknown_relation_gets_a_hint(run: Run) -> None:
    done = run("query", "--schema", "reslts")
    assert done.returncode == 2
    assert "error: no table or view 'reslts'; did you mean 'results'?; expected one of" in (
        done.stderr
    )


def test_a_query_past_its_time_ends_with_124(run: Run) -> None:
    done = run("query", ENDLESS, "--timeout", "0.5")
    assert (done.returncode, done.stdout, done.stderr) == (
        124,
        "",
        (
            "error: query: ended at its time limit of 0.5 s; narrow it with where or limit, "
            "or raise the limit\n"
        ),
    )


def test_a_query_past_its_memory_is_an_error(run: Run) -> None:
    sql = "select list(hash(i)) from range(300000000) as t (i)"
    done = run("query", sql, "--memory", "300MiB", "--timeout", "50")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: query: needs more than the 300 MiB of memory it may use;")


@pytest.mark.parametrize("size", ["much", "-1GiB", "12"])
def test_a_memory_limit_has_a_unit(run: Run, size: str) -> None:
    done = run("query", "select 1", "--memory", size)
    assert done.returncode == 2
    assert f"error: --memory: found '{size}'" in done.stderr


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon"])
def test_a_time_limit_is_a_positive_number(run: Run, seconds: str) -> None:
    done = run("query", "select 1", f"--timeout={seconds}")
    assert done.returncode == 2
    assert "error: Invalid value for '--timeout': " in done.stderr


def test_ctrl_c_ends_a_query_with_130(
    command: Path, environment: dict[str, str], work: Path
) -> None:
    child = subprocess.Popen(
        [command, "query", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=work,
    )
    wait_for_threads(wait_for_child(child.pid))
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=20)
    assert (child.returncode, stdout, stderr.strip()) == (130, b"", b"error: interrupted")


def test_ctrl_c_while_the_command_still_loads_shows_no_traceback(
    command: Path, environment: dict[str, str], work: Path
) -> None:
    child = subprocess.Popen(
        [command, "query", ENDLESS, "--timeout", "9"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=work,
    )
    wait_for_child(child.pid)  # the engine's process is started first of all
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=20)
    assert (child.returncode, stdout, stderr.strip()) == (130, b"", b"error: interrupted")


def test_a_process_that_cannot_be_started_is_one_error(
    environment: dict[str, str], work: Path
) -> None:
    done = subprocess.run(
        ["bash", "-c", 'ulimit -n 5; exec registry query "select 1"'],
        cwd=work,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        b"",
        b"error: cannot start a process: Too many open files; raise the limit (see ulimit -a)\n",
    )


def test_head_may_hang_up(environment: dict[str, str], work: Path) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            'registry query "from range(10000000)" -f csv | head -2; echo "${PIPESTATUS[0]}"',
        ],
        cwd=work,
        env=environment,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [b"range", b"0", b"0"]
    assert done.stderr == b""


def test_a_version_is_answered_as_of_then(
    run: Run, registry: Path, write: Callable[[str, Any], Path], submission: Callable[..., Any]
) -> None:
    write("a.json", submission())
    run("add", "a.json", "--registry", "mine")
    run("fold", "--registry", "mine")
    count = "select count(*) as n from observations where run_id = 'run-1'"
    asked = {at: run("query", count, "--registry", "mine", "--at", at).stdout for at in "12"}
    assert {at: text.split() for at, text in asked.items()} == {"1": ["n", "0"], "2": ["n", "1"]}
    done = run("query", count, "--registry", "mine", "--at", "9")
    assert (done.returncode, done.stderr) == (
        1,
        "error: mine/tables: version 9 not found; expected one of those at hand: 1 to 2\n",
    )
    assert registry.is_dir()


def test_seeds_give_the_counts_they_promise(run: Run) -> None:
    sql = (
        "select source_id, outcome, count(*) as n from results where source_id in "
        "('qwen-finetune-profile', 'llama2-lora-3090', 'swift-benchmark', 'llm-train-throughput')"
        " group by all order by all"
    )
    rows = json.loads(run("query", sql, "-f", "json").stdout)
    assert {(row["source_id"], row["outcome"]): row["n"] for row in rows} == {
        ("qwen-finetune-profile", "ok"): 81,
        ("qwen-finetune-profile", "not_run"): 3,
        ("qwen-finetune-profile", "oom"): 2,
        ("llama2-lora-3090", "ok"): 31,
        ("llama2-lora-3090", "oom"): 1,
        ("swift-benchmark", "ok"): 48,
        ("swift-benchmark", "oom"): 3,
        ("llm-train-throughput", "ok"): 30,
        ("llm-train-throughput", "oom"): 2,
    }


def test_a_known_row_has_its_figures(run: Run) -> None:
    sql = (
        "select peak_memory_bytes, seconds_per_step from results where model_id = 'qwen-7b' and "
        "method = 'lora' and not trains_embeddings and n_nodes = 1 and quant_bits is null and "
        "seq_len = 8192"
    )
    assert json.loads(run("query", sql, "-f", "json").stdout) == [
        {"peak_memory_bytes": 36_600_000_000, "seconds_per_step": 21.3}
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to 'x'",
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "attach 'x.db'",
        "install httpfs",
        "set memory_limit = '1TB'",
        "create table t as select 1",
        "select 1; select 2",
        "",
        "selct 1",
        "select modl_id from results",
        "from resuls",
    ],
)
def test_a_bad_statement_is_one_error_and_writes_nothing(run: Run, work: Path, sql: str) -> None:
    done = run("query", sql)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: query: ")
    assert list(work.iterdir()) == []


def test_a_mistyped_column_gets_a_hint(run: Run) -> None:
    stderr = run("query", "select modl_id from results").stderr
    assert 'referenced column "modl_id" not found in FROM clause; did you mean "model_id"' in stderr
