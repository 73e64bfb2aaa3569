"""Describe the model and the accelerator of a job as rows of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from registry.measure.recording.loaded import cuda
from registry.measure.words import CONFIG_FIELDS

Row = dict[str, Any]

#: Columns of ``models`` that hold sizes, and the names of further fields that hold them.
_SIZES = {
    "n_layers": ("n_layer", "num_layers"),
    "hidden_size": ("n_embd", "d_model"),
    "intermediate_size": ("n_inner",),
    "n_heads": ("n_head",),
    "n_kv_heads": ("num_attention_heads", "n_head"),
    "head_dim": ("head_dim",),
    "vocab_size": (),
    "max_positions": ("n_positions",),
    "n_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "n_experts_active": ("num_experts_per_tok",),
}

#: The field of the common architectures for a column.
_FIELD_OF = {column: name for name, column in CONFIG_FIELDS.items()}

#: Fields that go before these: in a mixture of experts, the size of one expert.
_FIRST = {"intermediate_size": "moe_intermediate_size"}

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
    text = _get(config, "text_config")  # a model of several modalities keeps the shape there
    shape = text if text is not None and _get(text, "hidden_size") else config
    row: Row = {
        "family": _get(config, "model_type"),
        "model_type": _get(config, "model_type"),
        "hf_id": _hub_id(_get(config, "_name_or_path") or _get(config, "name_or_path")),
        "n_params": n_params,
        "tied_embeddings": _get(config, "tie_word_embeddings"),
        "attention_bias": _get(shape, "attention_bias"),
    }
    for column, others in _SIZES.items():
        names = filter(None, (_FIRST.get(column), _FIELD_OF.get(column), *others))
        values = [value for name in names if (value := _get(shape, name)) is not None]
        row[column] = next((value for value in values if isinstance(value, int)), None)
    if row["head_dim"] is None and row["hidden_size"] and row["n_heads"]:
        row["head_dim"] = row["hidden_size"] // row["n_heads"]
    stated = {name: value for name, value in row.items() if value is not None}
    return {"model_id": format_model_id(stated), "source": "live configuration", **stated}


def _get(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


def _hub_id(name: Any) -> str | None:
    """Return a name that can only be a repository of the hub, never a folder of this machine."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    return None if name.startswith(".") or Path(name).exists() else name


def format_model_id(row: Row) -> str:
    """Return the slug of a model: its hub name, else its architecture and shape.

    >>> format_model_id({"model_type": "llama", "hidden_size": 512, "n_layers": 8})
    'llama-h512-l8'
    """
    if row.get("hf_id"):
        return format_slug(row["hf_id"].split("/")[-1])
    parts = [row.get("model_type") or "model"]
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
    if row.get("tied_embeddings"):
        parts.append("tied")
    return format_slug("-".join(parts))


def format_slug(text: str) -> str:
    """Return a text as a lower-case slug.

    >>> format_slug("NVIDIA GeForce RTX 3090")
    'nvidia-geforce-rtx-3090'
    """
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._") or "unknown"


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
