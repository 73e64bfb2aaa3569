"""The models and GPUs a registry knows: look one up by id or alias, or name the nearest."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from registry.catalogue.names import (
    gpu_key,
    model_key,
    split_memory,
    suggest_gpu,
    suggest_model,
    without_variants,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from registry.catalogue.names import Key

Row = dict[str, Any]


@dataclass(frozen=True)
class Catalogue:
    """Rows of the tables ``models`` and ``gpus`` by id."""

    models: Mapping[str, Row] = field(default_factory=dict)
    gpus: Mapping[str, Row] = field(default_factory=dict)

    def rows(self, table: str) -> list[Row]:
        """Return the rows of ``models`` or ``gpus``."""
        return list(self.by_id(table)[1].values())

    def by_id(self, table: str) -> tuple[str, Mapping[str, Row]]:
        """Return the key of ``models`` or ``gpus``, and the rows by it."""
        return ("model_id", self.models) if table == "models" else ("gpu_id", self.gpus)

    def extended(self, models: Iterable[Row], gpus: Iterable[Row]) -> Catalogue:
        """Return a catalogue that has these rows too; a row whose id it has stays as it is."""
        more_models = {row["model_id"]: row for row in models}
        more_gpus = {row["gpu_id"]: row for row in gpus}
        if more_models.keys() <= self.models.keys() and more_gpus.keys() <= self.gpus.keys():
            return self  # with what it has looked up
        # what is known comes first, so that its names stay its own, and last, so that its rows do
        return Catalogue(
            {**self.models, **more_models, **self.models}, {**self.gpus, **more_gpus, **self.gpus}
        )

    def contradiction(self, part: str, row: Row) -> str | None:
        """Return how a row contradicts the catalogue's row of the same id, or None.

        ``part`` is ``models`` or ``gpus``; a column that either row leaves out contradicts nothing.
        A further name of it that is another's here does.
        """
        for identity, name, own, value in self.differences(part, row):
            return (
                f"{identity!r} is known already, with {name} = {own!r}; found {value!r}; leave the "
                "description out, or give it a different id"
            )
        return self._taken_name(part, row)

    def _taken_name(self, part: str, row: Row) -> str | None:
        key, _ = self.by_id(part)
        aliases = self._model_aliases if part == "models" else self._gpu_aliases
        for name in (*(row.get("aliases") or ()), *(row.get("device_names") or ())):
            other = aliases.get(_normalize(name), row[key])
            if other != row[key]:
                return (
                    f"{row[key]!r} has the name {name!r}, which is that of {other!r}; leave that "
                    "name out"
                )
        return None

    def differences(self, part: str, row: Row) -> Iterator[tuple[str, str, Any, Any]]:
        """Yield where a row contradicts the catalogue's: id, column, value there, value found."""
        key, rows = self.by_id(part)
        own = rows.get(row[key], {})
        for name, value in row.items():
            if (
                name not in _DESCRIPTIVE
                and value is not None
                and own.get(name) not in (None, value)
            ):
                yield row[key], name, own[name], value

    def resolve_model(self, name: str) -> str | None:
        """Return the id of the model that is called ``name``, or None.

        Where no model has the very name, it is that of the architecture: tuning and packing of a
        checkpoint (Instruct, 4bit, …) leave it as it is.
        """
        if name in self.models:
            return name
        found = self._model_aliases.get(_normalize(name))
        if found is None:
            key = model_key(name)
            bare = without_variants(key)
            found = _only(self._model_keys, key) or _only(self._model_keys, bare)
            found = found or _only(self._bare_model_keys, bare)
        return found

    def resolve_gpu(self, name: str) -> str | None:
        """Return the id of the GPU that is called ``name``, or None.

        Memory that is named beside the card counts only where it is the card's.
        """
        if name in self.gpus:
            return name
        found = self._gpu_aliases.get(_normalize(name))
        if found is None:
            key = gpu_key(name)
            found = _only(self._gpu_keys, key) or self._with_memory(key)
        return found

    def _with_memory(self, key: Key) -> str | None:
        rest, memory = split_memory(key)
        found = _only(self._gpu_keys, rest) if memory else None
        return found if found and memory and self._has_memory(found, memory) else None

    def _has_memory(self, gpu_id: str, memory: str) -> bool:
        """Return whether a card has the memory of its box, such as ``24gb``."""
        size = self.gpus[gpu_id].get("memory_bytes")
        return size is not None and _is_near(size, int(memory.removesuffix("gb")) * _GIGABYTE)

    def kind_with(self, gpu_id: str, memory_bytes: int) -> str | None:
        """Return the card itself, or of those with its name the one that has so much memory.

        None where they have another. A card whose memory nobody knows is taken to have it.
        """
        name, _ = split_memory(gpu_key(gpu_id))
        namesakes = (key for key in self.gpus if split_memory(gpu_key(key))[0] == name)
        for key in dict.fromkeys((*self.kinds_of(gpu_id), *namesakes)):
            size = self.gpus[key].get("memory_bytes")
            if size is not None and _is_near(size, memory_bytes):
                return key
        return None if self.gpus[gpu_id].get("memory_bytes") else gpu_id

    def kinds_of(self, gpu_id: str) -> list[str]:
        """Return the ids of all cards that are a kind of one, itself first.

        A document that names only ``a100`` means any of them.
        """
        kinds = [gpu_id]
        for kind in kinds:
            members = (key for key, row in self.gpus.items() if row.get("family_id") == kind)
            kinds += [key for key in members if key not in kinds]  # families may form a circle
        return kinds

    def unknown_model(self, name: str, of: str = "submission") -> str:
        """Return the message about a model that is not in the catalogue, with the nearest id.

        ``of`` is the document that may describe it.
        """
        return _format_unknown("model", name, self.nearest_model(name), of)

    def unknown_gpu(self, name: str, of: str = "submission") -> str:
        """Return the message about a GPU that is not in the catalogue, with the nearest id.

        ``of`` is the document that may describe it.
        """
        return _format_unknown("gpu", name, self.nearest_gpu(name), of)

    def nearest_model(self, name: str) -> str:
        """Return ``"; did you mean 'x'?"`` for the nearest model of the same size, or nothing."""
        return _format_meant(suggest_model(name, self.models))

    def nearest_gpu(self, name: str) -> str:
        """Return ``"; did you mean 'x'?"`` for the nearest card of the same number, or nothing."""
        memory = split_memory(gpu_key(name))[1]
        alike = (gpu for gpu in self.gpus if memory is None or self._has_memory(gpu, memory))
        return _format_meant(suggest_gpu(name, alike))

    @cached_property
    def _model_aliases(self) -> dict[str, str]:
        return _aliases("model_id", self.models.values(), ("hf_id",))

    @cached_property
    def _gpu_aliases(self) -> dict[str, str]:
        return _aliases("gpu_id", self.gpus.values(), ("name",))

    @cached_property
    def _model_keys(self) -> dict[Key, set[str]]:
        return _keys(self._model_aliases, model_key)

    @cached_property
    def _bare_model_keys(self) -> dict[Key, set[str]]:
        keys: dict[Key, set[str]] = {}
        for key, found in self._model_keys.items():
            keys.setdefault(without_variants(key), set()).update(found)
        return keys

    @cached_property
    def _gpu_keys(self) -> dict[Key, set[str]]:
        return _keys(self._gpu_aliases, gpu_key)


_GIGABYTE = 10**9
#: How far a card's memory may lie from the figure on its box, which may count in powers of two.
_SLACK = 0.1
#: Columns that describe a thing without telling it from others.
_DESCRIPTIVE = (
    *("aliases", "device_names", "name", "family", "hf_id"),
    *("source", "memory_source", "note"),
)


def _normalize(name: str) -> str:
    return name.strip().lower()


def _aliases(key: str, rows: Iterable[Row], name_columns: tuple[str, ...]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for row in rows:
        names = [row[name] for name in name_columns if row.get(name)]
        names += [*(row.get("aliases") or ()), *(row.get("device_names") or ()), row[key]]
        for name in names:
            aliases.setdefault(_normalize(name), row[key])
    return aliases


def _keys(aliases: Mapping[str, str], key: Callable[[str], Key]) -> dict[Key, set[str]]:
    """Return the ids that names with a key stand for."""
    keys: dict[Key, set[str]] = {}
    for name, found in aliases.items():
        keys.setdefault(key(name), set()).add(found)
    for found in set(aliases.values()):  # an id means itself, whatever else is called like it
        keys[key(found)] = {found}
    return keys


def _only(keys: Mapping[Key, set[str]], key: Key) -> str | None:
    """Return the id of a key that stands for one; a name that may mean several means none."""
    found = keys.get(key, set())
    return next(iter(found)) if len(found) == 1 else None


def _format_meant(nearest: str | None) -> str:
    return f"; did you mean {nearest!r}?" if nearest else ""


def _is_near(size: int, stated: int) -> bool:
    return abs(size - stated) <= _SLACK * stated


def _format_unknown(kind: str, name: str, meant: str, of: str) -> str:
    return (
        f"unknown {kind} {name!r}{meant}; expected an id of the catalogue "
        f"(list them with `registry {kind}s`); to add one, describe it under "
        f"'{kind}s' of the {of}"
    )
