"""Answers are never against what was measured of what they may mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.api import Registry
from registry.predict.answer.meant import find_meant
from registry.predict.answer.prediction import UNDECIDED, predict_memory
from registry.predict.answer.verdict import decide
from registry.predict.answer.will_it_fit import answer
from registry.predict.calibration.calibration_file import read_calibration
from registry.predict.calibration.fit_rows import USABLE
from registry.predict.formula.peak_memory import GIB
from registry.predict.question import Question
from registry.store.folder import Folder, Location

if TYPE_CHECKING:
    from pathlib import Path

    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.runs import ObservedRun
    from tests.unit.predict.conftest import Ask

#: What a question has to state for a run to be one that it may mean; all else stays open.
BARE = (
    "model", "gpu", "method", "quant_bits", "seq_len", "micro_batch_size", "n_gpus", "n_nodes",
    "sharding", "offload", "tensor_parallel", "pipeline_parallel", "virtual_tokens",
    "trains_embeddings",
)  # fmt: skip


def bare(seen: ObservedRun) -> Question:
    asked = seen.asked or seen.question
    return Question(**{name: getattr(asked, name) for name in BARE})


def test_a_run_that_is_asked_about_in_a_few_words_lies_within_the_answer(
    calibration: Calibration,
) -> None:
    measured = [one for one in calibration.observations if one.measured_memory and one.question.gpu]
    for seen in measured[::5]:
        found = predict_memory(bare(seen), calibration).figure
        assert found.low <= (seen.peak_bytes or 0.0) <= found.high, seen.observation_id


def test_no_figure_contradicts_its_verdict(calibration: Calibration) -> None:
    measured = [one for one in calibration.observations if one.measured_memory]
    decided = []
    for seen in measured[::3]:
        asked = seen.asked or seen.question
        if asked.gpu is not None:
            one = decide(
                asked, predict_memory(asked, calibration), calibration.runs_of(asked.model)
            )
            decided += [one.verdict] if one.reasons else []
            figure = one.prediction.figure
            is_below = figure.value <= USABLE * asked.gpu.memory_bytes
            assert one.verdict == UNDECIDED or is_below == (one.verdict == "fits")
            assert figure.low <= figure.value <= figure.high
            least, most = one.prediction.least, one.prediction.most
            assert least is None or figure.low == least.peak_bytes
            assert most is None or figure.high == most.peak_bytes
            parts = sum(one.prediction.parts.values())
            assert parts == pytest.approx(figure.value), seen.observation_id
    assert len(decided) > 20


FULL = {"method": "full", "seq_len": 2048, "micro_batch_size": 2, "packing": True}


def test_a_run_with_a_rare_setting_keeps_what_leaves_it_open_possible(
    ask: Ask, calibration: Calibration
) -> None:
    found = answer(ask("llama-3.1-8b", "rtx-4090", **FULL), calibration)
    assert found.verdict == UNDECIDED
    assert found.prediction.figure.low == pytest.approx(18.9 * GIB)
    assert any(
        reason.startswith("the lower end is the 18.9 GiB that observation d5b5d7ba78d5")
        for reason in found.reasons
    )


@pytest.mark.parametrize(
    "stated", [{"optimizer": "adamw"}, {"gradient_checkpointing": False}, {"seq_len": 4096}]
)
def test_what_it_had_otherwise_or_less_of_says_nothing(
    ask: Ask, calibration: Calibration, stated: dict[str, Any]
) -> None:
    question = ask("llama-3.1-8b", "rtx-4090", **{**FULL, **stated})
    measured = calibration.measured_of(question.model)
    found = {one.observation_id[:12] for one in find_meant(question, measured).no_smaller}
    assert "d5b5d7ba78d5" not in found


def test_the_upper_end_reaches_what_no_more_tokens_took_on_such_a_card(
    ask: Ask, calibration: Calibration
) -> None:
    asked = {"seq_len": 512, "micro_batch_size": 8, "quant_bits": 4, "lora_rank": 32}
    beside = answer(ask("tinyllama-1.1b", "a10g", **asked), calibration)
    assert beside.prediction.figure.high == pytest.approx(15.12 * GIB, rel=0.01)
    assert beside.prediction.most is not None
    other = answer(ask("tinyllama-1.1b", "rtx-5090", **asked), calibration)
    assert other.prediction.most is None


def test_runs_of_longer_samples_lift_no_upper_end_of_shorter_ones(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("tinyllama-1.1b", "a10g", seq_len=512, micro_batch_size=8, quant_bits=4)
    measured = calibration.measured_of(question.model)
    assert find_meant(question, measured).no_larger
    short = question.changed(longest_sample=256)
    assert all(one.learned.longest <= 256 for one in find_meant(short, measured).no_larger)


def test_kinds_of_a_card_get_one_figure(ask: Ask, calibration: Calibration) -> None:
    names = ("a100-40gb", "a100-sxm4-40gb", "a100-pcie-40gb")
    found = {predict_memory(ask("llama-2-7b", name), calibration).figure for name in names}
    assert len(found) == 1


def test_an_own_run_of_unknown_lengths_is_what_is_answered_then(
    tmp_path: Path, few_records: Path, ask: Ask, calibration: Calibration
) -> None:
    stated = {"seq_len": 2048, "micro_batch_size": 2, "gradient_checkpointing": True}
    adapters = {"quant_bits": 4, "lora_rank": 16, "lora_target_modules": ("all-linear",)}
    question = ask("qwen3-14b", "t4", **stated, **adapters)
    assert answer(question, calibration).prediction.figure.value > 20 * GIB
    opened = Registry(Location(Folder(tmp_path / "mine"), Folder(few_records)))
    configuration = {"model_id": "qwen3-14b", "method": "lora", "gpu_id": "t4", "n_gpus": 1}
    configuration |= {**stated, **adapters, "lora_target_modules": ["all-linear"]}
    peak = {"metric": "peak_memory", "kind": "device", "value": "13 GiB"}
    run = {"outcome": "ok", "configuration": configuration, "measurements": [peak]}
    source = {"source_id": "my-runs", "kind": "person"}
    opened.add({"source": source, "observations": [run]})
    found = answer(question, read_calibration(opened))
    assert found.prediction.figure.value == pytest.approx(13 * GIB, rel=0.1)
    assert found.prediction.figure.low < 13 * GIB < found.prediction.figure.high
    assert found.verdict == "fits"
