"""A question is refused where it cannot be run, and warned of where it surprises."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import QuestionError
from registry.predict.architecture import (
    architecture_from_config,
    architecture_from_figures,
    architecture_of,
    gpu_of,
)
from registry.predict.formula.adapters import target_widths
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.question import Question, check_question

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from tests.unit.predict.conftest import Ask


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"micro_batch_size": 0}, "micro_batch_size: found 0; expected a whole number above 0"),
        ({"n_gpus": 0}, "n_gpus: found 0; expected a whole number above 0"),
        ({"seq_len": -1}, "seq_len: found -1; expected a whole number above 0"),
        ({"quant_bits": 5}, "quant_bits: found 5; expected 2, 3, 4 or 8, or nothing"),
        (
            {"method": "full", "quant_bits": 4},
            (
                "method full with quant_bits 4: quantized weights receive no gradient; expected a "
                "method with adapters; ask for --method qlora"
            ),
        ),
        (
            {"method": "full", "lora_rank": 8},
            "method full with lora_rank 8: expected no rank, or --method lora",
        ),
    ],
)
def test_what_cannot_be_run_is_refused(ask: Ask, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(QuestionError) as caught:
        ask("qwen-7b", **settings)
    assert str(caught.value) == message


def test_a_sequence_beyond_the_positions_is_warned_of(ask: Ask) -> None:
    assert check_question(ask("llama-2-7b", seq_len=4097)) == [
        "seq_len 4097 is beyond the 4096 positions of llama-2-7b"
    ]
    assert check_question(ask("llama-2-7b", seq_len=4096)) == []


def test_a_mean_above_what_samples_are_cut_to_is_said_to_be_cut(ask: Ask) -> None:
    question = ask("llama-2-7b", seq_len=512, mean_tokens=600.0)
    assert check_question(question) == [
        "mean_tokens 600 is above the 512 that samples are cut to: all are taken to be as long"
    ]
    assert check_question(question.changed(mean_tokens=512.0)) == []


def test_modules_of_unknown_shape_are_warned_of(ask: Ask) -> None:
    targets = ("mixer.in_proj", "q_proj", "lm_head")
    (warning,) = check_question(ask("llama-2-7b", lora_target_modules=targets))
    assert warning == (
        "targets: the shape of mixer.in_proj in llama-2-7b is not known; counted as "
        "4,096 x 4,096: check the spelling"
    )
    assert check_question(ask("llama-2-7b", lora_target_modules=targets[1:])) == []


def test_a_quantizer_that_is_not_named_is_told_with_what_it_costs(ask: Ask) -> None:
    question = ask("llama-2-7b", quant_bits=4, micro_batch_size=1, seq_len=2048)
    (warning,) = check_question(question)
    # 2 more bytes of 2 x 32,000 x 4,096 weights and 2,048 x 32,000 logits; NF4's scales are larger
    scales = question.model.linear_params * (4 / 64 - 2.5 / 128)
    more = 2 * 2 * 32_000 * 4096 + 2 * 2048 * 32_000 + scales
    assert f"which takes {more / 2**30:.1f} GiB more than with gptq or awq" in warning
    for stated in ("bitsandbytes", "gptq"):
        assert check_question(question.changed(quant_method=stated)) == []


@pytest.mark.parametrize(
    ("seq_len", "settings", "n_told"),
    [
        (2048, {}, 0),
        (8192, {}, 1),
        (8192, {"loss_kernel": "liger"}, 0),
        (8192, {"quant_method": "gptq"}, 0),
        (8192, {"quant_bits": None, "quant_method": None}, 0),
    ],
)
def test_where_the_logits_take_more_than_quantizing_saves_it_is_told(
    ask: Ask, seq_len: int, settings: dict[str, Any], n_told: int
) -> None:
    stated = {"quant_bits": 4, "quant_method": "bitsandbytes", "micro_batch_size": 1}
    question = ask("gemma-2-2b", seq_len=seq_len, **{**stated, **settings})
    told = [one for one in check_question(question) if "quantizing saves nothing here" in one]
    assert len(told) == n_told


@pytest.mark.parametrize(("sharding", "n_warnings"), [(None, 1), ("zero3", 0), ("fsdp", 0)])
def test_weights_in_host_memory_that_nothing_moves_are_warned_of(
    ask: Ask, sharding: str | None, n_warnings: int
) -> None:
    stated: dict[str, Any] = {
        "method": "full", "n_gpus": 2, "offload": "optimizer_and_params",
    }  # fmt: skip
    warnings = check_question(ask("llama-2-7b", sharding=sharding, **stated))
    assert sum("what moves the weights is not said" in one for one in warnings) == n_warnings


@pytest.mark.parametrize(
    ("gpu", "n_warnings"), [("t4", 2), ("v100-sxm2-32gb", 2), ("rtx-3090", 0), ("mi300x", 0)]
)
def test_what_a_card_cannot_do_is_warned_of(ask: Ask, gpu: str, n_warnings: int) -> None:
    warnings = check_question(ask("llama-2-7b", gpu, compute_dtype="bf16", attention="flash2"))
    assert [gpu in warning for warning in warnings] == [True] * n_warnings
    assert check_question(ask("llama-2-7b", gpu, compute_dtype="fp16", attention="eager")) == []


def test_a_mixture_of_experts_and_lonely_sharding_are_warned_of(ask: Ask) -> None:
    stated: dict[str, Any] = {"sharding": "zero3", "lora_target_modules": ("q_proj", "v_proj")}
    assert check_question(ask("mixtral-8x7b", **stated)) == [
        "mixtral-8x7b is a mixture of experts: the formula leaves out what its routing needs",
        "sharding zero3 spreads nothing over one GPU (DeepSpeed's own fp32 copies are counted)",
    ]


def test_a_mixture_without_its_active_parameters_is_warned_of(ask: Ask) -> None:
    question = ask("mixtral-8x7b")
    unknown = question.changed(model=replace(question.model, n_active_params=None))
    (warning,) = set(check_question(unknown)) - set(check_question(question))
    assert warning == (
        "how many parameters of mixtral-8x7b a token passes through is not known: the time is "
        "computed as if it were all of them"
    )


@pytest.mark.parametrize(
    ("gpu", "dtype", "warned"),
    [("a100-80gb", "fp8", True), ("h100-sxm5-80gb", "fp8", False), ("b200", "fp4", True)],
)
def test_a_speed_that_the_catalogue_lacks_is_warned_of(
    ask: Ask, gpu: str, dtype: str, *, warned: bool
) -> None:
    said = f"the catalogue has no {dtype} speed of {gpu}: that of 16 bits is used"
    assert (said in check_question(ask("llama-2-7b", gpu, compute_dtype=dtype))) is warned


@pytest.mark.parametrize("offload", ["params", "optimizer_and_params"])
@pytest.mark.parametrize("sharding", ["zero1", "zero2"])
def test_parameters_are_offloaded_with_zero_3_alone(ask: Ask, sharding: str, offload: str) -> None:
    with pytest.raises(QuestionError, match="under ZeRO-3 alone; expected --sharding zero3"):
        ask("llama-2-7b", method="full", n_gpus=4, sharding=sharding, offload=offload)
    assert ask("llama-2-7b", method="full", n_gpus=4, sharding="zero3", offload=offload)
    assert ask("llama-2-7b", method="full", n_gpus=4, sharding=sharding, offload="optimizer")


@pytest.mark.parametrize(
    ("targets", "millions"),
    [(("c_attn",), 4.19), (("q_proj", "v_proj"), 4.19), (("all-linear",), 17.89)],
)
def test_adapters_of_rank_8_count_as_the_benchmark_prints(
    ask: Ask, targets: tuple[str, ...], millions: float
) -> None:
    # swift-benchmark: 4.19M for c_attn, 17.89M for all linear modules of qwen-7b-chat. Qwen fuses
    # q, k and v in one matrix, which all-linear of a llama does not.
    question = ask("qwen-7b-chat", lora_rank=8, lora_target_modules=targets)
    tolerance = 0.12 if targets == ("all-linear",) else 0.0015
    assert question.adapter_params / 1e6 == pytest.approx(millions, rel=tolerance)


def test_c_proj_names_two_modules_of_qwen(ask: Ask) -> None:
    model = ask("qwen-7b").model
    assert [inner for _, inner, _ in target_widths(model, ("c_proj",))] == [4096, 11008]


def test_a_config_counts_its_parameters() -> None:
    config = {
        "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
        "num_hidden_layers": 32, "intermediate_size": 11008, "vocab_size": 32000,
        "tie_word_embeddings": False, "max_position_embeddings": 4096,
    }  # fmt: skip
    model = architecture_from_config(config)
    assert model.n_params == 6_738_415_616
    assert model.max_positions == 4096


@pytest.mark.parametrize(
    "name", ["llama-3-8b", "mistral-7b", "qwen2.5-32b", "llama-3.2-3b", "mixtral-8x7b"]
)
def test_counted_parameters_are_those_of_the_catalogue(catalogue: Catalogue, name: str) -> None:
    row = catalogue.models[name]
    config = {
        "model_type": row["model_type"], "hidden_size": row["hidden_size"],
        "num_attention_heads": row["n_heads"], "num_key_value_heads": row["n_kv_heads"],
        "num_hidden_layers": row["n_layers"], "intermediate_size": row["intermediate_size"],
        "vocab_size": row["vocab_size"], "tie_word_embeddings": row["tied_embeddings"],
        "head_dim": row["head_dim"], "num_local_experts": row["n_experts"],
        "num_experts_per_tok": row["n_experts_active"],
    }  # fmt: skip
    assert architecture_from_config(config).n_params == row["n_params"]


def test_a_mixture_as_transformers_writes_it_counts_all_its_experts(catalogue: Catalogue) -> None:
    text = Path("tests/fixtures/configs/deepseek-v2-lite.json").read_text(encoding="utf-8")
    model = architecture_from_config(json.loads(text), "deepseek-v2-lite")
    row = catalogue.models["deepseek-v2-lite"]
    assert (model.n_params, model.active_params) == (row["n_params"], row["n_active_params"])
    card = gpu_of(catalogue.gpus["rtx-4060-ti-16gb"])
    assert total(memory_terms(Question(model, gpu=card))) > 1.8 * card.memory_bytes


NEWCOMER = {
    "model_type": "newcomer", "hidden_size": 4096, "num_attention_heads": 32,
    "num_hidden_layers": 32, "intermediate_size": 11008, "vocab_size": 32000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("installed", "way_out"),
    [
        (True, "give its figures with --params and --layers instead"),
        (
            False,
            (
                "install the extra [train], whose transformers may know it, or give its figures "
                "with --params and --layers instead"
            ),
        ),
    ],
)
def test_a_family_that_nobody_knows_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    installed: bool,  # noqa: FBT001 - a parameter of the test
    way_out: str,
) -> None:
    monkeypatch.setattr("registry.predict.architecture.can_build", lambda: installed)
    monkeypatch.setattr("registry.predict.architecture.count_on_meta", lambda _: {})
    with pytest.raises(QuestionError) as caught:
        architecture_from_config(NEWCOMER)
    assert str(caught.value) == (
        "config.json: found model_type 'newcomer', in a layout whose parameters cannot be counted; "
        f"expected a known family; {way_out}"
    )


def test_what_the_readers_do_not_count_transformers_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("registry.predict.architecture.can_build", lambda: True)
    monkeypatch.setattr(
        "registry.predict.architecture.count_on_meta",
        lambda _: {"n_params": 7_000_000_000, "n_active_params": 3_000_000_000},
    )
    model = architecture_from_config(NEWCOMER)
    assert (model.n_params, model.active_params) == (7_000_000_000, 3_000_000_000)


def test_an_encoder_decoder_is_refused() -> None:
    config = {"model_type": "t5", "d_model": 512, "num_layers": 6, "d_ff": 2048, "num_heads": 8}
    with pytest.raises(QuestionError) as caught:
        architecture_from_config(config, "t5-small")
    assert str(caught.value) == (
        "model 't5-small': found an encoder-decoder (t5); predictions are made for models with a "
        'single stack of layers; to see what was measured: registry query "from results join '
        "models using (model_id) where model_type = 't5'\""
    )


@pytest.mark.parametrize(("kind", "gated"), [("roberta", False), ("newcomer", True), (None, True)])
def test_an_mlp_of_which_nothing_is_said_has_a_gate_but_in_berts_kind(
    kind: str | None,
    gated: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    sizes = {"n_params": 10**9, "n_layers": 2, "hidden_size": 8, "intermediate_size": 9}
    model = architecture_of({"model_type": kind, "vocab_size": 9, "n_heads": 2, **sizes})
    assert model.gated_mlp is gated


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "marian", "is_encoder_decoder": True, "d_model": 512, "encoder_layers": 6},
        {"model_type": "both", "text_config": {**NEWCOMER, "is_encoder_decoder": True}},
    ],
)
def test_an_encoder_decoder_of_any_family_is_refused(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    monkeypatch.setattr("registry.predict.architecture.can_build", lambda: True)
    monkeypatch.setattr(
        "registry.predict.architecture.count_on_meta", lambda _: {"n_params": 74_410_496}
    )
    with pytest.raises(QuestionError, match=rf"an encoder-decoder \({config['model_type']}\)"):
        architecture_from_config(config)


def test_a_config_without_its_figures_is_refused() -> None:
    with pytest.raises(QuestionError) as caught:
        architecture_from_config({"hidden_size": "4096"})
    assert str(caught.value) == (
        "config.json, hidden_size: found '4096'; expected a whole number above 0; correct it, or "
        "give its figures with --params and --layers"
    )
    with pytest.raises(QuestionError) as caught:
        architecture_from_config({}, "mine/phi.json")
    assert str(caught.value) == (
        "mine/phi.json: found no hidden_size, num_hidden_layers, intermediate_size, vocab_size, "
        "num_attention_heads; expected the config.json of a decoder; give its figures with "
        "--params and --layers instead"
    )


def test_figures_give_the_width_of_a_llama() -> None:
    model = architecture_from_figures(6_738_000_000, 32)
    assert (model.hidden_size, model.n_heads) == (4096, 32)
    assert model.intermediate_size == pytest.approx(11008, rel=0.01)
    with pytest.raises(QuestionError) as caught:
        architecture_from_figures(0, 32)
    assert str(caught.value) == "--params: found 0; expected a number above 0"


@pytest.mark.parametrize("kind", ["mamba", "falcon_mamba", "rwkv", "rwkv6"])
def test_layers_without_attention_are_refused_with_the_reason(kind: str) -> None:
    config = {"model_type": kind, "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 99}
    with pytest.raises(QuestionError, match=f"'{kind}', whose layers have no attention: no meas"):
        architecture_from_config(config)


def test_layers_that_attend_to_images_are_refused_with_the_reason() -> None:
    text = {name: value for name, value in NEWCOMER.items() if name != "model_type"}
    with pytest.raises(QuestionError, match="'mllama', some of whose layers attend to the tokens"):
        architecture_from_config({"model_type": "mllama", "text_config": text})
    row = {"n_params": 9, "n_layers": 2, "hidden_size": 4, "intermediate_size": 8, "vocab_size": 9}
    with pytest.raises(QuestionError, match="x: found model_type 'mllama', some of whose layers"):
        architecture_of({**row, "model_id": "x", "model_type": "mllama"})


def test_a_row_of_gemma_3n_has_what_its_layers_look_up(ask: Ask) -> None:
    small, large = ask("gemma-3n-e2b").model, ask("gemma-4-e4b").model
    assert small.layer_embedding_params == 30 * 256 * 262_144
    assert large.layer_embedding_params == 42 * 256 * 262_144
    assert large.linear_params == large.n_params - (42 * 256 + 2560) * 262_144
    assert ask("gemma-4-31b").model.layer_embedding_params == 0


def test_a_row_without_its_shape_is_refused() -> None:
    with pytest.raises(QuestionError) as caught:
        architecture_of({"model_id": "x", "n_params": 1, "n_layers": 2, "hidden_size": 4})
    assert str(caught.value) == (
        "model 'x': found no width of the MLP, vocabulary size in the catalogue; expected the "
        "figures of its config.json; give that file with --config, or the figures with --params "
        "and --layers, instead of --model"
    )
    with pytest.raises(QuestionError, match="gpu 'x': found no memory size") as refused:
        gpu_of({"gpu_id": "x"})
    assert "such as --vram 64GiB" in str(refused.value)


def test_a_dtype_that_is_not_stated_is_the_cards_16_bit_one(ask: Ask) -> None:
    card = ask("qwen-7b", "v100-sxm2-32gb").gpu
    assert card is not None
    assert card.peak_flops(None) == 125e12
    assert card.peak_flops("bf16") is None
    assert card.peak_flops("fp8") == 125e12  # in 16 bits, as it has no fp8
    assert replace(card, peak_flops_fp8=250e12).peak_flops("fp8") == 250e12
