"""The models and GPUs a registry knows: look one up by id or alias, or name the nearest."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from registry.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row = dict[str, Any]


@dataclass(frozen=True)
class Catalogue:
    """Rows of the tables ``models`` and ``gpus`` by id."""

    models: Mapping[str, Row] = field(default_factory=dict)
    gpus: Mapping[str, Row] = field(default_factory=dict)

    def rows(self, table: str) -> list[Row]:
        """Return the rows of ``models`` or ``gpus``."""
        return list((self.models if table == "models" else self.gpus).values())

    def extended(self, models: Iterable[Row], gpus: Iterable[Row]) -> Catalogue:
        """Return a catalogue that has these rows too; a row whose id it has stays as it is."""
        return Catalogue(
            models={**{row["model_id"]: row for row in models}, **self.models},
            gpus={**{row["gpu_id"]: row for row in gpus}, **self.gpus},
        )

    def contradiction(self, part: str, row: Row) -> str | None:
        """Return how a row contradicts the catalogue's row of the same id, or None.

        ``part`` is ``models`` or ``gpus``; a column that either row leaves out contradicts nothing.
        """
        key, rows = ("model_id", self.models) if part == "models" else ("gpu_id", self.gpus)
        own = rows.get(row[key], {})
        for name, value in row.items():
            if name not in _DESCRIPTIVE and own.get(name) not in (None, value):
                return (
                    f"{row[key]!r} is known already, with {name} = {own[name]!r}; found "
                    f"{value!r}; leave the description out, or give what you mean an id of its own"
                )
        return None

    def resolve_model(self, name: str) -> str | None:
        """Return the id of the model that is called ``name``, or None."""
        return name if name in self.models else self._model_aliases.get(_normalize(name))

    def resolve_gpu(self, name: str) -> str | None:
        """Return the id of the GPU that is called ``name``, or None."""
        return name if name in self.gpus else self._gpu_aliases.get(_normalize(name))

    def unknown_model(self, name: str) -> str:
        """Return the message about a model that is not in the catalogue, with the nearest id."""
        return _format_unknown("model", "models", name, self.models)

    def unknown_gpu(self, name: str) -> str:
        """Return the message about a GPU that is not in the catalogue, with the nearest id."""
        return _format_unknown("gpu", "gpus", name, self.gpus)

    @cached_property
    def _model_aliases(self) -> dict[str, str]:
        return _aliases("model_id", self.models.values(), ("hf_id",))

    @cached_property
    def _gpu_aliases(self) -> dict[str, str]:
        return _aliases("gpu_id", self.gpus.values(), ("name",))


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


def _format_unknown(kind: str, part: str, name: str, rows: Mapping[str, Row]) -> str:
    return (
        f"unknown {kind} {name!r}{did_you_mean(name, rows)}; expected an id of the catalogue "
        f"(list them with `registry query 'from {part}'`); to add one, describe it under "
        f"{part!r} of the submission"
    )
