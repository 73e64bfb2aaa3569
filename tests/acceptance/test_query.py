"""`registry query`: statements, parameters, limits."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

ENDLESS = "select count(*) from range(1000000000000) as a (i) where hash(i) = 1"


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


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("cuda_version = $v", "12.1"),
        ("cuda_version > $v", "12"),
        ("cuda_version between $v and $v", "12"),
        ("starts_with(observation_id, $v)", "40014530"),
        ("observation_id like $v", "true"),
    ],
)
def test_a_number_where_text_is_needed_is_refused_with_the_way_out(
    run: Run, condition: str, value: str
) -> None:
    sql = f"select count(*) as n from results where {condition}"  # noqa: S608 - our own
    refused = run("query", sql, "-p", f"v={value}")
    way_out = f"""$v was passed as a number; to compare with text, pass text: -p v='"{value}"'"""
    assert refused.returncode == 1
    assert way_out in refused.stderr
    assert run("query", sql, "-p", f'v="{value}"').returncode == 0


def test_a_number_is_compared_with_numbers(run: Run) -> None:
    sql = "select count(*) > 0 as found from results where seq_len > $v"
    assert run("query", sql, "-p", "v=5").stdout.split() == ["found", "true"]


def test_the_statement_comes_from_a_file(run: Run, write: Callable[[str, Any], Path]) -> None:
    write("q.sql", "-- a comment\nselect 3 as c;\n")
    assert run("query", "--file", "q.sql").stdout.split() == ["c", "3"]


def test_the_statement_comes_from_standard_input(run: Run) -> None:
    assert run("query", "-", stdin="select 4 as d").stdout.split() == ["d", "4"]


@pytest.mark.parametrize("comment", ["-- a comment", "--a comment", "--longest", "--"])
def test_a_statement_may_begin_with_a_comment(run: Run, comment: str) -> None:
    done = run("query", f"{comment}\nselect $a as e", "-p", "a=5", "--format=csv")
    assert (done.stdout.split(), done.stderr) == (["e", "5"], "")


def test_an_unknown_option_is_no_statement(run: Run) -> None:
    done = run("query", "--longest", "select 1")
    assert done.returncode == 2
    assert re.search("No such option.*--longest", done.stderr)


@pytest.mark.parametrize("arguments", [[], ["select 1", "--file", "q.sql"]])
def test_one_statement_is_expected(
    run: Run, write: Callable[[str, Any], Path], arguments: list[str]
) -> None:
    write("q.sql", "select 1")
    done = run("query", *arguments)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "error: expected one statement: as an argument, from standard input, or with --file\n"
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


def test_a_filter_that_is_not_utf_8_is_an_unknown_word(run: Run) -> None:
    done = run("ls", "--model", "\udcff")
    assert (done.returncode, done.stdout) == (2, "")
    assert r"error: model '\udcff' is not known" in done.stderr


def test_the_schema_tells_columns_with_units_and_meanings(run: Run) -> None:
    done = run("query", "--schema", "results", "-f", "json")
    rows = json.loads(done.stdout)
    assert {row["relation"] for row in rows} == {"results"}
    by_name = {row["column"]: row for row in rows}
    assert "n_citations" in by_name
    assert all(row["meaning"] for row in rows)
    assert "oom" in by_name["outcome"]["values"].split(", ")
    assert by_name["n_params"]["values"] is None


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
    stdout, stderr = child.communicate(timeout=300)
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
    stdout, stderr = child.communicate(timeout=300)
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


_WITHOUT_DEVICES = """
import sys
from registry.query import child
from registry_cli.main import main
def start_child():
    open("/nowhere/null")
child.start_child = start_child
sys.argv = ["registry", "query", "select 1"]
main()
"""


def test_a_process_that_lacks_a_file_is_not_told_to_raise_a_limit(work: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DEVICES], cwd=work, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        b"",
        b"error: cannot start a process: /nowhere/null: No such file or directory\n",
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
        timeout=300,
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
        "error: mine/tables: version 9 not found; expected one of 1 to 2\n",
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


def test_text_in_double_quotes_gets_a_hint(run: Run) -> None:
    stderr = run("query", 'select count(*) from results where outcome = "ok"').stderr
    assert stderr.splitlines()[0].endswith("; write text in single quotes: 'ok'")
    assert "single quotes" not in run("query", "select modl_id from results").stderr


def test_a_statement_that_is_nested_too_deeply_is_to_be_simplified(run: Run) -> None:
    assert run("query", f"select {'+'.join('1' * 2000)}").stderr == (
        "error: query: max expression depth limit of 1000 exceeded. Simplify the statement.\n"
    )


def test_a_mistyped_column_gets_a_hint(run: Run) -> None:
    stderr = run("query", "select modl_id from results").stderr
    assert 'referenced column "modl_id" not found in FROM clause; did you mean "model_id"' in stderr


@pytest.mark.parametrize("command", [["query", "select 1"], ["ls"], ["export", "out"]])
def test_a_version_of_the_curated_records_is_refused(run: Run, command: list[str]) -> None:
    records = str(Path(__file__).parents[2] / "records")
    done = run(*command, "--at", "99", "--registry", records)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--at 99: {records} holds curated records, which have no versions" in done.stderr


def test_an_answer_without_rows_says_which_word_no_row_can_hold(run: Run) -> None:
    done = run("query", "select count(*) n from results where method = 'qlora'", "-f", "csv")
    assert (done.returncode, done.stdout) == (0, "n\n0\n")
    assert done.stderr == "method 'qlora': expected method = 'lora' and quant_bits = 4\n"
    listed = "select observation_id from results where gpu_id in ('rtx-3090', 'RTX 4090')"
    assert run("query", listed, "-f", "csv").stderr == ""
