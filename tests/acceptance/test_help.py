"""Help: every command has it, every example in it runs, and mistyped words get a hint."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from registry_cli.group import COMMANDS, cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Run = Callable[..., subprocess.CompletedProcess[str]]

CHECKOUT = Path(__file__).parents[2]

#: What follows the examples in a command's help.
_AFTER = re.compile(r"\n(?=\S)")


def load(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name) if name else cli
    assert found is not None
    return found


def collect_examples() -> Iterator[tuple[str, str]]:
    """Yield every example as a shell command, with the command that shows it."""
    for name in ("", *COMMANDS):
        text = (load(name).help or "").replace("\b", "")
        _, _, examples = text.partition("Example")
        lines = _AFTER.split(examples.partition(":\n")[2])[0]
        for example in re.split(r"\n(?=  registry )", "\n" + lines):
            if example.strip():
                yield name, example.strip()


EXAMPLES = list(collect_examples())


#: Commands that go through all records, which takes long: theirs are few.
THOROUGH = ("build", "calibrate", "check", "evaluate", "site")


@pytest.fixture
def checkout(work: Path, name: str, few_records: Path) -> Path:
    """Return a copy of what a command's examples name, as it lies in a checkout."""
    shutil.copytree(few_records if name in THOROUGH else CHECKOUT / "records", work / "records")
    shutil.copytree(CHECKOUT / "examples", work / "examples")
    shutil.copytree(CHECKOUT / "tests" / "examples", work / "tests" / "examples")
    run = CHECKOUT / "tests" / "fixtures" / "importers" / "hf_trainer"
    shutil.copytree(run, work / "output" / "checkpoint-500")
    return work


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_command_has_help_with_an_example(run: Run, name: str) -> None:
    for option in ("--help", "-h"):
        done = run(*filter(None, [name]), option)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"Usage: registry {name}".rstrip() in done.stdout
        assert f"registry {name}".strip() in done.stdout.partition("Example")[2]


def test_every_example_is_found() -> None:
    assert {name for name, _ in EXAMPLES} == {"", *COMMANDS}
    assert len(EXAMPLES) > len(COMMANDS)


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_every_example_runs(
    checkout: Path, environment: dict[str, str], name: str, example: str
) -> None:
    if name == "plot" and importlib.util.find_spec("altair") is None:
        pytest.skip("needs the extra [plot]")
    if "python examples/" in example and importlib.util.find_spec("transformers") is None:
        pytest.skip("needs the extra [train]")
    assert f"registry {name}".strip() in example
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", example],
        cwd=checkout,
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "error: " not in done.stderr


def test_without_arguments_the_help_is_shown_as_a_wrong_call(run: Run) -> None:
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == run("--help").stdout
    assert "error" not in done.stderr


def test_the_version_is_told(run: Run) -> None:
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"registry, version \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["qury"], "no command 'qury'; did you mean 'query'?; expected one of fit, estimate, "),
        (["exprt", "x"], "no command 'exprt'; did you mean 'export'?"),
        (["query", "--fromat", "csv"], "No such option '--fromat'."),
        (["query", "-f", "jsn", "x"], "found 'jsn'; did you mean 'json'?; expected table, csv, "),
        (["show", "abcd", "-f", "jso"], "found 'jso'; did you mean 'json'?; expected text, json"),
        (["check", "-f", "txt"], "found 'txt'; did you mean 'text'?"),
        (["export", "x", "-f", "parket"], "found 'parket'; did you mean 'parquet'?"),
        (["ls", "--outcome", "okk"], "found 'okk'; did you mean 'ok'?"),
        (["query", "x", "--at", "0"], "Invalid value for '--at': 0 is not in the range x>=1."),
        (["ls", "--limit", "x"], "Invalid value for '--limit': 'x' is not a valid integer range."),
        (["prune", "--keep", "0"], "Invalid value for '--keep': 0 is not in the range x>=1."),
        (["fold", "--wait", "nan"], "'nan' is not a finite number of seconds."),
        (["run", "x", "--timeout", "nan"], "'nan' is not a finite number of seconds."),
        (["fit", "--epochs", "inf"], "'inf' is not a finite number."),
        (["estimate", "--mean-tokens", "nan"], "found 'nan'; expected a number above 0 such as "),
        (["utilization", "--reference", "nan"], "'nan' is not a finite number."),
        (["utilization", "--tokens-per-second", "inf"], "'inf' is not a finite number."),
        (["query", "1", "2"], "Got unexpected extra argument (2)"),
        (["add"], "Missing argument 'FILE…|-'."),
        (["show"], "Missing argument 'ID'."),
        (["import", ".", "--dry-run"], "--dry-run needs --mapping; draft one with: "),
    ],
)
def test_a_wrong_call_is_exit_2_with_usage_and_a_hint(
    run: Run, work: Path, arguments: list[str], hint: str
) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    usage, _, message = done.stderr.partition("\nerror: ")
    assert usage.startswith("Usage: registry ")
    assert hint in message
    assert list(work.iterdir()) == []


def test_an_option_that_is_mistyped_names_the_near_one(run: Run) -> None:
    assert "--format" in run("query", "--fromat", "csv").stderr.partition("Did you mean")[2]


def test_help_add_and_compare_load_no_heavy_package(
    environment: dict[str, str], work: Path
) -> None:
    example = CHECKOUT / "tests" / "examples" / "valid" / "minimal.json"
    program = (
        "import sys\n"
        "from registry_cli.dispatch import dispatch\n"
        "status = dispatch(sys.argv[1:])\n"
        "heavy = {'duckdb', 'pandas', 'pandera', 'pyarrow', 'numpy', 'torch'} & set(sys.modules)\n"
        "print(status, sorted(heavy - set(sys.argv[1:])), file=sys.stderr)\n"
    )
    sides = ("peft-method-comparison-2025-06", "peft-method-comparison")
    for arguments in (
        *(["--help"], ["add", "--help"], ["add", str(example)], ["doctor", "--help"]),
        ["compare", *sides],
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr.splitlines()[-1] == "0 []", arguments
