"""Read a plan: a TOML file that says which trials to run."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from registry.errors import SourceError, excerpt
from registry.measure.running.model_sources import check_config
from registry.measure.trial_settings import LISTS, NAMES, check_keys, parse_setting
from registry.reading.bounded_file import read_bytes
from registry.units import parse_figure

#: Keys of a plan beside the settings.
_TOP = ("name", "description", "repeats", "matrix", "exclude", "include", "models", "memory_limit")

#: Settings that a plan writes by their own name; the others it writes in another way.
_SETTING_NAMES = tuple(name for name in NAMES if name not in ("repeat", "memory_limit_bytes"))

#: What may stand in a plan itself, its matrix and its further tables.
_OF_TRIALS = (*_SETTING_NAMES, "memory_limit")

#: Largest plan that is read, in bytes; one with a line for each of ten thousand trials is smaller.
_LARGEST_PLAN = 2**20

#: Deepest nesting that is read; a configuration in ``models`` has three or four levels.
DEEPEST_NESTING = 16

#: A dotted key of so many parts, for which the TOML parser takes quadratic time.
_DEEP_KEY = re.compile(r"""(?:[\w"'-]+[ \t]*\.[ \t]*){64}""")

_TOO_DEEP = f"nested deeper than {DEEPEST_NESTING} levels; expected a plan, which has four"

_LONGEST_NAME = 200


@dataclass(frozen=True)
class Plan:
    """A plan as it was read.

    ``base`` holds settings of all trials, ``axes`` the values that are combined, ``exclude`` the
    combinations to leave out, ``include`` trials beside the matrix, ``models`` the configurations
    that the plan itself defines, by name; ``sources`` says of models how they were built before.
    """

    name: str
    base: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, list[Any]] = field(default_factory=dict)
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    repeats: int = 1


def read_plan(path: str | Path, *, dataset: Path | None = None) -> Plan:
    """Read a plan from a TOML file.

    Paths in it are relative to its folder. A data set is read from that folder or below it;
    ``dataset`` names one elsewhere, for all trials. Raises SourceError where the file cannot be
    read, is no TOML, or holds a key or value that no trial has.
    """
    path = Path(path)
    data = read_bytes(path, limit=_LARGEST_PLAN, what="a plan")
    try:
        text = data.decode()
        if _DEEP_KEY.search(text):
            raise SourceError(f"{path}: {_TOO_DEEP}")
        document = tomllib.loads(text)
    except RecursionError:
        raise SourceError(f"{path}: {_TOO_DEEP}") from None
    except ValueError as error:  # no TOML, no UTF-8, or an integer of thousands of digits
        raise SourceError(f"{path}: {error}; expected a plan in TOML") from None
    return parse_plan(document, origin=str(path), folder=path.parent, dataset=dataset)


def parse_plan(
    document: dict[str, Any],
    *,
    origin: str,
    folder: Path | None = None,
    dataset: Path | None = None,
) -> Plan:
    """Return the plan in a parsed document; raise SourceError as ``read_plan`` does.

    Without a ``folder``, the paths are the caller's own and may lead anywhere.
    """
    check_depth(document, origin)
    check_keys(document, [*_TOP, *_SETTING_NAMES], origin)
    located = partial(_located, folder=folder, is_named=dataset is not None, origin=origin)
    base = located(_parse_table({k: document[k] for k in document if k in _OF_TRIALS}, origin))
    if dataset is not None:
        base["dataset"] = str(dataset.resolve())
    axes = _parse_matrix(document, origin)
    plan = Plan(
        name=_parse_name(document, origin),
        base=base,
        axes={
            name: [located({name: value})[name] for value in values]
            for name, values in axes.items()
        },
        exclude=tuple(_parse_rows(document, "exclude", origin)),
        include=tuple(located(row) for row in _parse_rows(document, "include", origin)),
        models=_parse_models(document, origin),
        repeats=_parse_repeats(document, origin),
    )
    named = bool(plan.include) and all("model" in row for row in plan.include)
    if "model" not in {**base, **axes} and (axes or not named):
        raise SourceError(f"{origin}: no model; expected 'model' in the plan or in its matrix")
    return plan


def check_depth(document: Any, origin: str) -> None:
    """Raise SourceError where tables and lists are nested deeper than any plan needs."""
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(DEEPEST_NESTING):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for each in inner for child in each if isinstance(child, dict | list)]
    if level:
        raise SourceError(f"{origin}: {_TOO_DEEP}")


def _parse_name(document: dict[str, Any], origin: str) -> str:
    name = document.get("name", Path(origin).stem)
    if not isinstance(name, str) or not name.isprintable() or len(name) > _LONGEST_NAME:
        raise SourceError(f"{origin}: name: found {excerpt(name)}; expected a short text")
    return name


def _parse_matrix(document: dict[str, Any], origin: str) -> dict[str, list[Any]]:
    where = f"{origin}: matrix"
    axes = [_parse_axis(*item, where) for item in _table(document, "matrix", origin).items()]
    return dict(axes)


def _table(document: dict[str, Any], name: str, origin: str) -> dict[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise SourceError(f"{origin}: {name}: found {excerpt(table)}; expected a table")
    return table


def _parse_rows(document: dict[str, Any], name: str, origin: str) -> list[dict[str, Any]]:
    rows = document.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(
            f"{origin}: {name}: found {excerpt(rows)}; expected tables, as [[{name}]]"
        )
    return [_parse_table(row, f"{origin}: {name}[{index}]") for index, row in enumerate(rows)]


def _parse_table(table: dict[str, Any], where: str) -> dict[str, Any]:
    check_keys(table, _OF_TRIALS, where)
    return dict(_parse_setting(name, value, where) for name, value in table.items())


def _parse_axis(name: str, value: Any, where: str) -> tuple[str, list[Any]]:
    check_keys({name: value}, _OF_TRIALS, where)
    if not isinstance(value, list) or not value:
        raise SourceError(f"{where}: {name}: found {excerpt(value)}; expected a list of values")
    if name in LISTS and not all(isinstance(item, list) for item in value):
        raise SourceError(f"{where}: {name}: found {excerpt(value)}; expected a list of lists")
    parsed = [_parse_setting(name, item, where) for item in value]
    return parsed[0][0], [item for _, item in parsed]


def _parse_setting(name: str, value: Any, where: str) -> tuple[str, Any]:
    """Return a setting's own name and its value, checked."""
    if name == "memory_limit":
        name, value = "memory_limit_bytes", parse_memory_limit(value, where)
    return name, parse_setting(name, value, where)


def parse_memory_limit(value: Any, where: str) -> int:
    """Return a limit in bytes from text such as ``2 GiB``."""
    if not isinstance(value, str):
        raise SourceError(
            f"{where}: memory_limit: found {excerpt(value)}; expected text, as '2 GiB'"
        )
    return int(parse_figure("byte", value, where=f"{where}: memory_limit")["value"])


def _parse_models(document: dict[str, Any], origin: str) -> dict[str, dict[str, Any]]:
    models = _table(document, "models", origin)
    for name, config in models.items():
        check_config(config, f"{origin}: models.{name}")
    return models


def _parse_repeats(document: dict[str, Any], origin: str) -> int:
    repeats = document.get("repeats", 1)
    if type(repeats) is not int or repeats < 1:
        raise SourceError(
            f"{origin}: repeats: found {excerpt(repeats)}; expected a positive integer"
        )
    return repeats


def _located(
    table: dict[str, Any], *, folder: Path | None, is_named: bool, origin: str
) -> dict[str, Any]:
    """Return the table with paths that hold from anywhere."""
    located = dict(table)
    if folder is not None and "model" in table and (folder / table["model"]).is_file():
        located["model"] = str((folder / table["model"]).resolve())
    if "dataset" not in table:
        return located
    if is_named:
        raise SourceError(
            f"{origin}: dataset: found {excerpt(table['dataset'])} beside the one named for all "
            "trials; expected one of the two; remove it from the plan"
        )
    path = (folder or Path()).joinpath(table["dataset"]).resolve()
    if folder is not None and not path.is_relative_to(folder.resolve()):
        raise SourceError(
            f"{origin}: dataset: found {excerpt(table['dataset'])}, which is not in the plan's "
            "folder; expected a file there; to train on another one, name it yourself: --dataset"
        )
    return {**located, "dataset": str(path)}
