"""The documented accuracy is what the code gives, of sources that are quick to judge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from registry.api import open_registry
from registry.errors import StoreError
from registry.predict.calibration.fit_rows import MEMORY, memory_rows
from registry.predict.calibration.gaussian_process import fit
from registry.predict.calibration.intervals import hold_out_open
from registry.predict.calibration.mixture import Interval
from registry.predict.calibration.runs import ObservedRun, read_observations
from registry.predict.evaluation.accuracy import format_table
from registry.predict.evaluation.dry_runs import score_dry_runs
from registry.predict.evaluation.evaluate import (
    BANDS,
    NEAR,
    Judged,
    Score,
    evaluate,
    held_against,
    held_back,
    score,
)
from registry.predict.formula.published import ADAPTED, PUBLISHED
from registry.store.folder import curated_dir

PAGE = (Path(__file__).parents[3] / "docs" / "accuracy.md").read_text(encoding="utf-8")
#: Judged by the tests: the others take minutes.
QUICK = ("llama2-lora-3090", "axolotl-examples-vram")


@pytest.fixture(scope="module")
def recorded() -> list[ObservedRun]:
    return read_observations(open_registry(curated_dir()))


@pytest.fixture(scope="module")
def scores(recorded: list[ObservedRun]) -> dict[str, Score]:
    return {one.name: one for one in evaluate(recorded, QUICK).stated}


@pytest.mark.parametrize("name", QUICK)
def test_the_page_has_what_the_code_gives(name: str, scores: dict[str, Score]) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {name} |")][:1]
    shown = [cell.strip() for cell in line.strip("|").split("|")]
    found = scores[name]
    assert shown[1:4] == [
        str(found.n_rows),
        f"{found.median_error:.1%}",
        f"{found.p90_error:.1%}",
    ]


def test_every_source_with_a_peak_that_can_be_asked_is_on_the_page(
    recorded: list[ObservedRun],
) -> None:
    sources = {
        one.source_id for one in recorded if one.purpose == "fine-tuning" and one.measured_memory
    }
    assert len(sources) >= 12
    assert [name for name in sources if f"| {name} |" not in PAGE.replace(" * |", " |")] == []


def test_the_page_has_the_scores_of_dry_runs(recorded: list[ObservedRun]) -> None:
    scores = score_dry_runs(recorded)
    assert "\n".join(format_table(scores)) in PAGE
    assert (scores[-1].coverage or 0) >= 0.86


def test_what_was_kept_back_is_marked() -> None:
    marked = {line.split("|")[1].strip() for line in PAGE.splitlines() if " * |" in line}
    assert {name.removesuffix(" *") for name in marked} <= held_back()
    assert marked


def test_other_formulas_say_what_was_adapted() -> None:
    assert set(ADAPTED) == set(PUBLISHED)
    assert all(f"**{name}**" in PAGE for name in ADAPTED)


def test_a_held_out_source_says_nothing_of_itself(recorded: list[ObservedRun]) -> None:
    given = [one for one in recorded if one.purpose == "fine-tuning"]
    others = ("swift-benchmark", "llm-train-throughput", "torchtune")
    few = [one for one in given if one.source_id in (QUICK[0], *others)]
    told = [
        replace(one, peak_bytes=3 * one.peak_bytes, question=one.question.changed(lora_rank=64))
        if one.source_id == QUICK[0] and one.peak_bytes
        else one
        for one in few
    ]
    before, after = (
        hold_out_open(seen, fit(memory_rows(seen), MEMORY), [QUICK[0]]) for seen in (few, told)
    )
    assert len(before) > 20
    assert [one.plain for one in before] == [one.plain for one in after]


def rows(*figures: tuple[str, float, float, float, float]) -> list[Judged]:
    return [Judged(s, Interval(v, low, high), measured) for s, v, low, high, measured in figures]


def test_one_source_cannot_be_predicted_from_others(recorded: list[ObservedRun]) -> None:
    ours = [one for one in recorded if one.source_id == QUICK[0]]
    with pytest.raises(StoreError, match=r"found 1 sources with a measured peak .* at least two"):
        evaluate(ours)
    with pytest.raises(StoreError, match="found 0 sources"):
        evaluate([])


def test_each_source_has_the_same_weight() -> None:
    many = [("big", 10.0, 9.0, 11.0, 10.0)] * 9
    found = score("x", rows(*many, ("small", 20.0, 19.0, 21.0, 10.0)))
    assert found.coverage == pytest.approx(0.5)
    assert (found.median_error, found.p90_error) == (0.0, 1.0)
    assert found.n_rows == 10


def test_verdicts_are_counted_on_near_cards_only() -> None:
    sure = score("x", rows(("a", 10.0, 9.9999, 10.0001, 10.0)))
    assert (sure.false_fits, sure.false_refusals, sure.undecided) == (0.0, 0.0, 0.0)
    low = score("x", rows(("a", 5.0, 4.9, 5.1, 10.0)))
    assert low.false_fits == pytest.approx(sum(share < 1 for share in NEAR) / len(NEAR))
    high = score("x", rows(("a", 20.0, 19.0, 21.0, 10.0)))
    assert high.false_refusals == pytest.approx(sum(share > 1 for share in NEAR) / len(NEAR))
    wide = score("x", rows(("a", 10.0, 1.0, 100.0, 10.0)))
    assert wide.undecided == 1.0


def test_chances_are_held_against_how_often_it_fits() -> None:
    sure = ("a", 10.0, 9.9999, 10.0001, 10.0)
    too_low = ("b", 5.0, 4.9, 5.1, 10.0)
    found = {(one.low, one.high): one for one in held_against("x", rows(sure, too_low))}
    (never, always) = (found[BANDS[0], BANDS[1]], found[BANDS[-2], BANDS[-1]])
    n_fit = sum(share >= 1 for share in NEAR)
    assert len(found) == 2
    assert (never.fits, never.mean_chance) == pytest.approx((0.0, 0.0))
    assert never.share == pytest.approx((len(NEAR) - n_fit) / len(NEAR) / 2)
    assert always.mean_chance == pytest.approx(1.0)
    assert always.fits == pytest.approx(2 * n_fit / (len(NEAR) + n_fit))


def test_chances_say_how_unsure_an_answer_is() -> None:
    (wide,) = held_against("x", rows(("a", 10.0, 0.1, 1000.0, 10.0)))
    assert (wide.low, wide.high, wide.share) == (0.4, 0.6, 1.0)
    assert wide.fits == pytest.approx(sum(share >= 1 for share in NEAR) / len(NEAR))


def test_the_page_holds_chances_against_what_fits() -> None:
    head = "| all sources | 80% to 95% |"
    (line,) = [line for line in PAGE.splitlines() if line.startswith(head)]
    assert len(line.strip("|").split("|")) == 5


def test_a_predictor_without_intervals_has_no_coverage() -> None:
    found = score("x", rows(("a", 12.0, 12.0, 12.0, 10.0)))
    assert found.coverage is None
    assert format_table([found])[2] == "| x | 1 | 20.0% | 20.0% |  |  |  |  |  |"
