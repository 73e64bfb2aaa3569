"""What a question of time means that names no stack: the user's own runs, and nobody else's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from registry.predict.answer.prediction import predict_samples, predict_time
from registry.predict.answer.switches import explain
from registry.predict.answer.time_assumes import list_time_assumes
from registry.predict.calibration.fit_rows import TIME, time_row, time_rows
from registry.predict.calibration.gaussian_process import fit
from registry.predict.calibration.runs import ObservedRun

if TYPE_CHECKING:
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question
    from tests.unit.predict.conftest import Ask

#: By how much the user's machine is slower than the formula says.
SLOWER = 2.0


def having_timed(calibration: Calibration, question: Question, **settings: Any) -> Calibration:
    """Return the calibration with a run of the user's own, twice as slow as the formula."""
    own = question.changed(**{"stack": "mine", "length_distribution": "full", **settings})
    seconds = SLOWER * time_row(own).formula
    seen = ObservedRun("a", "mine", "ok", "measured", own, seconds=seconds)
    time = calibration.time
    fitted = fit([*time.fit.rows, *time_rows([seen])], TIME)
    return replace(
        calibration,
        observations=(*calibration.observations, seen),
        own_ids=frozenset({"a"}),
        time=replace(time, make=lambda: fitted),
    )


def slower(question: Question, calibration: Calibration) -> float:
    """Return how many times the formula's seconds are answered."""
    return predict_time(question, calibration).figure.value / time_row(question).formula


def test_what_others_timed_moves_no_answer_that_names_no_stack(calibration: Calibration) -> None:
    timed = [one for one in calibration.observations if one.measured_time]
    assert len(timed) > 1000
    for seen in timed[::100]:
        assert slower(seen.question.changed(stack=None), calibration) == pytest.approx(1)


def test_a_time_is_less_certain_where_nothing_says_how_long_samples_are(
    ask: Ask, calibration: Calibration
) -> None:
    asked = ask("mistral-7b-v0.3", "rtx-4090", seq_len=1024)
    untold = predict_time(asked, calibration).figure
    for told in ({"packing": True}, {"length_distribution": "full"}, {"mean_tokens": 1024.0}):
        figure = predict_time(asked.changed(**told), calibration).figure
        assert figure.value == pytest.approx(untold.value)
        assert figure.high < 0.9 * untold.high


@pytest.mark.parametrize(
    ("changed", "card", "by"),
    [
        ({}, "rtx-4090", 1.4),
        ({"seq_len": 2048}, "rtx-4090", 1.4),
        ({}, "a100-80gb", 1.4),
        ({"quant_bits": 4}, "rtx-4090", 1.4),
        ({"quant_bits": 4}, "a100-80gb", None),
        ({"stack": "litgpt"}, "rtx-4090", None),
    ],
)
def test_own_runs_of_the_like_or_on_the_card_say_how_fast_it_is(
    ask: Ask, calibration: Calibration, changed: dict[str, Any], card: str, by: float | None
) -> None:
    settings = {"seq_len": 1024, "micro_batch_size": 2, "compute_dtype": "bf16"}
    known = having_timed(calibration, ask("mistral-7b-v0.3", "rtx-4090", **settings))
    question = ask("mistral-7b-v0.3", card, **{**settings, **changed})
    without = slower(question, calibration)
    if by is None:
        assert slower(question, known) == pytest.approx(without, rel=0.01)
    else:
        assert slower(question, known) > by * without
    (sample,) = predict_samples([question], known)
    assert sample is not None
    assert sample.value == predict_time(question, known).figure.value / 2


def test_one_own_run_is_believed_however_far_it_is_from_the_formula(
    ask: Ask, calibration: Calibration
) -> None:
    """A fit believes far-off figures less, but a machine that is slow is slow in all its runs."""
    timed = ask("mistral-7b-v0.3", "rtx-4090", seq_len=1024, micro_batch_size=2)
    assert slower(timed, having_timed(calibration, timed)) == pytest.approx(SLOWER, rel=0.05)


def test_own_runs_of_samples_of_unknown_length_say_nothing_of_other_cards(
    ask: Ask, calibration: Calibration
) -> None:
    timed = ask("mistral-7b-v0.3", "rtx-4090", seq_len=1024, micro_batch_size=2)
    known = having_timed(calibration, timed, length_distribution="variable")
    assert slower(timed, known) > 1.3
    for other in (
        ask("mistral-7b-v0.3", "a100-80gb", seq_len=1024),
        ask("qwen-7b", "rtx-4090", seq_len=1024),
    ):
        assert slower(other, known) == pytest.approx(1)


def test_own_runs_of_packed_samples_say_how_fast_other_cards_are(
    ask: Ask, calibration: Calibration
) -> None:
    timed = ask("mistral-7b-v0.3", "rtx-4090", seq_len=1024, micro_batch_size=2, packing=True)
    known = having_timed(calibration, timed, length_distribution=None)
    assert slower(ask("mistral-7b-v0.3", "a100-80gb", seq_len=1024, packing=True), known) > 1.3


def test_what_a_question_leaves_open_is_as_the_own_run_had_it(
    ask: Ask, calibration: Calibration
) -> None:
    timed = ask("mistral-7b-v0.3", "rtx-4090", seq_len=1024)
    known = having_timed(calibration, timed, gradient_checkpointing=False)
    meant = known.own_times.meaning(timed)
    assert (meant.gradient_checkpointing, meant.stack) == (False, "mine")
    stated = timed.changed(gradient_checkpointing=True)
    assert known.own_times.meaning(stated).gradient_checkpointing is True
    assert known.own_times.meaning(timed.changed(quant_bits=4)).gradient_checkpointing is None


def test_own_runs_of_an_unknown_card_say_nothing_of_any(ask: Ask, calibration: Calibration) -> None:
    timed = ask("mistral-7b-v0.3", None, seq_len=1024)
    known = having_timed(calibration, timed)
    assert known.own_times.runs == {}
    asked = ask("mistral-7b-v0.3", "rtx-4090", seq_len=1024)
    assert slower(asked, known) == pytest.approx(1)


def test_own_runs_that_were_not_learned_are_not_said_to_be_the_speed(
    ask: Ask, calibration: Calibration
) -> None:
    timed = ask("mistral-7b-v0.3", "rtx-4090", seq_len=1024)
    learned = having_timed(calibration, timed)
    card = [timed.gpu] if timed.gpu else []
    assert any("own runs" in one for one in list_time_assumes(timed, learned.own_times, card))
    unlearned = replace(learned, time=calibration.time)
    assert list_time_assumes(timed, unlearned.own_times, card) == (
        "checkpointing on",
        "samples of 1024 tokens",
    )


def test_what_times_assume_is_told_of_each_card_as_own_runs_have_it(
    ask: Ask, calibration: Calibration
) -> None:
    timed = ask("mistral-7b-v0.3", "rtx-4090", seq_len=4096)
    settings = {"gradient_checkpointing": False, "longest_sample": 700}
    known = having_timed(calibration, timed, length_distribution="variable", **settings)
    other = ask("mistral-7b-v0.3", "a100-80gb", seq_len=4096)
    cards = [one.gpu for one in (other, timed) if one.gpu]
    assert list_time_assumes(timed, known.own_times, cards) == (
        "checkpointing on", "rtx-4090 checkpointing off",
        "samples of 4096 tokens", "rtx-4090 samples of 700 tokens",
        "rtx-4090 at the speed of your own runs (mine)",
    )  # fmt: skip


@pytest.mark.parametrize("card", ["rtx-4090", "a100-80gb"])
def test_a_switch_to_what_one_has_not_timed_is_priced_at_the_speed_of_ones_own_runs(
    ask: Ask, calibration: Calibration, card: str
) -> None:
    settings = {"seq_len": 1024, "micro_batch_size": 2, "compute_dtype": "bf16", "lora_rank": 16}
    known = having_timed(calibration, ask("mistral-7b-v0.3", "rtx-4090", **settings))
    question = ask("mistral-7b-v0.3", card, gradient_checkpointing=True, **settings)
    (to_4_bits,) = (one for one in explain(question, known).switches if one.what == "4-bit base")
    assert to_4_bits.time_ratio is not None
    assert to_4_bits.time_ratio > 1
