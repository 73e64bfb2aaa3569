"""Methods are computed by what they train and keep, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.contract import vocabulary
from registry.errors import QuestionError
from registry.predict.formula.methods import METHODS, kept_per_token, virtual_tokens
from registry.predict.formula.optimizers import OPTIMIZERS
from registry.predict.formula.peak_memory import GIB, memory_terms, total

if TYPE_CHECKING:
    from tests.unit.predict.conftest import Ask

#: Trained parameters that PEFT reports in its comparison of methods: Llama-3.2-3B, q and v.
COUNTED = [
    ("lora", {"lora_rank": 32}, 9_175_040),
    ("dora", {"lora_rank": 32}, 9_289_728),
    ("lorafa", {"lora_rank": 32}, 3_670_016),
    ("loha", {"lora_rank": 32}, 18_350_080),
    ("vera", {"lora_rank": 256}, 129_024),
    ("ia3", {}, 286_720),
    ("fourierft", {}, 56_000),
    ("miss", {"lora_rank": 64}, 7_340_032),
    ("bone", {"lora_rank": 64}, 7_340_032),
    ("oft", {"lora_rank": 32}, 8_171_520),
    ("boft", {}, 802_816),
    ("ln_tuning", {}, 175_104),
    ("prompt_tuning", {"virtual_tokens": 200}, 614_400),
    ("p_tuning", {"virtual_tokens": 20}, 28_382_208),
    ("prefix_tuning", {"virtual_tokens": 200}, 11_468_800),
    ("adaption_prompt", {"virtual_tokens": 100}, 8_601_628),
]


@pytest.mark.parametrize(("method", "settings", "counted"), COUNTED)
def test_a_method_trains_what_peft_counts(
    ask: Ask, method: str, settings: dict[str, Any], counted: int
) -> None:
    assert ask("llama-3.2-3b", method=method, **settings).adapter_params == counted


#: Peaks that the same comparison reserved (GiB, without the context): 4 samples of 768 tokens.
RESERVED = [
    ("lora", {"lora_rank": 32}, 20.76), ("dora", {"lora_rank": 32}, 22.85),
    ("lorafa", {"lora_rank": 32}, 20.71), ("loha", {"lora_rank": 32}, 22.27),
    ("lokr", {"lora_rank": 32}, 21.97), ("vera", {"lora_rank": 256}, 20.14), ("ia3", {}, 21.64),
    ("fourierft", {}, 22.03), ("miss", {"lora_rank": 64}, 18.88), ("boft", {}, 23.00),
    ("oft", {"lora_rank": 32}, 20.80), ("ln_tuning", {}, 19.73),
    ("prompt_tuning", {"virtual_tokens": 200}, 22.72),
    ("p_tuning", {"virtual_tokens": 20}, 19.48),
    ("prefix_tuning", {"virtual_tokens": 200}, 20.45),
    ("adaption_prompt", {"virtual_tokens": 100}, 20.91),
]  # fmt: skip


@pytest.mark.parametrize(("method", "settings", "reserved"), RESERVED)
def test_a_method_reserves_what_pefts_comparison_measured(
    ask: Ask, method: str, settings: dict[str, Any], reserved: float
) -> None:
    sizes: dict[str, Any] = {"seq_len": 768, "micro_batch_size": 4, "gradient_checkpointing": False}
    terms = memory_terms(ask("llama-3.2-3b", method=method, **sizes, **settings))
    device = [term for term in terms if term.part != "context"]
    assert total(device) / GIB == pytest.approx(reserved, rel=0.06)


def test_factors_of_lokr_are_nearest_to_a_square(ask: Ask) -> None:
    # q: 3072 = 48 x 64 twice; v: 1024 = 32 x 32
    question = ask("llama-3.2-3b", method="lokr", lora_rank=4)
    each = 48 * 48 + 4 * (64 + 64) + 48 * 32 + 4 * (64 + 32)
    assert question.adapter_params == 28 * each


def test_adalora_starts_at_one_and_a_half_times_its_rank(ask: Ask) -> None:
    question = ask("llama-3.2-3b", method="adalora", lora_rank=8)
    assert question.adapter_params == 28 * 12 * (3072 + 3072 + 1 + 3072 + 1024 + 1)


def test_stated_parameters_say_how_many_virtual_tokens_there_are(ask: Ask) -> None:
    for method, trained in (("prompt_tuning", 614_400), ("prefix_tuning", 11_468_800)):
        question = ask("llama-3.2-3b", method=method, trainable_params=trained)
        assert virtual_tokens(question) == 200
    assert virtual_tokens(ask("llama-3.2-3b", method="prompt_tuning")) == 20


def test_ia3_scales_inputs_of_the_mlp_and_outputs_of_attention(ask: Ask) -> None:
    question = ask("llama-3.2-3b", method="ia3")
    assert kept_per_token(question) == 4 * 8192 + 2 * (1024 + 1024)


def test_every_method_is_computed_or_refused_by_name(ask: Ask) -> None:
    refused = set(vocabulary("method")) - {"full", *METHODS}
    assert {"galore", "lisa", "badam", "freeze", "longlora", "other", "unknown"} <= refused
    for method in refused:
        with pytest.raises(QuestionError, match=f"method {method}: no measured run or"):
            ask("llama-3.2-3b", method=method)


def test_a_refusal_says_what_is_computed_and_where_to_look(ask: Ask) -> None:
    with pytest.raises(QuestionError) as caught:
        ask("llama-2-7b", method="galore")
    assert str(caught.value) == (
        "method galore: no measured run or execution verifies a formula for its memory, so it is "
        f"not computed; expected one of full, {', '.join(METHODS)}; --method full gives an upper "
        "bound; to see what was measured: registry ls --method galore"
    )


def test_full_training_bounds_the_methods_that_train_parts_of_it(ask: Ask) -> None:
    """As measured of qwen-7b on an A100 (`ms-swift-benchmark-2024-07`): GaLore, LISA."""
    full = total(memory_terms(ask("qwen-7b", method="full", grad_accum_steps=16)))
    assert full > 50.5e9  # GaLore of rank 128
    assert full > 34.2e9  # LISA with 4 layers


def test_no_computed_method_takes_exactly_what_lora_takes(ask: Ask) -> None:
    lora = total(memory_terms(ask("llama-2-7b")))
    for method in set(METHODS) - {"lora"}:
        assert total(memory_terms(ask("llama-2-7b", method=method))) != lora


def test_an_optimizer_is_computed_or_refused_by_name(ask: Ask) -> None:
    refused = set(vocabulary("optimizer")) - set(OPTIMIZERS)
    assert refused == {"galore_adamw", "muon", "rmsprop", "other"}
    for name in refused:
        with pytest.raises(QuestionError, match=f"optimizer {name}: no measured run verifies"):
            ask("llama-2-7b", optimizer=name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tensor_parallel": 2}, "tensor_parallel 2 with method lora: no measured run"),
        ({"pipeline_parallel": 4}, "pipeline_parallel 4 with method lora: no measured run"),
        ({"n_gpus": 3, "n_nodes": 2}, "nodes 2: found 3 cards in all, which cannot be"),
        ({"loss_kernel": "magic"}, "loss_kernel: found 'magic'; expected one of whole, chunked, "),
        (
            {"method": "full", "optimizer_in_backward": True, "grad_accum_steps": 4},
            "optimizer_in_backward with grad_accum_steps 4",
        ),
    ],
)
def test_what_is_not_computed_is_refused(ask: Ask, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        ask("llama-2-7b", **settings)


def test_full_training_of_8b_does_not_fit_16_gb_with_the_optimizer_on_the_host(ask: Ask) -> None:
    question = ask("llama-3.1-8b", "t4", method="full", offload="optimizer")
    assert question.gpu is not None
    assert total(memory_terms(question)) > 1.5 * question.gpu.memory_bytes
