"""What the parts of a submission hold, from ``schemas/submission.yaml``."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import load_table
from registry.contract.resources import read_yaml

if TYPE_CHECKING:
    from registry.contract import Column


@dataclass(frozen=True)
class PartSpec:
    """One part of a submission: its own columns, and the parts nested in it."""

    name: str
    table: str | None = None
    columns: dict[str, Column] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    as_text: tuple[str, ...] = ()
    nested: dict[str, NestedSpec] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the part may have."""
        version = ("schema_version",) if self.name == "Submission" else ()
        return (*version, *self.columns, *self.nested)


@dataclass(frozen=True)
class NestedSpec:
    """A part nested in another, or a list of them."""

    part: PartSpec
    many: bool = False
    required: bool = False
    #: Whether a part that is left out stays out; otherwise it is an empty one.
    optional: bool = False
    max_items: int | None = None


@lru_cache(maxsize=16)
def part_spec(name: str = "Submission") -> PartSpec:
    """Return what a part of a submission holds, from ``schemas/submission.yaml``."""
    entry = read_yaml("submission.yaml")["parts"][name]
    filled_in = entry.get("filled_in", ())
    columns = load_table(entry["table"]).columns if "table" in entry else ()
    return PartSpec(
        name,
        entry.get("table"),
        {column.name: column for column in columns if column.name not in filled_in},
        entry.get("defaults", {}),
        tuple(entry.get("as_text", ())),
        {
            key: NestedSpec(**{**nested, "part": part_spec(nested["part"])})
            for key, nested in entry.get("nested", {}).items()
        },
    )


def keep_known(document: Any, part: PartSpec | None = None) -> Any:
    """Return a document without the columns that the contract lacks, which another one had."""
    part = part or part_spec()
    if isinstance(document, list):
        return [keep_known(item, part) for item in document]
    if not isinstance(document, dict):
        return document
    return {
        name: keep_known(value, part.nested[name].part) if name in part.nested else value
        for name, value in document.items()
        if name in part.names
    }
