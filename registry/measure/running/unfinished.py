"""Describe a trial that ended before its recorder could: all that is known is what was asked."""

from __future__ import annotations

import secrets
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from registry.measure.environment import collect_environment, collect_provenance
from registry.measure.memory_meter import Peaks
from registry.measure.recording.catalogue_rows import describe_gpu, describe_model
from registry.measure.recording.configuration import describe_bitsandbytes, read_rank
from registry.measure.recording.loaded import cuda
from registry.measure.recording.record import Record, build_submission, note_missing
from registry.measure.words import OPTIMIZERS

if TYPE_CHECKING:
    from registry.measure.failure import Failure

Row = dict[str, Any]


def describe_unfinished(spec: Row, failure: Failure, environment: Row | None = None) -> Row:
    """Return the submission of a trial that has no record of its own.

    ``environment`` is the one of its interpreter, where that is not this process's.
    """
    settings = spec["settings"]
    rank, n_ranks = read_rank()
    peaks = Peaks()
    if "torch" in sys.modules:  # called in the job itself, whose memory this is
        peaks.observe_allocator()
        peaks.observe_host()
    record = Record(
        run_id=secrets.token_hex(8),
        observed_at=datetime.now(UTC).isoformat(timespec="seconds"),
        configuration=configuration_of(settings),
        environment=environment or collect_environment(installed="torch" not in sys.modules),
        model=model_of(spec["model"]),
        gpu=_gpu(settings),
        parts=[{"rank": rank, "steps": [], "peaks": peaks.rows()}],
        provenance={**collect_provenance(), "configuration_from": "spec", "spec": spec},
        model_reported=settings["model"].rsplit("/", 1)[-1],
        failure=failure,
    )
    note_missing(record, n_ranks)
    return build_submission(record)


def _gpu(settings: Row) -> Row | None:
    if settings["device"] == "cpu":
        return describe_gpu("cpu")
    if cuda() is not None:
        return describe_gpu("cuda")
    return None


def model_of(source: Row) -> Row:
    """Return a row of ``models`` from what a trial was told of its model."""
    if source["kind"] == "hub":
        return describe_model({"_name_or_path": source["hf_id"]}, None)
    return describe_model(source["config"], None)


def configuration_of(settings: Row) -> Row:
    """Return a row of ``configurations`` from what a trial was told."""
    n_nodes = settings.get("n_nodes", 1)
    several = n_nodes * settings["n_gpus"] > 1
    row = {
        "weights": settings["weights"],
        "method": settings["method"],
        "compute_dtype": settings["dtype"],
        "n_nodes": n_nodes,
        "gpus_per_node": settings["n_gpus"],
        "sharding": settings["sharding"] if several else "none",
        "seq_len": settings["seq_len"],
        "micro_batch_size": settings["micro_batch_size"],
        "grad_accum_steps": settings["grad_accum_steps"],
        "attention": settings["attention"],
        "gradient_checkpointing": settings["gradient_checkpointing"],
        "optimizer": OPTIMIZERS.get(settings["optimizer"], "other"),
        "n_steps": settings["steps"],
        "memory_limit_bytes": settings["memory_limit_bytes"],
    }
    if settings["dataset"] is None:
        row["length_distribution"] = "full"
    return row | _adapter(settings) | _quantization(settings)


def _adapter(settings: Row) -> Row:
    if settings["method"] not in ("lora", "dora"):
        return {}
    return {
        "lora_rank": settings["lora_rank"],
        "lora_alpha": float(settings["lora_alpha"]),
        "lora_dropout": float(settings["lora_dropout"]),
        "lora_target_modules": list(settings["lora_target_modules"]),
        "use_rslora": settings["use_rslora"],
        "trains_embeddings": settings["trains_embeddings"],
    }


def _quantization(settings: Row) -> Row:
    kind = settings["quantization"]
    return {} if kind == "none" else describe_bitsandbytes(kind, double=settings["double_quant"])
