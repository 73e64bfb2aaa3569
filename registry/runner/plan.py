"""Read a plan: a TOML file that says which trials to run."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from registry.errors import SourceError, did_you_mean
from registry.runner.settings import CHOICES, Settings

_SETTINGS = {item.name: item for item in fields(Settings)}
_TYPES = get_type_hints(Settings)

#: Keys of a plan beside the settings.
_TOP = ("name", "description", "repeats", "matrix", "exclude", "include", "models", "memory_limit")

#: Settings that a plan writes in another way, or not at all.
_INTERNAL = ("repeat", "memory_limit_bytes")

#: Settings whose one value is a list already.
_LISTS = ("lora_target_modules",)


@dataclass(frozen=True)
class Plan:
    """A plan as it was read.

    ``base`` holds settings of all trials, ``axes`` the values that are combined, ``exclude`` the
    combinations to leave out, ``include`` trials beside the matrix, ``models`` the configurations
    that the plan itself defines, by name.
    """

    name: str
    base: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, list[Any]] = field(default_factory=dict)
    exclude: tuple[dict[str, Any], ...] = ()
    include: tuple[dict[str, Any], ...] = ()
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    repeats: int = 1


def read_plan(path: str | Path) -> Plan:
    """Read a plan from a TOML file.

    Paths in it are relative to its folder. Raises SourceError where the file cannot be read, is no
    TOML, or holds a key or value that no trial has.
    """
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise SourceError(f"{path}: cannot be read: {reason}; expected a plan") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SourceError(f"{path}: {error}; expected a plan in TOML") from None
    return parse_plan(document, origin=str(path), folder=path.parent)


def parse_plan(document: dict[str, Any], *, origin: str, folder: Path | None = None) -> Plan:
    """Return the plan in a parsed document; raise SourceError as ``read_plan`` does."""
    known = [*_TOP, *_settings_names()]
    _check_keys(document, known, origin)
    stated = {name: value for name, value in document.items() if name not in _TOP}
    if "memory_limit" in document:
        stated["memory_limit"] = document["memory_limit"]
    base = _parse_table(stated, origin)
    matrix = _table(document, "matrix", origin)
    axes = {name: _parse_axis(name, value, f"{origin}: matrix") for name, value in matrix.items()}
    plan = Plan(
        name=str(document.get("name", Path(origin).stem)),
        base=_located(base, folder),
        axes=axes,
        exclude=tuple(_parse_rows(document, "exclude", origin)),
        include=tuple(_located(row, folder) for row in _parse_rows(document, "include", origin)),
        models=_parse_models(document, origin),
        repeats=_parse_repeats(document, origin),
    )
    named = bool(plan.include) and all("model" in row for row in plan.include)
    if "model" not in {**base, **axes} and (axes or not named):
        raise SourceError(f"{origin}: no model; expected 'model' in the plan or in its matrix")
    return plan


def _settings_names() -> list[str]:
    return [name for name in _SETTINGS if name not in _INTERNAL]


def _check_keys(table: dict[str, Any], known: list[str], where: str) -> None:
    for name in table:
        if name not in known:
            raise SourceError(
                f"{where}: unknown key {name!r}{did_you_mean(name, known)}; "
                f"expected one of {', '.join(sorted(known))}"
            )


def _table(document: dict[str, Any], name: str, origin: str) -> dict[str, Any]:
    table = document.get(name, {})
    if not isinstance(table, dict):
        raise SourceError(f"{origin}: {name}: found {table!r}; expected a table")
    return table


def _parse_rows(document: dict[str, Any], name: str, origin: str) -> list[dict[str, Any]]:
    rows = document.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SourceError(f"{origin}: {name}: found {rows!r}; expected tables, as [[{name}]]")
    return [_parse_table(row, f"{origin}: {name}[{index}]") for index, row in enumerate(rows)]


def _parse_table(table: dict[str, Any], where: str) -> dict[str, Any]:
    _check_keys(table, [*_settings_names(), "memory_limit"], where)
    return dict(_parse_setting(name, value, where) for name, value in table.items())


def _parse_axis(name: str, value: Any, where: str) -> list[Any]:
    _check_keys({name: value}, [*_settings_names(), "memory_limit"], where)
    if not isinstance(value, list) or not value:
        raise SourceError(f"{where}: {name}: found {value!r}; expected a list of values")
    if name in _LISTS and not all(isinstance(item, list) for item in value):
        raise SourceError(f"{where}: {name}: found {value!r}; expected a list of lists")
    return [_parse_setting(name, item, where)[1] for item in value]


def _parse_setting(name: str, value: Any, where: str) -> tuple[str, Any]:
    """Return a setting's own name and its value, checked."""
    if name == "memory_limit":
        return "memory_limit_bytes", parse_memory_limit(value, where)
    expected = _TYPES[name]
    if name in CHOICES and value not in CHOICES[name]:
        hint = did_you_mean(str(value), CHOICES[name])
        raise SourceError(
            f"{where}: {name}: found {value!r}{hint}; expected one of {', '.join(CHOICES[name])}"
        )
    if name in _LISTS:
        return name, _parse_list(name, value, where)
    if expected is float and type(value) is int:
        value = float(value)
    kinds = tuple(getattr(expected, "__args__", ())) or (expected,)
    kind = dict if name == "peft" else kinds[0]
    if type(value) is not kind:
        raise SourceError(f"{where}: {name}: found {value!r}; expected {_kind_name(kind)}")
    if (
        isinstance(value, int | float)
        and value < (0 if name in _MAY_BE_ZERO else 1e-9)
        and kind is not bool
    ):
        raise SourceError(f"{where}: {name}: found {value!r}; expected a positive number")
    return name, value


_MAY_BE_ZERO = ("lora_dropout", "seed", "warmup_steps")


def _kind_name(kind: type) -> str:
    names = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
    return names.get(kind, "a table")


def _parse_list(name: str, value: Any, where: str) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise SourceError(f"{where}: {name}: found {value!r}; expected a list of texts")
    return tuple(sorted(items))


def parse_memory_limit(value: Any, where: str) -> int:
    """Return a limit in bytes from text such as ``2 GiB``."""
    from registry.units import parse_figure  # noqa: PLC0415 - only where a plan has a limit

    if not isinstance(value, str):
        raise SourceError(f"{where}: memory_limit: found {value!r}; expected text, as '2 GiB'")
    return int(parse_figure("byte", value, where=f"{where}: memory_limit")["value"])


def _parse_models(document: dict[str, Any], origin: str) -> dict[str, dict[str, Any]]:
    models = _table(document, "models", origin)
    for name, config in models.items():
        if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
            raise SourceError(
                f"{origin}: models.{name}: found no model_type; expected the fields of a "
                "transformers configuration, model_type among them"
            )
    return models


def _parse_repeats(document: dict[str, Any], origin: str) -> int:
    repeats = document.get("repeats", 1)
    if type(repeats) is not int or repeats < 1:
        raise SourceError(f"{origin}: repeats: found {repeats!r}; expected a positive integer")
    return repeats


def _located(table: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """Return the table with paths that hold from anywhere."""
    located = dict(table)
    for name in ("dataset", "model"):
        value = located.get(name)
        if folder is not None and isinstance(value, str) and (folder / value).is_file():
            located[name] = str((folder / value).resolve())
    return located


def required_settings() -> list[str]:
    """Return the settings that have no default."""
    return [
        name
        for name, item in _SETTINGS.items()
        if item.default is MISSING and item.default_factory is MISSING
    ]
