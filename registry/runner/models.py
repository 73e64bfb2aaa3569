"""Find out what a plan's model is: a table of it, a config.json, the catalogue's or the hub's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.catalogue.hf_config import format_hf_config
from registry.errors import SourceError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.catalogue import Catalogue

Row = dict[str, Any]

#: Architectures whose code is not part of transformers, and the nearest that is: the same layers
#: in the same shapes, so memory and speed are alike. (Names: ``model_type``.)
NEAREST = {"qwen": "qwen2", "baichuan": "llama", "yi": "llama"}


def resolve_model(
    name: str, models: Mapping[str, Row], catalogue: Catalogue | None, *, weights: str
) -> Row:
    """Return how the job is to build a model: ``kind`` with ``config``, or with ``hf_id``.

    A model of the plan itself goes first, then a config.json, then a model of the catalogue; what
    looks like a repository of the hub is left to transformers. With pretrained weights, a model of
    the catalogue is loaded by its hub name. Raises SourceError for a name that is none of these.
    """
    if name in models:
        return {"kind": "config", "config": dict(models[name])}
    path = Path(name)
    if path.name.endswith(".json") and path.is_file():
        return {"kind": "config", "config": _read_config(path)}
    if path.is_dir() and (path / "config.json").is_file():
        return _local_folder(path, weights)
    known = catalogue.resolve_model(name) if catalogue is not None else None
    if catalogue is not None and known is not None:
        return _catalogue_model(catalogue.models[known], weights)
    if name.count("/") == 1:
        return {"kind": "hub", "hf_id": name}
    candidates = [*models, *(catalogue.models if catalogue is not None else ())]
    raise SourceError(
        f"model {name!r}: unknown{did_you_mean(name, candidates)}; expected a table "
        f"[models.{name}] of the plan, a model of the catalogue, a config.json or a name of the hub"
    )


def _read_config(path: Path) -> Row:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"{path}: {error}; expected a config.json") from None
    if not isinstance(config, dict) or "model_type" not in config:
        raise SourceError(f"{path}: found no model_type; expected a config.json of transformers")
    return config


def _local_folder(path: Path, weights: str) -> Row:
    if weights == "pretrained":
        return {"kind": "hub", "hf_id": str(path.resolve())}
    return {"kind": "config", "config": _read_config(path / "config.json")}


def _catalogue_model(row: Row, weights: str) -> Row:
    prefer = {"model_id": row["model_id"]}
    if weights == "pretrained":
        if not row.get("hf_id"):
            raise SourceError(
                f"model {row['model_id']!r}: the catalogue knows no hub name of it; expected one "
                "for pretrained weights; use weights = 'random', or name the repository"
            )
        return {"kind": "hub", "hf_id": row["hf_id"], **prefer}
    kind = row.get("model_type")
    config = format_hf_config({**row, "model_type": NEAREST.get(kind or "", kind)})
    if "model_type" not in config or "hidden_size" not in config:
        raise SourceError(
            f"model {row['model_id']!r}: the catalogue does not hold its shape; expected "
            "model_type and sizes; describe it under [models] of the plan"
        )
    if config["model_type"] != kind:
        return {"kind": "config", "config": config, "nearest_of": row["model_id"]}
    return {"kind": "config", "config": config, **prefer}
