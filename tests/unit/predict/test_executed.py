"""A dry run has an interval of its own for the job it executes, and for no other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from registry.predict.answer.will_it_fit import answer
from registry.predict.dryrun.beside import ExecutedTrial, collect_trials, reach_of, read_executed
from registry.predict.dryrun.correction import correct, likeliest
from registry.predict.formula.peak_memory import GIB

if TYPE_CHECKING:
    from registry.predict.answer.will_it_fit import Answer
    from registry.predict.calibration.intervals import Calibration
    from tests.unit.predict.conftest import Ask

RESERVED = 20 * GIB
#: All that a job of the Trainer with adapters leaves open.
STATED: dict[str, Any] = {
    "seq_len": 2048, "gradient_checkpointing": True, "param_dtype": "bf16", "lora_rank": 16,
    "lora_target_modules": ("q_proj", "v_proj"), "stack": "gpu-sweep",
}  # fmt: skip


def executed(ask: Ask, calibration: Calibration, gpu: str = "rtx-4090", **settings: Any) -> Answer:
    question = ask("llama-3.1-8b", gpu, **{**STATED, **settings})
    meant = likeliest(question, calibration)
    return answer(question, correct(question, meant, calibration, RESERVED))


def test_what_a_job_of_the_trainer_takes_is_known_within_the_context_and_a_few_per_cent(
    ask: Ask, calibration: Calibration
) -> None:
    found = executed(ask, calibration)
    figure, reach = found.prediction.figure, reach_of(collect_trials(calibration.observations))
    assert figure.value == pytest.approx(RESERVED + 1e9)
    doubt = math.hypot(RESERVED * (math.exp(reach) - 1), 1.645 * 0.5e9)
    assert figure.high == pytest.approx(figure.value + doubt)
    assert figure.low < figure.value < figure.high < 1.1 * figure.value
    assert found.verdict == "fits"
    assert any("the dry run's own interval, for transformers' Trainer" in s for s in found.reasons)


def test_the_verdict_follows_it_and_sizes_are_no_less_than_what_fits(
    ask: Ask, calibration: Calibration
) -> None:
    found = executed(ask, calibration, seq_len=2000)
    assert found.verdict == "fits"
    assert (found.longest_seq_len or 0) >= 2000
    assert executed(ask, calibration, "rtx-4060-ti-16gb").verdict == "does not fit"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"stack": None}, "no software is stated; give --stack transformers for the Trainer"),
        ({"stack": "swift-benchmark"}, "swift-benchmark is not the Trainer; give --stack"),
        ({"gradient_checkpointing": None}, "state --checkpointing or --no-checkpointing"),
        ({"param_dtype": None, "lora_rank": None}, "state --param-dtype, --lora-rank and"),
        ({"attention": "eager"}, "a dry run of eager attention was 24 % below a card"),
        ({"n_gpus": 2}, "dry runs of several devices were not compared with cards"),
    ],
)
def test_any_other_question_has_the_wide_interval_and_is_told_why(
    ask: Ask, calibration: Calibration, settings: dict[str, Any], why: str
) -> None:
    found = executed(ask, calibration, **settings)
    (said,) = (one for one in found.reasons if one.startswith("this is the wide interval"))
    assert why in said
    own = executed(ask, calibration).prediction.figure
    assert found.prediction.figure.high / found.prediction.figure.value > own.high / own.value


def test_full_training_states_whether_gradients_are_accumulated(
    ask: Ask, calibration: Calibration
) -> None:
    stated: dict[str, Any] = {
        "method": "full",
        "lora_rank": None,
        "lora_target_modules": None,
        "optimizer": "sgd",
    }
    left = executed(ask, calibration, **stated)
    assert any("state --accum" in one for one in left.reasons)
    one = executed(ask, calibration, grad_accum_steps=1, **stated)
    assert not any("wide interval" in reason for reason in one.reasons)


def test_each_model_counts_the_same_in_how_far_dry_runs_were_off() -> None:
    near = [ExecutedTrial("a", 101.0, 100.0)] * 50
    far = [ExecutedTrial("b", 120.0, 100.0)] * 5
    assert reach_of(near) == pytest.approx(math.log(1.01))
    assert reach_of([*near, *far]) == pytest.approx(math.log(1.2))


def test_every_dry_run_that_is_kept_stands_beside_a_measured_trial(
    calibration: Calibration,
) -> None:
    assert len(collect_trials(calibration.observations)) == len(read_executed()) > 30
