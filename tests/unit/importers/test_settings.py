from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.importers.base import ImportOptions
from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.grouping import run_of
from registry.importers.shared.loading import load_file
from registry.importers.shared.shapes import number_of
from registry.importers.shared.training_arguments import (
    state_adapter,
    state_optimizer,
    state_quantization,
    state_training_arguments,
    state_upcast_weights,
)

if TYPE_CHECKING:
    from registry.catalogue import Catalogue


def stated(args: dict[str, Any]) -> dict[str, Any]:
    draft = Draft()
    state_training_arguments(draft, args)
    return draft.configuration


@pytest.mark.parametrize(
    ("args", "sharding"),
    [
        ({"deepspeed": {"zero_optimization": {"stage": 3}}}, "zero3"),
        ({"deepspeed": "/home/me/ds_z2_config.json"}, "zero2"),
        ({"deepspeed": "zero3_offload.json"}, "zero3"),
        ({"deepspeed": "mine.json"}, None),
        ({"fsdp": ["full_shard", "auto_wrap"]}, "fsdp"),
        ({"fsdp": "shard_grad_op"}, "fsdp_grad_op"),
        ({"fsdp": []}, None),
    ],
)
def test_sharding_is_read_off_deepspeed_and_fsdp(
    args: dict[str, Any], sharding: str | None
) -> None:
    assert stated(args).get("sharding") == sharding


@pytest.mark.parametrize(
    ("settings", "held"),
    [
        ({}, "fp32"),
        ({"sharding": "fsdp_grad_op"}, "fp32"),
        ({"compute_dtype": None}, "bf16"),
        ({"method": "lora"}, "bf16"),
        ({"sharding": "zero3"}, "bf16"),
    ],
)
def test_accelerate_holds_what_fsdp_trains_in_mixed_precision_in_fp32(
    settings: dict[str, Any], held: str
) -> None:
    draft = Draft()
    trained = {"method": "full", "sharding": "fsdp", "compute_dtype": "bf16"}
    draft.configuration.update(trained | {"param_dtype": "bf16"} | settings)
    state_upcast_weights(draft)
    assert draft.configuration["param_dtype"] == held


def test_training_arguments_after_a_method_say_that_fsdp_holds_fp32() -> None:
    draft = Draft()
    draft.state("method", "full")
    state_training_arguments(draft, {"fsdp": "full_shard", "bf16": True})
    assert draft.configuration["param_dtype"] == "fp32"
    assert "accelerate" in draft.inferences["param_dtype"]


def test_a_deepspeed_file_is_named_without_its_folder() -> None:
    draft = Draft()
    state_training_arguments(draft, {"deepspeed": "/home/me/ds_z3.json"})
    assert draft.inferences["sharding"] == "name of the DeepSpeed file ds_z3.json"


@pytest.mark.parametrize(
    "path",
    [
        r"C:\Users\me\models\Llama-2-7b",
        r"..\models\Llama-2-7b",
        "D:/models/Llama-2-7b",
        "D:/Llama-2-7b",
        "/home/me/Llama-2-7b",
    ],
)
def test_a_model_is_named_without_the_folders_that_it_lies_in(
    path: str, catalogue: Catalogue
) -> None:
    draft = Draft()
    state_model(draft, [path], ImportOptions(catalogue=catalogue))
    assert draft.configuration["model_id"] == "llama-2-7b"
    assert draft.observation["model_reported"] == "Llama-2-7b"


def test_steps_win_over_epochs_where_both_are_written() -> None:
    assert stated({"max_steps": 100, "num_train_epochs": 3.0}) == {"n_steps": 100}
    assert stated({"max_steps": -1, "num_train_epochs": 3.0}) == {"n_epochs": 3.0}


@pytest.mark.parametrize(
    ("name", "word"),
    [("adamw_bnb_8bit", "adamw_8bit"), ("paged_adamw", "paged_adamw_32bit"), ("apollo", "other")],
)
def test_optimizers_have_one_word_each(name: str, word: str) -> None:
    draft = Draft()
    state_optimizer(draft, name)
    assert draft.configuration["optimizer"] == word
    assert draft.provenance == ({"optimizer": name} if word == "other" else {})


def test_eight_bits_of_bitsandbytes_have_no_four_bit_type() -> None:
    draft = Draft()
    state_quantization(draft, method="bnb", bits=8, kind="nf4", double=True)
    assert draft.configuration == {
        "quant_method": "bitsandbytes",
        "quant_bits": 8,
        "quant_type": "int8",
    }


def test_trained_embeddings_are_modules_to_save() -> None:
    draft = Draft()
    state_adapter(draft, {"peft_type": "LORA", "r": 8, "modules_to_save": ["embed_tokens"]})
    assert draft.configuration["trains_embeddings"] is True


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("4.851", 4.851),
        ("1e-05", 1e-05),
        ("0", 0.0),
        ("4,851", None),
        ("1.2.3", None),
        (True, None),
    ],
)
def test_numbers_that_stand_as_text_are_read(value: Any, number: float | None) -> None:
    assert number_of(value) == number


@pytest.mark.parametrize(
    ("path", "run"),
    [
        ("out/trainer_state.json", ("out", "")),
        ("out/checkpoint-500/trainer_state.json", ("out", "")),
        ("mistral.all_results.json", (".", "mistral")),
        ("mistral_checkpoint_1000.trainer_state.json", (".", "mistral")),
        ("qwen2.5_7b_qlora.medical_full.yaml", (".", "qwen2.5_7b_qlora")),
    ],
)
def test_a_run_is_a_folder_and_a_prefix(path: str, run: tuple[str, str]) -> None:
    assert run_of(Path(path)) == run


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.log", '{"a": 1}\n{"a": 2}\n', "jsonl"),
        ("a.jsonl", '{"a": 1}\n', "jsonl"),
        ("a.txt", '{"a": [1,\n 2]}', "json"),
        ("a.json", "{broken", "text"),
        ("a.yaml", "a: 1\n", "yaml"),
        ("a.csv", "a,b\n1,2\n", "csv"),
    ],
)
def test_the_kind_of_a_file_is_what_it_holds(
    tmp_path: Path, name: str, text: str, kind: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    loaded = load_file(path)
    assert getattr(loaded, "kind", None) == kind


def test_a_file_longer_than_any_log_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.importers.shared.loading.LARGEST_LOG", 10)
    path = tmp_path / "a.log"
    path.write_text("x" * 11, encoding="utf-8")
    assert load_file(path) == (path, "longer than 10 bytes; expected a log below that; split it")
