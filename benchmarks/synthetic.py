"""Documents of synthetic observations: as wide, as repetitive and as valid as real ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MODELS = ("llama-2-7b", "llama-2-13b", "qwen-7b")
_GPUS = {"rtx-3090": 24, "a100-sxm4-80gb": 80, "rtx-4090": 24}
_METHODS: tuple[dict[str, Any], ...] = (
    {"method": "lora", "lora_rank": 16, "lora_alpha": 32.0, "lora_target_modules": ["all-linear"]},
    {"method": "lora", "lora_rank": 8, "quant_bits": 4, "quant_type": "nf4"},
    {"method": "lora", "lora_rank": 64, "quant_bits": 8, "quant_type": "int8"},
    {"method": "full"},
)
_SEQ_LENS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


def build_documents(
    n_observations: int, *, per_document: int = 1, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield submissions with that many observations in all.

    About 20 observations share a configuration; one in 50 ran out of memory.
    """
    draw = random.Random(seed)  # noqa: S311 - figures, no secrets
    n_configurations = max(n_observations // 20, 1)
    for start in range(0, n_observations, per_document):
        numbers = range(start, min(start + per_document, n_observations))
        yield {
            "source": {"source_id": "synthetic", "kind": "benchmark"},
            "observations": [_observation(draw, n, n_configurations, seed) for n in numbers],
        }


def _observation(
    draw: random.Random, number: int, n_configurations: int, seed: int
) -> dict[str, Any]:
    configuration = _configuration(draw.randrange(n_configurations))
    is_ok = number % 50 != 0
    gibibytes = round(_GPUS[configuration["gpu_id"]] * draw.uniform(0.2, 0.95), 2)
    measurements: list[dict[str, Any]] = [
        {
            "metric": "peak_memory",
            "kind": "reserved",
            "statistic": "max",
            "value": f"{gibibytes} GiB",
        }
    ]
    if is_ok:
        measurements.append({"metric": "step_time", "value": round(draw.uniform(0.5, 30), 2)})
    return {
        "outcome": "ok" if is_ok else "oom",
        "run_id": f"run-{seed}-{number}",
        "observed_at": f"2024-01-{number % 28 + 1:02d}T12:00:00Z",
        "configuration": configuration,
        "environment": {
            "framework": "transformers",
            "framework_version": f"4.{number % 40}.0",
            "torch_version": "2.5.1",
            "cuda_version": "12.4",
        },
        "measurements": measurements,
        "citations": [
            {
                "locator": f"row {number}",
                "table_title": "Results",
                "row": number + 1,
                "cells": {"row": str(number)},
            }
        ],
    }


def _configuration(number: int) -> dict[str, Any]:
    """Return the configuration of a number; all differ."""
    digits = []
    rest = number
    for radix in (len(_MODELS), len(_GPUS), len(_METHODS), len(_SEQ_LENS), 4, 4):
        rest, digit = divmod(rest, radix)
        digits.append(digit)
    model, gpu, method, length, micro, steps = digits
    return {
        "model_id": _MODELS[model],
        "gpu_id": list(_GPUS)[gpu],
        **_METHODS[method],
        "compute_dtype": "bf16",
        "n_nodes": 1,
        "gpus_per_node": 1,
        "n_gpus": 1,
        "seq_len": _SEQ_LENS[length],
        "length_distribution": "full",
        "micro_batch_size": 2**micro,
        "grad_accum_steps": 2**steps,
        "attention": "flash2",
        "gradient_checkpointing": number % 2 == 0,
        "optimizer": "adamw",
        "n_samples": 1000 + number,
    }


def fill_registry(path: Path, n_observations: int) -> None:
    """Make a registry of folded synthetic observations, 100 in each document."""
    from registry.api import open_registry  # noqa: PLC0415 - the documents alone need no registry
    from registry.store.folder import create_registry  # noqa: PLC0415 - as above

    create_registry(path, curated=False)
    db = open_registry(path)
    db.add_many(build_documents(n_observations, per_document=100, seed=1))
    db.fold()
