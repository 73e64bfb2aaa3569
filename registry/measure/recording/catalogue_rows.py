"""Describe the model and the accelerator of a job as rows of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from registry.catalogue.hf_config import parse_hf_config
from registry.measure.recording.loaded import cuda
from registry.text import format_slug

Row = dict[str, Any]

#: What tells two architectures apart.
SHAPE = (
    "model_type",
    "n_layers",
    "hidden_size",
    "intermediate_size",
    "n_heads",
    "n_kv_heads",
    "vocab_size",
    "tied_embeddings",
)


def describe_model(config: Any, n_params: int | None) -> Row:
    """Return a row of ``models`` from a live configuration (an object or a mapping)."""
    row: Row = parse_hf_config(config)
    if row.get("model_type") is not None:
        row["model_type"] = row["family"] = _word(row["model_type"])
    row["hf_id"] = _hub_id(_get(config, "_name_or_path") or _get(config, "name_or_path"))
    if n_params is not None:  # counted on the live model, whatever its configuration says
        row["n_params"] = n_params
    stated = {name: value for name, value in row.items() if value is not None}
    return {"model_id": format_model_id(stated), "source": "live configuration", **stated}


def _get(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


def _word(kind: Any) -> str:
    """Return the kind of a model as its configuration has it, ``other`` where that is no word.

    A class of one's own may hold anything there: a folder of this machine, a number, a text.
    """
    return kind if isinstance(kind, str) and _WORD.fullmatch(kind) else "other"


_WORD = re.compile(r"\w[\w.+ -]{0,63}")


def _hub_id(name: Any) -> str | None:
    """Return a name that can only be a repository of the hub, never a folder of this machine."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    return None if name.startswith(".") or Path(name).exists() else name


#: What the number of parameters follows from.
_SIZES = ("hidden_size", "n_layers", "intermediate_size", "n_heads", "vocab_size")


def format_model_id(row: Row) -> str:
    """Return the slug of a model: its hub name, else its architecture and shape.

    Where the shape does not say how many parameters there are, their number tells two models apart.

    >>> format_model_id({"model_type": "llama", "hidden_size": 512, "n_layers": 8})
    'llama-h512-l8'
    >>> format_model_id({"model_type": "net", "hidden_size": 32, "n_params": 7556})
    'net-h32-p7556'
    """
    if row.get("hf_id"):
        return format_slug(row["hf_id"].split("/")[-1])
    parts = [format_slug(row.get("model_type") or "", "model")]
    for letter, column in (
        ("h", "hidden_size"),
        ("l", "n_layers"),
        ("i", "intermediate_size"),
        ("a", "n_heads"),
        ("kv", "n_kv_heads"),
        ("v", "vocab_size"),
    ):
        if row.get(column):
            parts.append(f"{letter}{row[column]}")
    if row.get("n_params") and not all(map(row.get, _SIZES)):
        parts.append(f"p{row['n_params']}")
    if row.get("tied_embeddings"):
        parts.append("tied")
    return format_slug("-".join(parts))


def describe_gpu(device_type: str) -> Row | None:
    """Return a row of ``gpus`` for the device that this process trains on; None if not known."""
    if device_type == "cpu":
        return {"gpu_id": "cpu"}
    module = cuda() if device_type == "cuda" else None
    if module is None:
        return None
    properties = module.get_device_properties(module.current_device())
    capability = f"{properties.major}.{properties.minor}"
    return {
        "gpu_id": format_slug(properties.name),
        "name": properties.name,
        "device_names": [properties.name],
        "memory_bytes": int(properties.total_memory),
        "compute_capability": capability,
        "memory_source": "total memory as torch.cuda reports it",
    }
