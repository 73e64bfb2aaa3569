"""`registry compare` as a user calls it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Write = Callable[[str, Any], Path]


@pytest.fixture
def hand_in(
    run: Run, write: Write, submission: Callable[..., dict[str, Any]]
) -> Callable[..., None]:
    """Return a function that records runs: (length, outcome, seconds) of one source and version."""

    def add(source: str, version: str, *runs: tuple[int, str, float]) -> None:
        for number, (length, outcome, seconds) in enumerate(runs):
            document = submission()
            document["source"]["source_id"] = source
            observation = document["observations"][0]
            observation["run_id"] = f"{source}-{number}"
            observation["outcome"] = outcome
            observation["configuration"]["seq_len"] = length
            observation["environment"] = {"peft_version": version}
            observation["measurements"] = [{"metric": "step_time", "value": seconds}]
            if outcome != "ok":
                observation["outcome_detail"] = "it failed"
                del observation["measurements"]
            write("run.json", document)
            assert run("add", "run.json").returncode == 0

    return add


WELL = [(64, "ok", 1.0), (64, "ok", 1.01), (128, "ok", 2.0), (128, "ok", 2.02)]


@pytest.mark.parametrize("outcome", ["oom", "error"])
def test_what_was_ok_and_fails_is_the_first_line(
    run: Run, hand_in: Callable[..., None], outcome: str
) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *WELL[:2], (128, outcome, 0.0), (128, outcome, 0.0))
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith(
        f"WAS OK, IS {outcome.upper()} IN 2 OF 2 RUNS: model="
    )
    assert done.stdout.splitlines()[0].endswith("seq_len=128")
    assert run("compare", "old-release", "new-release").returncode == 0


def test_what_is_missing_fails(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *WELL[:2])
    done = run("compare", "old-release", "new-release", "--fail")
    assert (done.returncode, done.stdout[:20]) == (1, "WAS OK, IS MISSING: ")


def test_single_runs_are_told_apart_by_their_outcome(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", WELL[0])
    hand_in("new-release", "91.0", (64, "oom", 0.0))
    done = run("compare", "old-release", "new-release", "--fail")
    assert (done.returncode, done.stdout[:16]) == (1, "WAS OK, IS OOM: ")


def test_versions_of_a_package_are_compared_and_repeats_give_the_noise(
    run: Run, hand_in: Callable[..., None]
) -> None:
    hand_in("old-release", "90.1", *WELL)
    hand_in("new-release", "91.0", *((length, "ok", 1.3 * seconds) for length, _, seconds in WELL))
    done = run("compare", "peft=90", "peft=91.0", "--fail", "-f", "json")
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert [(len(one["a"]), len(one["b"]), one["worse"]) for one in found] == [(2, 2, True)] * 2
    assert all(1.2 < one["time"]["low"] < 1.3 < one["time"]["high"] < 1.4 for one in found)
    assert run("compare", "peft=90", "peft=90", "--fail").returncode == 0
    assert "selects no observation" in run("compare", "peft=0.2", "peft=9").stderr


def test_noise_is_not_worse(run: Run, hand_in: Callable[..., None]) -> None:
    hand_in("old-release", "90.1", (64, "ok", 1.0), (64, "ok", 1.3))
    hand_in("new-release", "91.0", (64, "ok", 1.1), (64, "ok", 1.35))
    done = run("compare", "old-release", "new-release", "--fail")
    assert done.returncode == 0
    assert "2 and 2 runs" in done.stdout
