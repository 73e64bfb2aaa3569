"""The tracker against memory that the kernel counted, for steps that were really trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from registry.measure.trial_settings import Settings
from registry.predict.dryrun import Recipe, dry_run

for package in ("torch", "transformers", "peft"):
    pytest.importorskip(package, exc_type=ImportError)

#: What libraries keep for themselves is in the kernel's figure: about 8 MB of the 310 MB at least.
BOUND = 0.035

SHAPE: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 8000,
    "tie_word_embeddings": False,
}
#: By family, what it has besides.
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "gemma2": {"head_dim": 64},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("qwen2", {"method": "full", "dtype": "fp32"}),
    "lora in bf16": ("qwen2", {"lora_rank": 16, "lora_dropout": 0.1}),
    "lora, checkpointed": (
        "qwen2",
        {"lora_rank": 16, "dtype": "fp32", "gradient_checkpointing": True},
    ),
    "gemma-2, eager": ("gemma2", {"dtype": "fp32", "attention": "eager"}),
    "mixtral in fp32, full": ("mixtral", {"method": "full", "dtype": "fp32"}),
}
BATCH: dict[str, Any] = {"seq_len": 512, "micro_batch_size": 4}


def source(family: str) -> dict[str, Any]:
    return {"kind": "config", "config": {"model_type": family, **SHAPE, **FAMILIES[family]}}


def start(family: str, settings: dict[str, Any]) -> subprocess.Popen[str]:
    spec = {"settings": {"model": "small", **BATCH, **settings}, "model": source(family)}
    at_once = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    at_once["MKL_DISABLE_FAST_MM"] = (
        "1"  # else MKL keeps buffers as large as the processor's kernels
    )
    script = Path(__file__).with_name("cpu_step.py")
    return subprocess.Popen(
        [sys.executable, str(script), json.dumps(spec)],
        env={**os.environ, **at_once, "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_live_storage_is_what_the_kernel_counts() -> None:
    children = {name: start(*case) for name, case in CASES.items()}
    recipe = Recipe(device="cpu", outputs_fp32=False)
    errors = {}
    for name, child in children.items():
        family, stated = CASES[name]
        found = dry_run(Settings("small", **BATCH, **stated), source(family), recipe=recipe)
        output, _ = child.communicate(timeout=1_500)
        errors[name] = found.peak_allocated_bytes / json.loads(output)["peak"] - 1
    assert all(abs(error) < BOUND for error in errors.values()), errors
