"""How far intervals reach of questions that name their software and leave settings open."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from registry.predict.answer.prediction import predict_unbounded
from registry.predict.calibration.fit_rows import MEMORY, memory_rows
from registry.predict.calibration.gaussian_process import fit
from registry.predict.calibration.mixture import COVERAGE
from registry.predict.calibration.named import (
    HeldNamed,
    hold_out_named,
    named_quantile,
    named_reaches,
)
from registry.predict.calibration.unstated import count_usual, open_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.runs import ObservedRun
    from tests.unit.predict.conftest import Ask

SOURCES = ("swift-benchmark", "vertex-openllama-7b", "llm-train-throughput")


@dataclass
class Held:
    """A score, and what it is of."""

    score: float
    stack: str
    fold: Any = "all"
    nearness: str = "model"


def held(scores: Sequence[float], stack: str, fold: Any = "all") -> list[HeldNamed]:
    return [cast("HeldNamed", Held(score, stack, fold)) for score in scores]


def test_software_with_enough_runs_is_judged_by_its_own() -> None:
    many, few = held([n / 100 for n in range(30)], "a"), held([5.0] * 6, "b")
    assert named_quantile([*many, *few], "model", "a") == pytest.approx(0.27)  # 28 of 31 are 90 %
    assert named_quantile([*many, *few], "model", "b") == pytest.approx(0.29)  # those of a
    assert named_quantile([*many, *few], "row", "a") == 0
    assert set(named_reaches([*many, *few], "model")) == {"", "a"}


def test_what_is_judged_does_not_say_how_far_it_reaches() -> None:
    near, far = held([0.0] * 25, "a", "one"), held([9.0] * 25, "a", "other")
    assert named_quantile([*near, *far], "model", "a", "other") == 0
    assert named_quantile([*near, *far], "model", "a", "one") == 9


def test_runs_are_answered_without_their_like_and_as_their_sources_state_them(
    calibration: Calibration,
) -> None:
    seen = [one for one in calibration.observations if one.source_id in SOURCES]
    told = [one for one in (_with_question(run) for run in seen) if one.measured_memory]
    found = hold_out_named(told, fit(memory_rows(told), MEMORY), count_usual(told))
    assert {one.nearness for one in found} == {"row", "model"}
    for one in found:
        asked = one.seen.asked
        assert asked is not None
        assert open_settings(asked.changed(stack=one.stack))
        assert (one.fold == one.seen.question.model.shape) == (one.nearness == "model")
    # of one model there is nothing else that it could be held out from
    assert "vertex-openllama-7b" not in {one.stack for one in found if one.nearness == "model"}


def test_the_interval_is_the_middle_of_the_mixture_moved_apart(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("yi-6b-chat", stack="swift-benchmark")
    found = predict_unbounded(question, calibration)
    assert found.meanings is not None
    reach = calibration.memory.reach[f"named {found.nearness}"]
    plain = found.meanings.around(COVERAGE)
    by = reach.get("swift-benchmark", reach[""])
    assert found.figure.high == pytest.approx(max(plain.high * math.exp(by), plain.value))


def test_software_of_which_no_run_is_learned_reaches_as_far_as_none(
    ask: Ask, calibration: Calibration
) -> None:
    unknown = predict_unbounded(ask("yi-6b-chat", stack="nobody's"), calibration)
    assert unknown.nearness == "source"
    assert unknown.meanings is not None
    middle = unknown.meanings.plain
    by = calibration.memory.reach["open"]["whole on each device"]
    assert unknown.figure.high == pytest.approx(middle.high * math.exp(by))


def _with_question(run: ObservedRun) -> ObservedRun:
    """Return a run with a question: stored ones have none, as only judging needs it."""
    return replace(run, asked=run.question.changed(stack=None))
