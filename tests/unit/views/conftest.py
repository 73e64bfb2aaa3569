"""A tiny registry whose views can be computed by hand."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import registry
from registry.contract import view_names
from registry.store.folder import create_registry

if TYPE_CHECKING:
    import pyarrow as pa

    from registry import Registry

    Views = dict[str, pa.Table]

CONFIGURATION = {
    "model_id": "llama-2-7b",
    "method": "lora",
    "quant_method": "bitsandbytes",
    "quant_bits": 4,
    "quant_type": "nf4",
    "gpu_id": "rtx-3090",
    "n_gpus": 1,
    "seq_len": 512,
    "length_distribution": "full",
    "micro_batch_size": 2,
    "grad_accum_steps": 4,
}


def peak(value: float | str, **rest: Any) -> dict[str, Any]:
    return {"metric": "peak_memory", "statistic": "max", "kind": "device", "value": value, **rest}


def step_time(value: float, **rest: Any) -> dict[str, Any]:
    return {"metric": "step_time", "value": value, **rest}


def observation(*measurements: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """Return an observation; ``configuration`` states what differs from the common one."""
    configuration = {**CONFIGURATION, **rest.pop("configuration", {})}
    return {
        "outcome": "ok",
        "configuration": configuration,
        "measurements": list(measurements),
        **rest,
    }


def two_gpus(**rest: Any) -> dict[str, Any]:
    return {"n_gpus": 2, "n_nodes": 1, "gpus_per_node": 2, "sharding": "zero2", **rest}


OBSERVATIONS = [
    # The same setting at three lengths: fits, fits, out of memory.
    observation(
        peak(8e9, low=7.5e9, high=8.5e9, raw="8G", unit_reported="G"),
        peak(6e9, kind="reserved"),
        step_time(2.0, statistic="median"),
        step_time(9.0, statistic="mean"),
        environment={"framework": "ms-swift", "torch_version": "2.5.1"},
        run_id="first",
        inferences={"seq_len": "the title says so", "n_gpus": "one card is named"},
        citations=[
            {"locator": "table 1, row 1", "row": 1, "cells": {"mem": "8G"}},
            {"locator": "table 2, row 4", "row": 4, "cells": {"mem": "8 G"}},
        ],
    ),
    observation(peak(10e9), step_time(4.0), configuration={"seq_len": 1024}),
    observation(outcome="oom", configuration={"seq_len": 2048}, flags=["short_run"]),
    # The first again, a tenth slower, and less memory within two per cent.
    observation(
        peak(7.9e9),
        step_time(2.2, statistic="median"),
        environment={"framework": "ms-swift", "torch_version": "2.5.1"},
        run_id="second",
    ),
    # Twice the GPUs, not twice the speed; memory per card.
    observation(
        peak(9e9, scope="per_gpu", device_index=0),
        peak(7e9, scope="per_gpu", device_index=1),
        step_time(2.5),
        configuration=two_gpus(),
        environment={"framework": "ms-swift", "torch_version": "2.5.1"},
    ),
    # What is known of the whole run only, its figures three per cent apart.
    observation(
        {"metric": "total_time", "value": 100.0},
        {"metric": "samples_per_second", "value": 10.3},
        {"metric": "trainable_params", "value": 33_550_000},
        configuration={
            "method": "full",
            "quant_bits": None,
            "quant_type": None,
            "quant_method": None,
            "n_samples": 1000,
            "n_epochs": 1,
            "gpu_id": None,
            "seq_len": None,
            "n_gpus": None,
        },
    ),
    observation(outcome="not_run", evidence="claimed", configuration={"seq_len": 4096}),
]


@pytest.fixture(scope="session")
def pending(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """Return the registry with all its rows in the journal."""
    folder = create_registry(tmp_path_factory.mktemp("pending") / "registry", curated=False)
    opened = registry.open(folder.path)
    opened.add({"source": {"source_id": "tiny", "kind": "run"}, "observations": OBSERVATIONS})
    return opened


@pytest.fixture(scope="session")
def db(pending: Registry, tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """Return the registry with all its rows in the tables."""
    path = tmp_path_factory.mktemp("folded") / "registry"
    shutil.copytree(pending.path, path)
    opened = registry.open(path)
    opened.fold()
    return opened


def _load_views(opened: Registry) -> Views:
    return {name: opened.query(f"from {name} order by all").arrow() for name in view_names()}


@pytest.fixture(scope="session")
def views(db: Registry) -> Views:
    """Return the rows of every view, of folded rows."""
    return _load_views(db)


@pytest.fixture(scope="session")
def pending_views(pending: Registry) -> Views:
    """Return the rows of every view, of pending rows."""
    return _load_views(pending)
