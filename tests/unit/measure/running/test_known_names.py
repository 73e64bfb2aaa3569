"""Names of methods and modules that plans are held against are those of PEFT and transformers."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from registry.catalogue.linear import LINEAR
from registry.catalogue.meta_model import build_on_meta
from registry.catalogue.module_names import (
    ENDS,
    FUSED_AND_ADAPTED,
    MODULE_NAMES,
    known_modules,
)
from registry.contract import vocabulary
from registry.measure.running.methods import installed_methods, known_methods
from tests.unit.catalogue.varied import VARIED

SHAPE = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}


@pytest.mark.parametrize("kind", MODULE_NAMES)
def test_a_decoders_matrices_have_the_names_that_transformers_gives_them(kind: str) -> None:
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **SHAPE)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    found = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if getattr(module, "weight", None) is not None and module.weight.dim() == 2
    }
    assert found - set(ENDS) == set(MODULE_NAMES[kind])


def test_peft_adapts_the_fused_experts_of_the_families_that_it_converts() -> None:
    pytest.importorskip("peft", minversion="0.21")
    conversion = importlib.import_module("peft.utils.transformers_weight_conversion")
    converted: dict[str, str] = conversion._MODEL_TO_CONVERSION_PATTERN
    for kind in FUSED_AND_ADAPTED - {"kimi_k2"}:  # DeepSeek-V3's layout, of no class of its own
        assert converted.get(kind, kind) in conversion._MOE_FUSED_TARGETS


@pytest.mark.parametrize("rank", [None, 8])
@pytest.mark.parametrize("kind", ["deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3"])
def test_latent_attention_has_the_names_that_transformers_gives_it(
    kind: str, rank: int | None
) -> None:
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(kind, **SHAPE, q_lora_rank=rank)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    linear = torch.nn.Linear
    found = {name for name, module in model.named_modules() if isinstance(module, linear)}
    assert {name.rpartition(".")[2] for name in found} - set(ENDS) <= {*known_modules(kind)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [*LINEAR, "qwen3_5", "qwen3_5_moe", "llama4", "glm4v", "glm46v"])
def test_linear_modules_are_known_by_their_names(kind: str) -> None:
    torch: Any = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    for config in VARIED.get(kind, ()) if known_modules(kind) else ():
        model = build_on_meta({"model_type": kind, **config})
        linear = torch.nn.Linear
        found = {name for name, module in model.named_modules() if isinstance(module, linear)}
        assert {name.rpartition(".")[2] for name in found} - set(ENDS) <= {*known_modules(kind)}


def test_the_methods_of_the_installed_peft_are_read_without_loading_it() -> None:
    pytest.importorskip("peft")
    peft = importlib.import_module("peft")
    assert set(installed_methods()) == {str(kind.value).lower() for kind in peft.PeftType}


def test_known_methods_are_words_of_the_contract() -> None:
    known = known_methods()
    assert {"full", "lora", "dora", "ia3", "vera"} <= set(known) <= set(vocabulary("method"))
    assert not {"freeze", "galore", "other", "unknown"} & set(known)
    pytest.importorskip("peft")
    beside = set(known) - set(installed_methods())
    assert beside == {"full", "dora", "bone"}, "bone: until PEFT 0.18"
