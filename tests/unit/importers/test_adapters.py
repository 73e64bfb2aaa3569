from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.importers import ImportOptions
from registry.importers.shared.draft import Draft, find_other_count

if TYPE_CHECKING:
    from registry.catalogue import Catalogue

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SETTINGS = {
    "model_id": "llama-3.2-1b",
    "method": "lora",
    "lora_rank": 16,
    "lora_target_modules": ALL,
}


@pytest.mark.parametrize(
    ("changes", "is_other"),
    [
        ({}, True),
        ({"model_id": "llama-3.2-3b"}, False),
        ({"peft_config": {"bias": "none", "init_lora_weights": True}}, True),
        ({"peft_config": {"init_lora_weights": "mica"}}, False),
        ({"method": "dora"}, False),
        ({"trains_embeddings": True}, False),
        ({"lora_rank": None}, False),
        ({"lora_rank": [16]}, False),
        ({"lora_rank": "16"}, False),
        ({"lora_rank": float("nan")}, False),
        ({"model_id": "gpt-oss-20b"}, False),
        ({"model_id": "of-nobody"}, False),
    ],
    ids=str,
)
def test_only_plain_adapters_of_a_dense_model_are_counted(
    catalogue: Catalogue, changes: dict[str, Any], *, is_other: bool
) -> None:
    draft = Draft(configuration=SETTINGS | changes)
    draft.measure("trainable_params", 24_313_856)
    found = find_other_count(draft, ImportOptions(catalogue=catalogue))
    assert (found is not None) == is_other
