"""The terminal: its width, its pipes, the words before and after a command, completion."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Any

import pytest

from registry.query.cells import text_width

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

RESULTS = "from results limit 3"


def read_terminal(
    arguments: list[str], environment: dict[str, str], cwd: Path, columns: int
) -> str:
    """Return what the command shows on a terminal of so many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        arguments, cwd=cwd, env=environment, stdin=follower, stdout=follower, stderr=follower
    ):
        os.close(follower)
        shown = b""
        while True:
            try:
                chunk = os.read(leader, 65_536)
            except OSError:  # Linux says so when the last writer hung up
                break
            shown += chunk
            if not chunk:
                break
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize(
    "arguments",
    [
        ["query", RESULTS],
        ["query", "--schema", "results"],
        ["ls", "--limit", "20"],
        ["models", "--recorded"],
        ["gpus"],
        ["sources"],
        ["environments"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_table_fits_the_terminal(
    command: Path, environment: dict[str, str], work: Path, arguments: list[str], columns: int
) -> None:
    kept = {name: value for name, value in environment.items() if name != "COLUMNS"}
    shown = read_terminal([str(command), *arguments], kept, work, columns)
    lines = shown.splitlines()
    assert len(lines) > 3
    assert max(map(text_width, lines)) <= columns
    if arguments[0] == "query" and "--schema" not in arguments:
        assert lines[-1].startswith("… ")
        assert lines[-1].endswith(" more columns (-f csv for all)")
        assert {"model_id", "gpu_id", "seq_len"} <= {*lines[0].split()}


def test_columns_says_the_width_where_there_is_no_terminal(
    command: Path, environment: dict[str, str], work: Path
) -> None:
    done = subprocess.run(
        [command, "query", RESULTS, "-f", "table"],
        env={**environment, "COLUMNS": "80"},
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
    )
    assert max(map(text_width, done.stdout.splitlines())) <= 80


def test_a_table_in_a_pipe_has_all_columns(run: Run) -> None:
    head = run("query", RESULTS, "-f", "table").stdout.splitlines()[0].split()
    assert head == next(csv.reader(io.StringIO(run("query", RESULTS).stdout)))


def test_a_schema_has_the_unit_in_a_column_of_its_own(run: Run) -> None:
    rows = json.loads(run("query", "--schema", "-f", "json").stdout)
    assert [*rows[0]] == ["relation", "column", "type", "unit", "meaning", "values"]
    by_place = {(row["relation"], row["column"]): row for row in rows}
    assert by_place["results", "seq_len"]["unit"] == "token"
    assert by_place["results", "seq_len"]["meaning"].startswith("Longest sequence: ")
    assert by_place["max_seq_len", "longest_fitted"]["unit"] == "token"
    assert all(row["meaning"] for row in rows)


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_a_statement_comes_from_a_pipe(
    command: Path, environment: dict[str, str], work: Path, arguments: list[str]
) -> None:
    done = subprocess.run(
        [command, "query", *arguments, "-f", "csv"],
        input="select 1 as a\n",
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n1\n", "")


@pytest.mark.parametrize("stdin", ["empty", "closed"])
def test_no_statement_is_a_wrong_call(
    command: Path, environment: dict[str, str], work: Path, stdin: str
) -> None:
    line = f"{command} query {'<&-' if stdin == 'closed' else '</dev/null'}"
    done = subprocess.run(
        ["bash", "-c", line], env=environment, cwd=work, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: expected one statement: as an argument, from standard input" in done.stderr


def test_options_of_all_commands_stand_before_or_after_the_name(run: Run, registry: Path) -> None:
    count = ["query", "select count(*) as n from results"]
    assert registry.is_dir()
    before = run("--registry", "mine", "--no-curated", *count)
    after = run(*count, "--registry", "mine", "--no-curated")
    both = run("--no-curated", *count, "--registry", "mine")
    assert (before.returncode, before.stderr) == (0, "")
    assert before.stdout == after.stdout == both.stdout
    assert run(*count, "--registry", "mine").stdout != before.stdout


def test_a_registry_before_a_command_that_reads_none_is_a_wrong_call(run: Run, work: Path) -> None:
    done = run("--registry", "mine", "init", "other")
    assert done.returncode == 2
    assert "`registry init` does not read a registry; leave out --registry" in done.stderr
    assert list(work.iterdir()) == []


def test_the_version_and_help_have_short_forms(run: Run) -> None:
    assert run("-V").stdout == run("--version").stdout
    assert run("help", "fit").stdout == run("fit", "--help").stdout
    assert run("help", "source", "check").stdout == run("source", "check", "--help").stdout
    assert run("help").stdout == run("--help").stdout
    done = run("help", "sorce")
    assert done.returncode == 2
    assert "registry has no command 'sorce'; did you mean 'source'?" in done.stderr


def test_python_runs_the_package_as_the_command(
    environment: dict[str, str], work: Path, run: Run
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "registry", "--version"],
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == run("--version").stdout


def complete(command: Path, environment: dict[str, str], cwd: Path, line: str) -> list[str]:
    """Return what bash is offered at the end of a line."""
    words = line.split(" ")
    asked = {"_REGISTRY_COMPLETE": "bash_complete", "COMP_WORDS": line}
    done = subprocess.run(
        [command],
        env={**environment, **asked, "COMP_CWORD": str(len(words) - 1)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [offered.partition(",")[2] for offered in done.stdout.splitlines() if offered]


def test_a_shell_completes_commands_options_and_names(
    command: Path, environment: dict[str, str], work: Path, run: Run
) -> None:
    def offered(line: str) -> list[str]:
        return complete(command, environment, work, line)

    assert offered("registry mod") == ["models"]
    assert "--source" in offered("registry ls --")
    assert "qwen-7b" in offered("registry ls --model qwen-")
    assert "rtx-3090" in offered("registry ls --gpu rtx-30")
    assert "qwen-7b" in offered("registry fit --model qwen-")
    assert "rtx-3090" in offered("registry estimate --gpu rtx-30")
    assert offered("registry gpus --source swift-b") == ["swift-benchmark"]
    assert offered("registry ls --outcome oo") == ["oom"]
    (row,) = json.loads(run("ls", "--limit", "1", "-f", "json").stdout)
    assert row["id"] in offered(f"registry show {row['id'][:8]}")
    assert offered("registry ls --registry nowhere --source s") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_is_printed(run: Run, shell: str) -> None:
    done = run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_REGISTRY_COMPLETE" in done.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


FORMULAS = (
    "select '=1+1' as a, '+1' as b, '-1' as c, '@x' as d, ' =1' as e, chr(9) || '=1' as f, "
    "-1.5 as g, 'lora' as h"
)


def test_formulas_are_written_as_they_are_unless_they_are_to_be_guarded(run: Run) -> None:
    (row,) = csv.reader(io.StringIO(run("query", FORMULAS).stdout.partition("\n")[2]))
    assert row == ["=1+1", "+1", "-1", "@x", " =1", "\t=1", "-1.5", "lora"]


def test_formulas_are_guarded_for_a_spreadsheet(run: Run, work: Path) -> None:
    done = run("query", FORMULAS, "--guard-formulas", "-o", "x.csv")
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.reader(io.StringIO((work / "x.csv").read_text())))
    assert rows[1] == ["'=1+1", "'+1", "'-1", "'@x", "' =1", "'\t=1", "-1.5", "lora"]
    done = run("query", "select 1 as a", "--guard-formulas", "-f", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--guard-formulas: found the format json; expected csv or tsv" in done.stderr


#: What a terminal would act on, or hide: it turns text around, takes no room, ends a line.
HOSTILE = "a\u202eb\u200bc\u2028d"
HOSTILE_DOCUMENT = (
    "| max length | no\x1b[31mte \x9b\u202e |\n|---|---|\n| 512 | \x1b]0;x\x07\u202e |\n"
)


@pytest.fixture
def hostile(
    run: Run, registry: Path, work: Path, submission: Callable[..., dict[str, Any]]
) -> Path:
    """Return a registry and a document that hold such characters wherever a text may stand."""
    document = submission()
    document["source"] |= {"title": HOSTILE, "publisher": HOSTILE}
    observation = document["observations"][0]
    observation |= {"run_id": HOSTILE, "model_reported": HOSTILE}
    observation["provenance"] = {"label": HOSTILE}
    observation["environment"] = {"torch_version": "2.7.1", "os": HOSTILE}
    (work / "a.json").write_text(json.dumps(document), encoding="utf-8")
    done = run("add", "a.json", "--registry", "mine")
    assert done.returncode == 0, done.stderr
    (work / "e\x1b[31m.md").write_text(HOSTILE_DOCUMENT, encoding="utf-8")
    return registry


@pytest.mark.parametrize(
    "line",
    [
        "ls --source my-runs",
        "sources",
        "environments --source my-runs",
        "models --source my-runs",
        "query 'from observations where source_id = $s' -p s=my-runs",
        "query 'from sources where source_id = $s' -p s=my-runs -f json",
        "query 'from sources where source_id = $s' -p s=my-runs -f csv",
        "query 'from sources where source_id = $s' -p s=my-runs -f markdown",
        "show $(registry ls --source my-runs -f csv | tail -1 | cut -d, -f1)",
        "show $(registry ls --source my-runs -f csv | tail -1 | cut -d, -f1) -f json",
        "import $'e\\e[31m.md'",
        "import $'e\\e[31m.md' --draft",
        "import $'e\\e[31m.md' --json",
        "add $'e\\e[31m.md'",
        "ls --model $'\\e[31m'",
        "fit --model $'\\e[31m' --gpu $'\\u202e'",
        "query $'select \"\\e[31m\"'",
        "help $'\\e[31m'",
        "doctor --registry $'\\e[31m'",
    ],
)
def test_nothing_raw_reaches_a_terminal(
    hostile: Path, environment: dict[str, str], line: str
) -> None:
    own = {**environment, "NO_COLOR": "1", "REGISTRY_PATH": str(hostile)}
    shown = read_terminal(["bash", "-c", f"registry {line}"], own, hostile.parent, 200)
    assert shown
    assert "Traceback" not in shown
    assert "unexpected" not in shown
    assert shown.replace("\n", "").replace("\t", "").isprintable()


def test_an_empty_result_is_told_on_a_terminal_alone(
    environment: dict[str, str], work: Path, run: Run
) -> None:
    statement = ["query", "select model_id from results where false"]
    assert read_terminal(["registry", *statement], environment, work, 80).endswith("0 rows\n")
    full = read_terminal(["registry", "query", "select 1 as n"], environment, work, 80)
    assert "0 rows" not in full
    assert run(*statement).stderr == ""
