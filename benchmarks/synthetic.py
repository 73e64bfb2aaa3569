"""Whole tables of synthetic observations: as wide, as repetitive and as valid as real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from registry.bulk_identity import figures_hashes, row_ids

from registry.contract.arrow import rows_table, sorted_table, table_schema

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]

SOURCE_ID = "synthetic"
GIB = 2**30

_MODELS = [
    ("llama-2-7b", 6_738_415_616),
    ("llama-2-13b", 13_015_864_320),
    ("qwen-7b", 7_721_324_544),
]
_GPUS = [("rtx-3090", 24 * GIB), ("a100-sxm4-80gb", 80 * GIB), ("rtx-4090", 24 * GIB)]
_METHODS = [("lora", None, None), ("lora", 4, "nf4"), ("lora", 8, "int8"), ("full", None, None)]
_SEQ_LENS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_MODULES = (["q_proj", "v_proj"], ["k_proj", "o_proj", "q_proj", "v_proj"], ["all-linear"])
_N_ENVIRONMENTS = 40


def synthetic_tables(n: int, *, seed: int = 0) -> dict[str, pa.Table]:
    """Return the tables of ``n`` observations, sorted by key.

    About ``n / 20`` distinct configurations, one citation each, three measurements of each that
    went well (49 in 50) and one of each that ran out of memory.
    """
    rng = np.random.default_rng(seed)
    configurations = _configurations(max(n // 20, 1))
    environments = _environments()
    chosen = rng.integers(0, configurations.num_rows, n)
    is_ok = np.arange(n) % 50 != 0
    settings = configurations.take(chosen)
    places, figures = _measurements(rng, settings, is_ok)
    ordinals = pa.array([f"{number:032x}" for number in range(n)])
    keyed = figures.set_column(0, _field("measurements", 0), ordinals.take(places))
    hashes = figures_hashes(ordinals, keyed)
    observations = _observations(rng, settings, environments, is_ok, hashes)
    ids = observations.column("observation_id").combine_chunks()
    measurements = figures.set_column(0, _field("measurements", 0), ids.take(places))
    tables = {
        "models": _models(),
        "gpus": _gpus(),
        "sources": rows_table("sources", [{"source_id": SOURCE_ID, "kind": "benchmark"}]),
        "environments": environments,
        "configurations": configurations,
        "observations": observations,
        "measurements": measurements,
        "citations": _citations(ids),
    }
    return {name: sorted_table(name, table) for name, table in tables.items()}


def _field(table: str, index: int) -> pa.Field:
    return table_schema(table).field(index)


def _models() -> pa.Table:
    rows = [{"model_id": name, "n_params": size} for name, size in _MODELS]
    return rows_table("models", rows)


def _gpus() -> pa.Table:
    return rows_table("gpus", [{"gpu_id": name, "memory_bytes": size} for name, size in _GPUS])


def _table(name: str, rows: int, columns: dict[str, Any]) -> pa.Table:
    """Return a table of the contract; columns that are not given are null."""
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(rows, field.type)
        for field in table_schema(name)
    ]
    return pa.table(arrays, schema=table_schema(name))


def _identified(name: str, rows: int, columns: dict[str, Any]) -> pa.Table:
    """Return a table that is keyed by its content."""
    table = _table(name, rows, {table_schema(name).names[0]: [""] * rows, **columns})
    return table.set_column(0, table_schema(name).field(0), row_ids(name, table))


def _pick(values: Any, index: Integers) -> pa.Array:
    return pa.array(list(values)).take(pa.array(index))


def _configurations(n: int) -> pa.Table:
    rest: Integers = np.arange(n)
    digits = []
    for radix in (len(_MODELS), len(_GPUS), len(_METHODS), len(_SEQ_LENS), 3, 4, 4, 6, 3):
        digits.append(rest % radix)
        rest = rest // radix
    model, gpu, method, length, modules, micro, steps, rank, per_node = digits
    is_lora = pa.array(np.array([name == "lora" for name, _, _ in _METHODS])[method])
    micro_batch, accumulation, n_gpus = 2**micro, 2**steps, 2**per_node
    sharding = pc.if_else(pa.array(n_gpus > 1), "zero2", pa.scalar(None, pa.string()))
    columns = {
        "model_id": _pick([name for name, _ in _MODELS], model),
        "method": _pick([name for name, _, _ in _METHODS], method),
        "quant_bits": _pick([bits for _, bits, _ in _METHODS], method),
        "quant_type": _pick([kind for _, _, kind in _METHODS], method),
        "compute_dtype": ["bf16"] * n,
        "lora_rank": _only(is_lora, pa.array(4 * 2**rank)),
        "lora_alpha": _only(is_lora, pa.array(8.0 * 2.0**rank)),
        "lora_target_modules": _only(is_lora, _pick(_MODULES, modules)),
        "gpu_id": _pick([name for name, _ in _GPUS], gpu),
        "n_nodes": np.ones(n, dtype=np.int64),
        "gpus_per_node": n_gpus,
        "n_gpus": n_gpus,
        "sharding": sharding,
        "seq_len": _pick(_SEQ_LENS, length),
        "length_distribution": ["full"] * n,
        "micro_batch_size": micro_batch,
        "grad_accum_steps": accumulation,
        "global_batch_size": micro_batch * accumulation * n_gpus,
        "attention": ["flash2"] * n,
        "gradient_checkpointing": pa.array(np.arange(n) % 2 == 0),
        "optimizer": ["adamw"] * n,
        "n_samples": 1000 + np.arange(n),  # tells all of them apart
    }
    return _identified("configurations", n, columns)


def _only(mask: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(mask, values, pa.scalar(None, values.type))


def _environments() -> pa.Table:
    n = _N_ENVIRONMENTS
    columns = {
        "framework": ["transformers"] * n,
        "framework_version": [f"4.{number}.0" for number in range(n)],
        "torch_version": ["2.5.1"] * n,
        "cuda_version": ["12.4"] * n,
    }
    return _identified("environments", n, columns)


def _observations(
    rng: np.random.Generator,
    settings: pa.Table,
    environments: pa.Table,
    is_ok: npt.NDArray[np.bool_],
    hashes: pa.Array,
) -> pa.Table:
    n = settings.num_rows
    numbers = pa.array(np.arange(n)).cast(pa.string())
    environment = rng.integers(0, environments.num_rows, n)
    columns = {
        "configuration_id": settings.column("configuration_id").combine_chunks(),
        "environment_id": environments.column("environment_id").combine_chunks().take(environment),
        "source_id": [SOURCE_ID] * n,
        "outcome": pc.if_else(pa.array(is_ok), "ok", "oom"),
        "evidence": ["measured"] * n,
        "observed_at": pa.array(1_700_000_000_000_000 + np.arange(n) * 60_000_000),
        "run_id": pc.binary_join_element_wise("run-", numbers, ""),
        "figures_hash": hashes,
    }
    return _identified("observations", n, columns)


def _measurements(
    rng: np.random.Generator, settings: pa.Table, is_ok: npt.NDArray[np.bool_]
) -> tuple[Integers, pa.Table]:
    """Return the observation's number of each measurement, and the measurements without its id."""
    n = settings.num_rows
    sizes = dict(_GPUS)
    memory = np.array([sizes[gpu] for gpu in settings.column("gpu_id").to_pylist()])
    n_gpus = settings.column("n_gpus").to_numpy()
    gibibytes = np.round(memory / GIB * rng.uniform(0.2, 0.95, n), 2) * n_gpus
    seconds = np.round(rng.uniform(0.5, 30, n), 2)
    tokens = settings.column("global_batch_size").to_numpy() * settings.column("seq_len").to_numpy()
    ok = np.flatnonzero(is_ok)
    peak = _figures("peak_memory", np.round(gibibytes * GIB), gibibytes, "GiB")
    step = _figures("step_time", seconds, seconds, "s/it").take(ok)
    rate = _figures("tokens_per_second", tokens / seconds, None, None).take(ok)
    places = np.concatenate([np.arange(n), ok, ok])
    order = np.argsort(places, kind="stable")
    return places[order], pa.concat_tables([peak, step, rate]).take(order)


def _figures(metric: str, values: Any, written: Any, unit: str | None) -> pa.Table:
    n = len(values)
    is_memory = metric == "peak_memory"
    columns: dict[str, Any] = {
        "observation_id": [""] * n,
        "metric": [metric] * n,
        "statistic": ["max" if is_memory else "value"] * n,
        "scope": ["total"] * n,
        "value": values,
        "origin": ["derived" if unit is None else "reported"] * n,
    }
    if is_memory:
        columns |= {
            "kind": ["reserved"] * n,
            "low": values - 0.005 * GIB,
            "high": values + 0.005 * GIB,
        }
    if unit is None:
        columns["reason"] = ["samples per second x sequence length, all full"] * n
    else:
        texts = pa.array(written).cast(pa.string())
        columns |= {
            "raw": pc.binary_join_element_wise(texts, unit, ""),
            "unit_reported": [unit] * n,
            "reading": [unit] * n,
        }
    return _table("measurements", n, columns)


def _citations(ids: pa.Array) -> pa.Table:
    n = len(ids)
    numbers = pa.array(np.arange(1, n + 1))
    texts = numbers.cast(pa.string())
    columns = {
        "observation_id": ids,
        "source_id": [SOURCE_ID] * n,
        "locator": pc.binary_join_element_wise("row ", texts, ""),
        "table_title": ["Results"] * n,
        "row": numbers,
        "cells": pc.binary_join_element_wise('{"row":"', texts, '"}', ""),
    }
    return _table("citations", n, columns)
