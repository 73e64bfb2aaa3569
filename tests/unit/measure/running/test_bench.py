"""Two environments in turns: the order, the labels, and what comes of failures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import SubmissionError
from registry.measure.running import bench as benching
from registry.measure.running.bench import Side, Turn, name_sides, order_turns, run_bench
from registry.measure.running.interpreter import Interpreter
from registry.measure.running.trial_run import TrialResult
from registry.measure.running.trials import Trial, trial_of
from registry.measure.trial_settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

TRIALS = [
    trial_of(Settings(model="tiny", seq_len=length), {"kind": "config", "config": {}})
    for length in (32, 64)
]
SIDES = (
    Side("old", Interpreter("/old/python", {"peft_version": "1"})),
    Side("new", Interpreter("/new/python", {"peft_version": "2"})),
)


def test_sides_swap_places_from_round_to_round() -> None:
    turns = order_turns(TRIALS, 3)
    assert [turn.side for turn in turns] == [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1]
    assert [turn.round for turn in turns] == [1] * 4 + [2] * 4 + [3] * 4
    assert [turn.trial for turn in turns[:4]] == [TRIALS[0]] * 2 + [TRIALS[1]] * 2
    assert len({turn.folder for turn in turns}) == 12


def test_each_side_is_first_equally_often() -> None:
    turns = order_turns(TRIALS, 8)
    assert Counter(turn.side for turn in turns[::2]) == {0: 8, 1: 8}


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ({"peft_version": "1"}, {"peft_version": "1"}, ("A", "B")),
        ({"peft_version": "1", "trl_version": "3"}, {"peft_version": "2"}, ("peft 1", "peft 2")),
        (
            {"packages": {"numpy": "1", "tokenizers": "2"}},
            {"packages": {"numpy": "2", "tokenizers": "2"}},
            ("numpy 1", "numpy 2"),
        ),
        (
            {"torch_version": "2.7", "python_version": "3.11", "packages": {"numpy": "1"}},
            {"torch_version": "2.8", "python_version": "3.12", "packages": {"numpy": "2"}},
            ("torch 2.7", "torch 2.8"),
        ),
    ],
)
def test_sides_are_named_by_the_versions_that_differ(
    a: dict[str, Any], b: dict[str, Any], names: tuple[str, str]
) -> None:
    assert name_sides(a, b) == names


class Jobs:
    """Stands for the trials' processes, which need PyTorch."""

    def __init__(self, *, last: int | None = None) -> None:
        self.called: list[tuple[str, str, Any]] = []
        self._last = last

    def __call__(self, trial: Trial, folder: Path, **options: Any) -> TrialResult:
        if len(self.called) == self._last:
            raise KeyboardInterrupt
        self.called.append((options["python"], folder.name, options["environment"]))
        document = {"source": {}, "observations": [{"outcome": "ok", "provenance": {"exit": "0"}}]}
        return TrialResult(trial, "ok", None, 1.0, document)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    found = Jobs()
    monkeypatch.setattr(benching, "run_trial", found)
    return found


def test_each_run_is_recorded_with_its_label_and_round(jobs: Jobs, tmp_path: Path) -> None:
    added: list[dict[str, Any]] = []

    def add(document: dict[str, Any]) -> list[str]:
        added.append(document["observations"][0]["provenance"])
        return [f"id-{len(added)}"]

    bench = run_bench(order_turns(TRIALS[:1], 2), SIDES, tmp_path, add=add)
    assert bench.recorded == (["id-1", "id-4"], ["id-2", "id-3"])
    assert [(row["label"], row["round"]) for row in added] == [
        ("old", 1),
        ("new", 1),
        ("new", 2),
        ("old", 2),
    ]
    assert {(row["bench"], row["exit"]) for row in added} == {(bench.identity, "0")}
    assert [python for python, _, _ in jobs.called] == [
        "/old/python",
        "/new/python",
        "/new/python",
        "/old/python",
    ]
    assert jobs.called[0][2] == {"peft_version": "1"}


def test_a_record_that_is_refused_stops_no_other(jobs: Jobs, tmp_path: Path) -> None:
    def add(document: dict[str, Any]) -> list[str]:
        if len(jobs.called) == 1:
            raise SubmissionError("no", origin="here")
        return [document["observations"][0]["provenance"]["label"]]

    bench = run_bench(order_turns(TRIALS[:1], 1), SIDES, tmp_path, add=add)
    assert bench.recorded == ([], ["new"])
    assert bench.refused == [f"1-A-{TRIALS[0].trial_id}: here: no"]


def test_what_was_run_before_an_interrupt_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(benching, "run_trial", Jobs(last=3))
    shown: list[tuple[Turn, bool]] = []
    bench = run_bench(
        order_turns(TRIALS, 2),
        SIDES,
        tmp_path,
        add=lambda _: ["id"],
        progress=lambda turn, result: shown.append((turn, result is not None)),
    )
    assert bench.interrupted
    assert bench.recorded == (["id", "id"], ["id"])
    assert [ended for _, ended in shown] == [False, True] * 3 + [False]
