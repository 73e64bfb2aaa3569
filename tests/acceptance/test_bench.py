"""`registry bench` as a user calls it: with interpreters that stand in, and with real jobs."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry import __version__
from registry.measure.running.interpreter import read_recorder_mark

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Write = Callable[[str, Any], Path]

ROOT = Path(__file__).parents[2]

#: An interpreter that says what it has, and whose jobs take as long as it is told, times the
#: machine's load: each round takes twice as long as the one before.
STAND_IN = """#!{python}
import json, os, pathlib, sys, time
if sys.argv[3] == "registry.measure.running.interpreter":
    told = {{"registry": {registry!r}, "recorder": {recorder!r}, "missing": []}}
    print(json.dumps(told | {{"environment": {{"peft_version": {version!r}}}}}))
    sys.exit()
spec_path, result_path = sys.argv[-2:]
spec = json.load(open(spec_path))
turns = pathlib.Path({turns!r})
turns.write_text(turns.read_text() + {version!r} + " ")
if {fault!r} == "hang":
    pathlib.Path({running!r}).touch()
    time.sleep(600)
if {fault!r} == "dies":
    sys.exit("no module named peft")
sys.path.insert(0, {root!r})
from registry.measure.failure import Failure
from registry.measure.running.unfinished import describe_unfinished
environment = {{"peft_version": {version!r}}}
document = describe_unfinished(spec, Failure({fault!r} or "ok", "as asked"), environment)
observation = document["observations"][0]
if {fault!r}:
    observation["failed_step"] = 1
else:
    load = 2.0 ** ((len(turns.read_text().split()) - 1) // 2)
    observation["measurements"] = [{{"metric": "step_time", "value": load * {seconds}}}]
    del observation["outcome_detail"]
pathlib.Path(result_path).write_text(json.dumps(document))
"""

PLAN = """
model = "tiny"
device = "cpu"
steps = 4
[models.tiny]
model_type = "llama"
vocab_size = 512
hidden_size = 64
intermediate_size = 128
num_hidden_layers = 2
num_attention_heads = 4
"""


@pytest.fixture
def stand_in(work: Path, write: Write) -> Callable[..., str]:
    """Return a function that makes an interpreter; the file ``turns`` tells which ran."""
    write("turns", "")
    write("plan.toml", PLAN)

    def make(version: str, *, seconds: float = 1.0, fault: str = "") -> str:
        text = STAND_IN.format(
            python=sys.executable,
            registry=__version__,
            recorder=read_recorder_mark(),
            version=version,
            turns=str(work / "turns"),
            running=str(work / "running"),
            root=str(ROOT),
            seconds=seconds,
            fault=fault,
        )
        path = write(f"python-{version}", text)
        path.chmod(0o755)
        return f"./{path.name}"

    return make


@pytest.fixture
def bench(run: Run, registry: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that benches the plan with two interpreters."""

    def call(a: str, b: str, *options: str) -> subprocess.CompletedProcess[str]:
        sides = ("--python", a, "--python", b)
        return run("bench", "plan.toml", *sides, *options, "--registry", registry.name)

    return call


def test_a_slower_release_is_found_in_turns_whatever_the_load(
    run: Run, bench: Any, stand_in: Any, work: Path
) -> None:
    done = bench(stand_in("90.1"), stand_in("91.0", seconds=1.2), "--rounds", "4", "--fail")
    assert done.returncode == 1
    assert (work / "turns").read_text().split() == ["90.1", "91.0", "91.0", "90.1"] * 2
    assert done.stderr.splitlines()[:2] == [
        f"A (peft 90.1): {work}/python-90.1",
        f"B (peft 91.0): {work}/python-91.0",
    ]
    assert done.stdout.splitlines()[-1] == "1 of 1 is worse by more than a factor of 1.05"
    options = ("label=peft 90.1", "peft=91.0", "-f", "json", "--registry", "mine")
    (compared,) = json.loads(run("compare", *options).stdout)["configurations"]
    assert (len(compared["a"]), len(compared["b"]), compared["worse"]) == (4, 4, True)
    assert compared["time"]["note"] == "4 alternating rounds"
    assert compared["time"]["low"] > 1.05
    assert run("bench", "plan.toml", "--python", "x").returncode == 2


def test_an_equal_release_passes_under_its_labels(bench: Any, stand_in: Any, run: Run) -> None:
    labels = ("--label", "main", "--label", "my branch")
    done = bench(stand_in("90.1"), stand_in("90.1"), "--rounds", "2", "--fail", *labels)
    assert done.returncode == 0, done.stderr
    assert "(my branch) tiny lora 512: ok in " in done.stderr
    assert "alternate" not in done.stderr
    listed = run("environments", "--registry", "mine", "--no-curated", "-f", "json")
    rows = {row["label"]: (row["peft"], row["n"]) for row in json.loads(listed.stdout)}
    assert (rows["main"], rows["my branch"]) == (("90.1", 2), ("90.1", 2))


def test_a_release_that_fails_is_the_first_line(bench: Any, stand_in: Any) -> None:
    done = bench(stand_in("90.1"), stand_in("91.0", fault="oom"), "--rounds", "2", "--fail")
    assert done.returncode == 1
    assert done.stdout.startswith("WAS OK, IS OOM IN 2 OF 2 RUNS: model=")


def test_a_job_that_leaves_nothing_is_recorded_with_its_own_environment(
    run: Run, bench: Any, stand_in: Any
) -> None:
    done = bench(stand_in("90.1"), stand_in("91.0", fault="dies"), "--rounds", "1")
    assert done.returncode == 0
    assert done.stdout.startswith("WAS OK, IS ERROR: model=")
    sql = "select peft_version from observations join environments using (environment_id) "
    found = run("query", f"{sql} where outcome = 'error'", "--registry", "mine", "--no-curated")
    assert found.stdout.split() == ["peft_version", "91.0"]


def test_an_interrupted_bench_keeps_what_was_run(
    command: Path, environment: dict[str, str], registry: Path, stand_in: Any, work: Path
) -> None:
    sides = ("--python", stand_in("90.1"), "--python", stand_in("91.0", fault="hang"))
    with subprocess.Popen(
        [command, "bench", "plan.toml", *sides, "--registry", registry.name],
        stderr=subprocess.PIPE,
        env=environment,
        cwd=work,
    ) as process:
        while not (work / "running").exists():
            assert process.poll() is None
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    assert process.returncode == 130
    last = stderr.decode().splitlines()[-1]
    assert last == "error: interrupted after 1 of 10 runs, which are recorded"


def test_wrong_calls_start_nothing(bench: Any, run: Run, stand_in: Any, work: Path) -> None:
    python = stand_in("90.1")
    for a, b, options, message in (
        (python, "no-python", (), "no-python: no such program; expected a Python interpreter"),
        (python, "/bin/true", (), "/bin/true: does not respond as Python does (it said noth"),
        (python, python, ("--python", python), "found 3; expected two: that of A, then that of B"),
        (python, python, ("--label", "x"), "found 1; expected two: that of A, then that of B"),
        (python, python, ("--label", "x", "--label", "x"), "found 'x' twice; expected two labels"),
        (python, python, ("--rounds", "0"), "0 is not in the range"),
    ):
        done = bench(a, b, *options)
        assert done.returncode == 2, message
        assert message in done.stderr
    (work / "invalid.toml").write_text("stpes = 3", encoding="utf-8")
    for plan in ("no-plan.toml", "invalid.toml"):
        done = run("bench", plan, "--python", python, "--python", python, "--registry", "mine")
        assert done.returncode == 2, plan
        assert f"error: {plan}: " in done.stderr
    assert (work / "turns").read_text() == ""


def test_a_dry_run_shows_the_order(bench: Any, stand_in: Any, work: Path) -> None:
    done = bench(stand_in("90.1"), stand_in("91.0"), "--rounds", "2", "--dry-run")
    lines = [line.split() for line in done.stdout.splitlines() if "round" in line]
    assert [line[1:4] for line in lines] == [
        ["round", "1", "A"],
        ["round", "1", "B"],
        ["round", "2", "B"],
        ["round", "2", "A"],
    ]
    assert (work / "turns").read_text() == ""


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "peft")),
    reason="torch, transformers and peft are not installed",
)
def test_real_jobs_take_turns(run: Run, work: Path, write: Write, registry: Path) -> None:
    write("plan.toml", PLAN.replace("steps = 4", 'steps = 4\nseq_len = 16\ndtype = "fp32"'))
    sides = ("--python", sys.executable, "--python", sys.executable)
    options = ("--rounds", "1", "--factor", "50", "--fail", "--registry", registry.name)
    done = run("bench", "plan.toml", *sides, *options, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert "A (A): " in done.stderr
    assert "alternate" not in done.stderr
    assert "time    b / a = " in done.stdout
    assert "[step_time, one round: no interval; run more rounds to get one]" in done.stdout
    folders = sorted(path.name[:4] for path in (work / "mine" / "runs").glob("bench-*/*"))
    assert folders == ["1-A-", "1-B-"]
