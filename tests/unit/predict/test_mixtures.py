"""Mixtures of experts: what their experts take where bitsandbytes leaves them as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from registry.predict.answer.will_it_fit import answer
from registry.predict.calibration.unstated import open_settings
from registry.predict.formula.peak_memory import GIB, memory_terms, total
from registry.predict.question import check_question

if TYPE_CHECKING:
    from registry.predict.calibration.intervals import Calibration
    from tests.unit.predict.conftest import Ask


def test_experts_that_stay_unquantized_are_held_in_fp32(ask: Ask) -> None:
    """As the dry run finds of Mixtral under bitsandbytes (`dryrun/test_dry_run.py`)."""
    mixtral = ask("mixtral-8x7b", quant_bits=4, quantized_experts=False)
    found = {term.name: term.value for term in memory_terms(mixtral)}
    experts = 32 * 8 * 3 * 4096 * 14336
    rest = mixtral.model.n_params - experts - 2 * 32_000 * 4096
    assert found["experts"] == 4 * experts
    assert found["quantized_weights"] == rest / 2
    lean = memory_terms(mixtral.changed(loss_kernel="unsloth"))
    unsloth = {term.name: term.value for term in lean}
    assert unsloth["experts"] == 2 * experts
    quantized = {term.name for term in memory_terms(mixtral.changed(quantized_experts=None))}
    assert "experts" not in quantized


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b"])
def test_experts_are_most_of_a_mixture(ask: Ask, model: str) -> None:
    shape = ask(model).model
    assert 0.9 < shape.expert_params / shape.n_params < 0.97


def test_a_quantized_mixture_warns_of_what_its_experts_may_take(ask: Ask) -> None:
    question = ask("mixtral-8x7b", quant_bits=4)
    expected = (
        "bitsandbytes does not quantize the experts of mixtral-8x7b where transformers 5 fuses "
        "them: they take 168 GiB then, cast to fp32 by PEFT's preparation; state "
        "--quantized-experts or --no-quantized-experts"
    )
    assert expected in check_question(question)
    for stated in (True, False):
        warnings = check_question(question.changed(quantized_experts=stated))
        assert not any("the experts of" in one and "quantized" in one for one in warnings)
    assert not any("experts of" in warning for warning in check_question(ask("llama-2-7b")))


def test_whether_experts_are_quantized_is_open_where_nothing_says_so(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("qwen3-30b-a3b", quant_bits=4, lora_rank=16, lora_target_modules=ATTENTION)
    assert "quantized_experts" in open_settings(question)
    found = answer(question, calibration)
    (experts,) = (one for one in found.assumptions if one.setting == "quantized_experts")
    likely, unlikely = experts.cases
    assert (likely.value, unlikely.value) == (True, False)
    assert (likely.weight, unlikely.weight) == pytest.approx((0.7, 0.3))
    plain = question.changed(quantized_experts=False)
    assert unlikely.bytes == answer(plain, calibration).prediction.figure.value
    held = question.model.expert_params * 4  # PEFT casts what is not quantized to fp32
    assert unlikely.bytes - likely.bytes == pytest.approx(held * (1 - 0.5 / 4), rel=0.1)
    assert (
        found.prediction.figure.high
        > answer(question.changed(quantized_experts=True), calibration).prediction.figure.high
    )
    for closed in (
        question.changed(quantized_experts=True),
        question.changed(quant_method="gptq"),
        question.changed(quant_bits=None),
        ask("llama-2-7b", quant_bits=4),
    ):
        assert "quantized_experts" not in open_settings(closed)


ATTENTION = ("k_proj", "o_proj", "q_proj", "v_proj")


@pytest.mark.parametrize("stated", [None, ("all-linear",), (*ATTENTION, "gate_proj")])
def test_adapters_on_experts_are_told_with_what_they_take(
    ask: Ask, stated: tuple[str, ...] | None
) -> None:
    question = ask("qwen3-30b-a3b", lora_rank=16, lora_target_modules=stated)
    (warning,) = (one for one in check_question(question) if "adapters on each expert" in one)
    assert warning.endswith("ask with --targets k_proj,o_proj,q_proj,v_proj")
    asked = question.changed(lora_target_modules=stated or ("all-linear",))
    without = question.changed(lora_target_modules=ATTENTION)
    more = total(memory_terms(asked)) - total(memory_terms(without))
    assert f"are counted, {more / GIB:.1f} GiB;" in warning
    assert more > GIB


@pytest.mark.parametrize(
    "settings",
    [
        {"lora_target_modules": ATTENTION},
        {"method": "full"},
        {"method": "ia3"},
        {"quant_bits": 4, "quantized_experts": False},
    ],
)
def test_where_no_expert_gets_an_adapter_none_is_told(ask: Ask, settings: dict[str, Any]) -> None:
    warnings = check_question(ask("qwen3-30b-a3b", **settings))
    assert not any("adapters on each expert" in one for one in warnings)


@pytest.mark.parametrize(
    ("model", "said", "names"),
    [
        ("gpt-oss-20b", "PEFT adds none:", "k_proj,o_proj,q_proj,v_proj"),
        ("qwen3-30b-a3b", "PEFT 0.21 adds them", "k_proj,o_proj,q_proj,v_proj"),
        (
            "deepseek-v2-lite",
            "PEFT 0.21 adds them",
            "kv_a_proj_with_mqa,kv_b_proj,o_proj,q_a_proj,q_b_proj,q_proj",
        ),
    ],
)
def test_whether_peft_adapts_fused_experts_depends_on_the_family(
    ask: Ask, model: str, said: str, names: str
) -> None:
    (warning,) = (one for one in check_question(ask(model)) if "adapters on each expert" in one)
    assert said in warning
    assert warning.endswith(f"--targets {names}")


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("deepseek-v3", 58),
        ("glm-4.5-air", 45),
        ("gpt-oss-20b", 24),
        ("jamba-v0.1", 16),
        ("llama-4-maverick", 24),
        ("mixtral-8x7b", 32),
    ],
)
def test_layers_with_experts_follow_from_what_is_not_active(
    ask: Ask, model: str, layers: int
) -> None:
    assert ask(model).model.mixture_layers == layers


def test_layers_without_experts_have_one_mlp_and_its_adapters(ask: Ask) -> None:
    jamba = ask("jamba-v0.1", lora_rank=4, lora_target_modules=("up_proj",))
    assert jamba.model.expert_params == 16 * 16 * 3 * 4096 * 14336
    assert jamba.adapter_params == (16 * 16 + 16) * 4 * (4096 + 14336)
    unknown = jamba.changed(model=replace(jamba.model, n_active_params=None))
    assert unknown.adapter_params == 32 * 16 * 4 * (4096 + 14336)
