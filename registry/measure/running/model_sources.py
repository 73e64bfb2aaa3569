"""Find out what a plan's model is: a table of it, a config.json, the catalogue's or the hub's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.catalogue.hf_config import format_hf_config, parse_hf_config
from registry.catalogue.meta_model import LOADS
from registry.errors import SourceError, did_you_mean, excerpt
from registry.reading.bounded_file import is_file, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from registry.catalogue import Catalogue

Row = dict[str, Any]

#: Architectures whose code is not part of transformers, and the nearest that is: the same layers
#: in the same shapes, so memory and speed are alike. (Names: ``model_type``.)
NEAREST = {"qwen": "qwen2", "baichuan": "llama", "yi": "llama"}

#: Largest config.json that is read, in bytes; they have a few thousand.
_LARGEST_CONFIG = 2**20

#: Largest number in a configuration.
_LARGEST_NUMBER = 10**15

#: A word of a configuration; Nemotron-H has one with a letter or sign for each of its layers.
_WORD = re.compile(r"[\w.+*-]{1,128}")

#: Names of repositories of the hub.
_HUB_NAME = re.compile(r"[\w][\w.-]{0,95}/[\w][\w.-]{0,95}")


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise SourceError for the first key of a table that is not known."""
    known = tuple(known)
    for name in table:
        if name not in known:
            raise SourceError(
                f"{where}: unknown key {excerpt(name)}{did_you_mean(str(name), known)}; "
                f"expected one of {', '.join(sorted(known))}"
            )


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
    if path.name.endswith(".json") and is_file(path):
        return {"kind": "config", "config": _read_config(path)}
    if is_file(path / "config.json"):
        return _local_folder(path, weights)
    known = catalogue.resolve_model(name) if catalogue is not None else None
    if catalogue is not None and known is not None:
        return _catalogue_model(catalogue.models[known], weights)
    if _HUB_NAME.fullmatch(name):
        return {"kind": "hub", "hf_id": name}
    candidates = [*models, *(catalogue.models if catalogue is not None else ())]
    raise SourceError(
        f"model {name!r}: unknown{did_you_mean(name, candidates)}; expected a table "
        f"[models.{name}] of the plan, a model of the catalogue, a config.json or a name of the hub"
    )


def _read_config(path: Path) -> Row:
    data = read_bytes(path, limit=_LARGEST_CONFIG, what="a config.json of transformers")
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: {error}; expected a config.json of transformers") from None
    if isinstance(config, dict):  # what names code or files plays no part in a shape
        config = {name: value for name, value in config.items() if not LOADS.search(name)}
    return check_config(config, str(path))


def check_config(config: Any, where: str) -> Row:
    """Return a transformers configuration if nothing in it names code or files; else SourceError.

    Numbers, switches and single words are what a shape consists of. Transformers would import, or
    download, what other fields point to.
    """
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise SourceError(
            f"{where}: found no model_type; expected the fields of a transformers configuration, "
            "model_type among them"
        )
    _check_fields(config, where)
    return config


def _check_fields(table: Row, where: str) -> None:
    for name, value in table.items():
        place = f"{where}.{name}"
        if isinstance(value, dict) and not LOADS.search(name):
            _check_fields(value, place)
            continue
        for item in value if isinstance(value, list) else [value]:
            if not (is_number(item) or (_is_word(item) and not LOADS.search(name))):
                raise SourceError(
                    f"{place}: found {excerpt(item)}; expected a number, true or false, or one "
                    "word: a configuration may not name code or files; remove the field"
                )


def is_number(value: Any) -> bool:
    """Return whether a field is a finite number that some setting may have, a switch, or null."""
    if isinstance(value, int | float):
        return abs(value) <= _LARGEST_NUMBER
    return value is None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and _WORD.fullmatch(value) is not None


def _local_folder(path: Path, weights: str) -> Row:
    if weights == "pretrained":
        return {"kind": "hub", "hf_id": str(path.resolve())}
    return {"kind": "config", "config": _read_config(path / "config.json")}


def build_config(row: Row) -> Row | None:
    """Return the configuration that a row of ``models`` describes; None for too little."""
    config = format_hf_config(row)
    return config if "model_type" in config and "hidden_size" in config else None


def _catalogue_model(row: Row, weights: str) -> Row:
    prefer = {"model_id": row["model_id"]}
    if weights == "pretrained":
        if not row.get("hf_id"):
            raise SourceError(
                f"model {row['model_id']!r}: the catalogue has no hub name for it; expected one "
                "for pretrained weights; use weights = 'random', or name the repository"
            )
        return {"kind": "hub", "hf_id": row["hf_id"], **prefer}
    kind = row.get("model_type")
    config = build_config({**row, "model_type": NEAREST.get(kind or "", kind)})
    if config is None:
        raise SourceError(
            f"model {row['model_id']!r}: the catalogue does not hold its shape; expected "
            "model_type and sizes; describe it under [models] of the plan"
        )
    if config["model_type"] != kind:
        return {"kind": "config", "config": config, "nearest_of": row["model_id"]}
    found = parse_hf_config(config).get("n_params")
    if row.get("n_params") and found not in (None, row["n_params"]):
        raise SourceError(
            f"model {row['model_id']!r}: the columns of the catalogue describe a {kind} of "
            f"{found:,} parameters, not of {row['n_params']:,}: its layout has other parts; give "
            "its config.json, or describe it under [models] of the plan"
        )
    return {"kind": "config", "config": config, **prefer}


def parse_source(source: Any, where: str) -> Row:
    """Return how a record says that its model was built, if it can be built so again.

    Raises SourceError where it is of another form, or leads to a folder of a machine.
    """
    if not isinstance(source, dict) or source.get("kind") not in ("config", "hub"):
        raise SourceError(
            f"{where}: found {excerpt(source)}; expected a table of kind config or hub"
        )
    check_keys(source, ("kind", "config", "hf_id", "model_id", "nearest_of"), where)
    for name in ("model_id", "nearest_of"):
        if name in source and not _is_word(source[name]):
            raise SourceError(f"{where}.{name}: found {excerpt(source[name])}; expected an id")
    if source["kind"] == "config":
        check_config(source.get("config"), f"{where}.config")
    elif not isinstance(source.get("hf_id"), str) or not _HUB_NAME.fullmatch(source["hf_id"]):
        raise SourceError(
            f"{where}.hf_id: found {excerpt(source.get('hf_id'))}; expected a name of the hub; to "
            "train the weights of a folder, write a plan that names it and run that"
        )
    return source
