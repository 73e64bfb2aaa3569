"""Counts of the reader are those of transformers' modules, for every family that it knows.

``make_counted`` wrote them, and with the extra train they are counted anew here.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from registry.catalogue.decoders import DECODERS
from registry.catalogue.encoders import OTHERS
from registry.catalogue.hf_config import linear_modules, parse_hf_config
from registry.catalogue.meta_model import can_build, count_modules, count_on_meta, without_code
from registry.catalogue.towers import TEXT_TYPES, TOWERS

COUNTED: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "catalogue" / "counted.json").read_text("utf-8")
)
KINDS: Final = sorted({row["model_type"] for row in COUNTED})

#: Families whose code is not part of transformers: tests of published configurations hold them.
REMOTE: Final = {
    "qwen",
    "baichuan",
    "internlm",
    "internlm2",
    "chatglm",
    "minicpm",
    "kimi_k2",
    "deepseek",
    "exaone",
    "xverse",
    "mimo",
    "bailing_moe",
    "internvl_chat",
}


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row["model_type"])
def test_the_reader_counts_what_the_modules_hold(row: dict[str, Any]) -> None:
    found = parse_hf_config(row["config"])
    assert found["n_params"] == row["n_params"]
    if "n_active_params" in row:
        assert found["n_active_params"] == row["n_active_params"]


@pytest.mark.parametrize(
    "row", [row for row in COUNTED if "linear_widths" in row], ids=lambda row: row["model_type"]
)
def test_adapters_of_a_rank_have_as_many_parameters_as_the_linear_modules_are_wide(
    row: dict[str, Any],
) -> None:
    found = linear_modules(row["config"])
    assert sum((one.inputs + one.outputs) * one.copies for one in found) == row["linear_widths"]


def test_every_family_that_is_counted_is_held_to_its_modules() -> None:
    inside = set(TEXT_TYPES.values())
    assert len(KINDS) >= 60
    assert {*DECODERS, *OTHERS, *TOWERS} - REMOTE - inside <= {*KINDS}


@pytest.mark.skipif(not can_build(), reason="needs the extra train")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_the_counts_that_ship_are_those_of_the_modules_here(kind: str) -> None:
    first = next(row for row in COUNTED if row["model_type"] == kind)
    shipped = {name: first[name] for name in ("n_params", "n_active_params") if name in first}
    assert count_on_meta(first["config"]) == shipped


def test_what_transformers_does_not_know_is_not_counted() -> None:
    assert count_on_meta({"model_type": "newcomer", "hidden_size": 8}) == {}


@pytest.mark.skipif(not can_build(), reason="needs the extra train")
@pytest.mark.filterwarnings("ignore")
def test_modules_of_other_sizes_than_stated_are_not_counted() -> None:
    original = {"model_type": "llava", "hidden_size": 64, "num_hidden_layers": 2}
    assert count_on_meta(original) == {}  # transformers takes the decoder's from text_config


@pytest.mark.skipif(not can_build(), reason="needs the extra train")
@pytest.mark.filterwarnings("ignore")
def test_whether_embeddings_are_tied_is_the_classes_where_nothing_is_said() -> None:
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = {"model_type": "deberta-v2", **shape, "intermediate_size": 8, "vocab_size": 32}
    assert count_on_meta(config)["tied_embeddings"] is True
    assert "tied_embeddings" not in count_on_meta({**config, "tie_word_embeddings": False})


@pytest.mark.parametrize(("chosen", "active"), [(2, 30), ([2, 2], 30), ([2, 1], None)])
def test_a_token_passes_through_as_many_experts_as_every_layer_chooses(
    chosen: Any, active: int | None
) -> None:
    text = SimpleNamespace(num_experts=4, moe_topk=chosen)
    sizes = {"mlp.experts.up_proj": 40, "embed_tokens.weight": 10}
    model = SimpleNamespace(
        config=SimpleNamespace(get_text_config=lambda: text),
        named_parameters=lambda: [
            (name, SimpleNamespace(numel=lambda size=size: size)) for name, size in sizes.items()
        ],
    )
    assert count_modules(model).get("n_active_params") == active


def test_one_tensor_with_the_matrices_of_all_experts_is_known_by_its_shape() -> None:
    text = SimpleNamespace(num_experts=4, num_experts_per_tok=1)
    shapes = {"mlp.input_linear.weight": (4, 5, 2), "router.weight": (4, 5), "conv": (3, 1, 2)}
    model = SimpleNamespace(
        config=SimpleNamespace(get_text_config=lambda: text),
        named_parameters=lambda: [
            (name, SimpleNamespace(shape=shape, numel=lambda shape=shape: prod(shape)))
            for name, shape in shapes.items()
        ],
    )
    assert count_modules(model) == {"n_params": 66, "n_active_params": 36}


def test_sizes_of_kernels_reach_transformers() -> None:
    stated = {"merge_kernel_size": [2, 3], "pooling_kernel_size": 3, "conv_kernel": 4}
    assert without_code({**stated, "use_kernels": True, "kernel_config": {}}) == stated
