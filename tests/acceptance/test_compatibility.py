"""Training scripts under the recorder, and the page that says which were tried."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from benchmarks.compatibility.__main__ import CASES, PAGE, RESULTS, describe_trials
from benchmarks.compatibility.case import Place
from benchmarks.compatibility.judge import compare
from benchmarks.compatibility.page import format_page
from benchmarks.compatibility.trial import run_case

#: A machine that runs tests does much else: two clocks around one step may differ by a time slice.
_TOLERANCE = 0.1

TRIALS = describe_trials(RESULTS)


def test_the_page_is_what_the_results_say() -> None:
    assert PAGE.read_text() == format_page(TRIALS)


def test_at_least_twelve_trainings_of_others_were_recorded() -> None:
    recorded = [trial for trial in TRIALS if trial["outcome"] == "ok"]
    others = [trial for trial in recorded if "`scripts/" not in trial["title"]]
    assert len(others) >= 12


@pytest.mark.parametrize("trial", TRIALS, ids=[trial["name"] for trial in TRIALS])
def test_a_figure_that_differs_has_a_reason(trial: dict[str, object]) -> None:
    if trial["outcome"] == "ok" and any(each.fits is False for each in compare(trial)):
        assert trial["remark"]
    assert trial["not_run"] or trial["outcome"] == "ok"


@pytest.mark.parametrize("name", ["raw-loop", "in-code-report"])
def test_what_is_recorded_agrees_with_others(name: str, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    place = Place(Path(sys.executable), sources=tmp_path, work=tmp_path / name)
    trial = run_case(CASES[name], place)
    assert (trial.not_run, trial.returncode, trial.outcome) == ("", 0, "ok")
    compared = compare(vars(trial), _TOLERANCE)
    assert [each for each in compared if each.fits is not True] == []
    assert trial.contradictions == []
    shutil.rmtree(place.work)
