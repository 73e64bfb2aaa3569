"""What is asked in words becomes a question, and a command that asks the same."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import pytest

from registry.errors import QuestionError
from registry.predict.asked import (
    Asked,
    ask,
    build_question,
    find_cards,
    parse_number,
    parse_whole,
)
from registry.predict.calibration.unstated import open_settings
from registry.predict.cards import common_gpus
from registry.predict.formula.methods import METHODS
from registry.predict.question import check_question
from registry_cli.commands.fit_command import command

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue

LLAMA = "llama-2-7b"
QUESTIONS = [
    ask(model="llama-2-7b"),
    ask(model="qwen-7b", gpu=["rtx-3090", "a100"], method="qlora", seq_len="4k", batch=3),
    ask(
        model="qwen-7b", vram="15 GiB", targets=("c_attn", "w1"), checkpointing=False,
        packing=True, train_embeddings=True, nodes=2, gpus=4, optimizer_in_backward=False,
    ),
    ask(params="8e9", layers=32, method="full", offload="optimizer", sharding="zero3"),
]  # fmt: skip


@pytest.mark.parametrize("asked", QUESTIONS)
def test_the_command_of_a_question_asks_the_same(asked: Asked, catalogue: Catalogue) -> None:
    words = shlex.split(asked.command())
    assert words[:2] == ["registry", "fit"]
    options = command.make_context("fit", words[2:]).params
    names = set(vars(asked))
    again = Asked(**{name: value for name, value in options.items() if name in names})
    assert build_question(again, catalogue) == build_question(asked, catalogue)
    assert [gpu.gpu_id for gpu in find_cards(again, catalogue)] == [
        gpu.gpu_id for gpu in find_cards(asked, catalogue)
    ]


@pytest.mark.parametrize("gpu", ["v100-32gb", "rtx-2080", "t4"])
def test_a_card_is_old_by_its_generation_where_its_speed_is_not_known(
    catalogue: Catalogue, gpu: str
) -> None:
    asked = ask(model=LLAMA, gpu=gpu, dtype="bf16", attention="flash2")
    told = check_question(build_question(asked, catalogue))
    assert f"{gpu} does not compute in bf16: state --dtype fp16" in told
    assert f"FlashAttention 2 does not run on {gpu}, which is older than Ampere" in told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"GGUF\x03\x00\x00\x00\x80", "found weights (GGUF); expected the model's config.json"),
        (
            b'{"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-2-7b-hf"}',
            (
                "found the configuration of an adapter (LORA); expected the config.json of the "
                "model that it adapts, meta-llama/Llama-2-7b-hf: give that, or --model with its "
                "name"
            ),
        ),
    ],
)
def test_what_lies_beside_a_config_is_told_from_it(
    catalogue: Catalogue, tmp_path: Path, content: bytes, told: str
) -> None:
    path = tmp_path / "beside"
    path.write_bytes(content)
    with pytest.raises(QuestionError) as caught:
        build_question(ask(config=path), catalogue)
    assert str(caught.value) == f"{path}: {told}"


def test_cards_in_one_word_are_told_apart(catalogue: Catalogue) -> None:
    with pytest.raises(QuestionError, match=r"compare cards, say --gpu h100 --gpu a100; or give"):
        build_question(ask(model=LLAMA, gpu="h100,a100"), catalogue)


@pytest.mark.parametrize("bits", [2, 3])
def test_bitsandbytes_is_not_assumed_for_bits_that_it_lacks(
    catalogue: Catalogue, bits: int
) -> None:
    question = build_question(ask(model=LLAMA, quant_bits=bits), catalogue)
    assert not question.bitsandbytes
    (told,) = (one for one in check_question(question) if "--quant-method" in one)
    assert told.endswith(f"as bitsandbytes has no weights of {bits} bits")


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ({}, None),
        ({"method": "qlora"}, "gptq"),
        ({"method": "qlora", "quant_method": "awq"}, "awq"),
        ({"quant_bits": 8}, None),
    ],
)
def test_a_config_says_what_its_weights_were_quantized_by(
    catalogue: Catalogue, tmp_path: Path, words: dict[str, Any], taken: str | None
) -> None:
    path = tmp_path / "config.json"
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "quantization_config": {"quant_method": "gptq", "bits": 4},
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    assert build_question(ask(config=path, **words), catalogue).quant_method == taken


@pytest.mark.parametrize(
    ("words", "bits", "taken"),
    [
        ({"method": "qlora"}, 4, True),
        ({"method": "qlora", "double_quant": False}, 4, False),
        ({"method": "qlora", "quant_method": "gptq"}, 4, None),
        ({"method": "qlora"}, 8, None),
        ({"quant_bits": 8}, 8, None),
        ({}, 4, None),
    ],
)
def test_a_config_says_whether_its_constants_were_quantized_too(
    catalogue: Catalogue, tmp_path: Path, words: dict[str, Any], bits: int, *, taken: bool | None
) -> None:
    path = tmp_path / "config.json"
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "quantization_config": {
            "quant_method": "bitsandbytes",
            f"load_in_{bits}bit": True,
            "bnb_4bit_use_double_quant": True,
        },
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    assert build_question(ask(config=path, **words), catalogue).double_quant is taken


@pytest.mark.parametrize(("words", "told"), [({}, 1), ({"nodes": 2}, 0), ({"gpus": 8}, 0)])
def test_more_cards_than_a_host_has_are_told_to_be_in_one(
    catalogue: Catalogue, words: dict[str, int], told: int
) -> None:
    asked = ask(**{"model": LLAMA, "gpus": 16, "sharding": "zero3", **words})
    found = check_question(build_question(asked, catalogue))
    assert (
        sum("cards without --nodes: the time is that of one host" in one for one in found) == told
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"config": {"model_type": "llama"}},
            "config: found {'model_type': 'llama'}; expected the",
        ),
        ({"config": '{"hidden_size": 4096}' * 99}, 'config \'{"hidden_size": 4096}{"hidden_size'),
        ({"gpu": 5}, "gpu: found 5; expected the name of a card"),
        ({"gpu": ["a100", None]}, "gpu: found null; expected the name of a card"),
        ({"model": LLAMA, "targets": 3}, "targets: found 3; expected the names of modules"),
        ({"model": LLAMA, "targets": [3]}, "targets: found [3]; expected the names of modules"),
        ({"params": 8e9, "layers": "x"}, "layers: found 'x'; expected a whole number such as"),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(
    catalogue: Catalogue, words: dict[str, Any], message: str
) -> None:
    with pytest.raises(QuestionError) as caught:
        build_question(ask(**words), catalogue)
    assert str(caught.value).startswith(message)


def test_layers_may_be_written_as_text(catalogue: Catalogue) -> None:
    asked = ask(params="8e9", layers="32", hidden="4k")
    assert build_question(asked, catalogue).model.hidden_size == 4096


@pytest.mark.parametrize(("name", "warned"), [("fsdp1", 0), ("fsdp2", 2), ("fully_shard", 2)])
def test_both_generations_of_fsdp_are_computed_alike(
    catalogue: Catalogue, name: str, warned: int
) -> None:
    stated = {"method": "qlora", "quant_method": "bitsandbytes", "sharding": "fsdp"}
    plain = ask(model="llama-2-7b", gpus=4, **stated)
    asked = replace(plain, sharding=name)
    question = build_question(asked, catalogue)
    assert question.changed(fsdp_version=None) == build_question(plain, catalogue)
    found = check_question(question)
    assert len(found) == warned
    if warned:
        assert "FSDP 2 is computed as FSDP" in found[0]
        assert "bnb_4bit_quant_storage" in found[1]
    assert f"--sharding {name}" in asked.command()


@pytest.mark.parametrize("name", ["fsdp1", "fsdp2", "fully_shard"])
def test_a_change_that_shards_keeps_the_generation_of_fsdp_that_was_asked_for(name: str) -> None:
    asked = Asked(model="llama-2-7b", gpus=4, sharding=name)
    assert asked.having({"n_gpus": 8, "sharding": "fsdp"}) == replace(asked, gpus=8)
    assert asked.having({"sharding": "zero3"}).sharding == "zero3"
    assert asked.having({"sharding": None}).sharding is None


def test_each_field_is_an_option_of_the_command() -> None:
    options = {one.name for one in command.params if isinstance(one, click.Option)}
    assert set(vars(Asked())) <= options


def test_settings_of_a_question_change_what_is_asked() -> None:
    asked = ask(model="qwen-7b", method="full", batch=4, param_dtype="fp32")
    changed = asked.having(
        {"method": "lora", "micro_batch_size": 1, "param_dtype": None, "trainable_params": None}
    )
    assert changed == ask(model="qwen-7b", batch=1)


def test_a_config_is_a_file_a_folder_or_a_model(catalogue: Catalogue, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 99,
        "num_hidden_layers": 2, "num_attention_heads": 4,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    of_file = build_question(ask(config=tmp_path / "config.json"), catalogue)
    of_folder = build_question(ask(config=tmp_path), catalogue)
    assert of_file.model.n_params == of_folder.model.n_params > 0
    of_name = build_question(ask(config="meta-llama/Llama-2-7b-hf"), catalogue)
    assert of_name == build_question(ask(model="llama-2-7b"), catalogue)


def test_what_a_config_leaves_to_its_family_is_told(catalogue: Catalogue, tmp_path: Path) -> None:
    config = {"model_type": "qwen3", "hidden_size": 2304, "num_hidden_layers": 30}
    config |= {"quantization_config": {"load_in_4bit": True}}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    question = build_question(ask(config=tmp_path), catalogue)
    (unstated,) = question.model.taken
    assert unstated == (
        "does not state its intermediate_size 22016, vocab_size 151936, num_attention_heads 32: "
        "taken from transformers' class for qwen3"
    )
    said = check_question(question)
    assert said[0] == f"{tmp_path}: {unstated}"
    assert said[1].startswith(f"{tmp_path}: its weights are stored in 4 bits (quantization_config)")
    in_bits = check_question(build_question(ask(config=tmp_path, method="qlora"), catalogue))
    assert not any("stored in 4 bits" in one for one in in_bits)


def test_what_figures_by_hand_leave_open_is_told(catalogue: Catalogue) -> None:
    asked = ask(params="2.1B", layers=30)
    question = build_question(asked, catalogue)
    (taken,) = question.model.taken
    assert taken.startswith("a hidden size of 2,304 is assumed, as in llama; give --hidden")
    assert "vocab_size" in open_settings(question)
    stated = build_question(replace(asked, hidden=2304, vocab=151_936), catalogue)
    assert stated.model.taken == ()
    assert "vocab_size" not in open_settings(stated)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "found no model; expected one of --model ID, --config FILE, or --params and --layers"),
        ({"model": "a", "params": 8e9}, "found --model and --params; expected one of --model ID"),
        ({"config": "nowhere.json"}, "config 'nowhere.json': found no such file, folder or model;"),
        ({"model": "qwen-7b", "method": "lorra"}, "method: found 'lorra'; did you mean 'lora'?;"),
        ({"model": "qwen-7b", "gpu": "t4", "vram": "9GiB"}, "found --gpu and --vram; expected one"),
        ({"model": "qwen-7b", "vram": "9"}, "vram: found '9', expected an amount of memory"),
        ({"model": "qwen-7b", "vram": "0GiB"}, "vram: found '0GiB'; expected the memory of a card"),
        ({"model": "qwen-7b", "seq_len": "4q"}, "seq_len: found '4q'; expected a whole number"),
        ({"params": "2.1", "layers": 30}, "params: found '2.1'; expected the parameters of a deco"),
        ({"params": "8e9"}, "--params needs --layers; or give --config config.json"),
        ({"model": "qwen-7b", "layers": 20}, "found --layers without --params; expected them to"),
        ({"model": "qwen-7b", "method": "dpo"}, "method: found 'dpo', which is an objective: "),
        ({"model": "qwen-7b", "quant_method": "awq"}, "quant_method awq: found no bits; expected"),
        ({"model": "qwen-7b", "param_dtype": "fp8"}, "param_dtype fp8: found a format of products"),
        (
            {"params": "7B", "layers": 32, "hidden": 100_000},
            "32 layers of a hidden size of 100,000 have 640 B parameters or more; found",
        ),
        (
            {"model": "llama-2-7b", "targets": "q_porj,v_proj"},
            "targets: found 'q_porj'; did you mean 'q_proj'?; expected all-linear, or ",
        ),
        (
            {"model": "llama-2-7b", "targets": "all_linear"},
            "targets: found 'all_linear'; did you mean 'all-linear'?; expected all-",
        ),
        (
            {"model": "qwen-7b", "targets": "q_proj"},
            "targets: found 'q_proj'; did you mean 'c_proj'?; expected all-linear, or ",
        ),
        (
            {"model": "deepseek-v3", "targets": "o_proj,v_proj"},
            "targets: found 'v_proj'; did you mean 'q_proj'?; expected all-linear, or ",
        ),
        (
            {"model": "llama-2-7b", "targets": " ,"},
            "targets: found ' ,'; expected modules such as ",
        ),
        (
            {"model": "llama-2-7b", "targets": ""},
            "targets: found ''; expected modules such as q_pr",
        ),
        ({"params": "1e60", "layers": 32}, "params: found '1e60'; expected the parameters of a de"),
        (
            {"model": "llama-2-7b", "quant_bits": 3, "quant_method": "bitsandbytes"},
            "quant_bits 3 with quant_method bitsandbytes: it stores weights in 4 or 8 bits; expec",
        ),
        (
            {"model": "llama-2-7b", "method": "full", "gpus": 3, "tensor_parallel": 3},
            "tensor_parallel 3: found 32 attention heads, which so many devices cannot share even",
        ),
        (
            {"model": "llama-2-7b", "gpus": 2, "tensor_parallel": 2, "sharding": "zero3"},
            "tensor_parallel 2 with method lora: no measured run verifies its memory, so it is not",
        ),
        (
            {"model": "mixtral-8x7b", "targets": "lm_head,all-linear"},
            "targets: found all-linear together with lm_head; expected it alone",
        ),
    ],
)
def test_what_is_not_known_is_refused(
    catalogue: Catalogue, words: dict[str, str], message: str
) -> None:
    with pytest.raises(QuestionError) as caught:
        build_question(ask(**words), catalogue)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("method", METHODS)
def test_a_rank_is_taken_where_it_changes_what_is_trained(
    catalogue: Catalogue, method: str
) -> None:
    plain = build_question(ask(model="llama-2-7b", method=method), catalogue)
    trained = {plain.changed(lora_rank=rank).adapter_params for rank in (8, 64)}
    asked = ask(model="llama-2-7b", method=method, lora_rank=64)
    if len(trained) > 1:
        assert build_question(asked, catalogue).lora_rank == 64
        return
    with pytest.raises(QuestionError, match=f"lora_rank with method {method}: it has no "):
        build_question(asked, catalogue)


@pytest.mark.parametrize(
    ("model", "targets", "same"),
    [
        ("llama-2-7b", "self_attn.q_proj,mlp.down_proj", "q_proj,down_proj"),
        ("llama-2-7b", "model.layers.0.self_attn.q_proj", "q_proj"),
        ("llama-2-7b", "All-Linear", "all-linear"),
        ("qwen-7b", "attn.c_proj,mlp.c_proj,w1", "c_proj,w1"),
    ],
)
def test_modules_are_told_by_their_last_name(
    catalogue: Catalogue, model: str, targets: str, same: str
) -> None:
    found, plain = (
        build_question(ask(model=model, targets=each), catalogue) for each in (targets, same)
    )
    assert found.adapter_params == plain.adapter_params
    assert found.targeted == plain.targeted


def test_a_path_tells_two_modules_of_one_name_apart(catalogue: Catalogue) -> None:
    found = [
        sorted(build_question(ask(model="qwen-7b", targets=each), catalogue).targeted or ())
        for each in ("mlp.c_proj", "c_proj")
    ]
    assert found == [["down_proj"], ["down_proj", "o_proj"]]


def test_a_folder_without_a_config_is_refused(catalogue: Catalogue, tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="found a folder without config"):
        build_question(ask(config=tmp_path), catalogue)


@pytest.mark.parametrize("text", ["4q", "", "1.5", "-3", "1e-2", "k", "1e400", "nan"])
def test_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(QuestionError, match="expected a whole number such as 4096, 4k or 1e4"):
        parse_whole(text, "seq_len")


@pytest.mark.parametrize("number", [0, "0", -3, "-3", -2.5])
def test_a_count_is_above_0(catalogue: Catalogue, number: object) -> None:
    with pytest.raises(QuestionError, match=f"^batch: found {number!r}; expected a whole number a"):
        build_question(ask(model="qwen-7b", batch=number), catalogue)


@pytest.mark.parametrize("bits", [-4, "four", 5])
def test_bits_that_there_are_none_of_are_refused_with_those_that_there_are(
    catalogue: Catalogue, bits: object
) -> None:
    with pytest.raises(QuestionError, match=f"found {bits!r}; expected 2, 3, 4 or 8, or nothing"):
        build_question(ask(model="qwen-7b", quant_bits=bits), catalogue)


def test_a_config_that_is_no_json_is_told_so(catalogue: Catalogue, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(QuestionError, match=r"config\.json: found no JSON \(.*\); expected a conf"):
        build_question(ask(config=path), catalogue)


@pytest.mark.parametrize("mean", [0, -5, float("nan"), float("inf"), "many", True])
def test_no_mean_is_refused(catalogue: Catalogue, mean: object) -> None:
    with pytest.raises(QuestionError, match=f"^mean_tokens: found {mean!r}; expected a number abo"):
        build_question(ask(model="qwen-7b", mean_tokens=mean), catalogue)


def test_a_mean_is_read_as_other_sizes_are(catalogue: Catalogue) -> None:
    means = [
        build_question(ask(model="qwen-7b", mean_tokens=text), catalogue).mean_tokens
        for text in ("500", "1k", 850.5)
    ]
    assert means == [500.0, 1024.0, 850.5]


def test_numbers_are_read_as_people_write_them() -> None:
    assert [parse_whole(text, "x") for text in ("4k", "0.5k", "1e4", 7)] == [4096, 512, 10_000, 7]
    assert parse_whole("10k", "samples", thousand=1000) == 10_000
    assert [parse_number(text, "x") for text in ("8B", "1.5b", "70e9", 3)] == [8e9, 1.5e9, 7e10, 3]


def test_common_cards_are_those_whose_figures_somebody_read(catalogue: Catalogue) -> None:
    common = {gpu.gpu_id for gpu in common_gpus(catalogue)}
    assert {"rtx-3090", "t4", "a100-80gb", "h100-sxm5-80gb", "mi300x"} <= common
    assert "a100-pcie-80gb" not in common  # a100-80gb stands for it
    assert "h100-80gb" not in common  # its kinds differ in speed
    assert all(catalogue.gpus[name].get("verified") is not False for name in common)
