"""Which release a run was of: the label that it was given, and the versions of what it loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError, excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Row = dict[str, Any]

#: What stands for a label where a run has none.
UNLABELLED = "no label"

#: How a run gets a label.
HOW_TO_LABEL = "registry run --label NAME -- CMD, or registry run PLAN --label NAME"

#: Packages that make a release, the one first that tells the most.
DECISIVE = ("peft", "transformers", "trl", "accelerate", "bitsandbytes", "torch")

_LONGEST_LABEL = 100

_VERSION = "_version"

#: Columns of an environment that are neither versions nor part of the machine.
_OTHER = ("environment_id", "framework", "packages", "settings")


def parse_label(text: str) -> str:
    """Return the name of a release; raise SourceError where it is none that can be shown.

    >>> parse_label("peft main@4f1c2d")
    'peft main@4f1c2d'
    """
    label = text.strip()
    if not label or not label.isprintable() or len(label) > _LONGEST_LABEL:
        raise SourceError(
            f"label: found {excerpt(text)}; expected a name of 1 to {_LONGEST_LABEL} characters "
            "that can be shown, such as 'v2' or 'peft 0.21'"
        )
    return label


def add_provenance(submission: Row, **entries: Any) -> Row:
    """Return a submission whose observations say more of how they were made."""
    observations = [
        {**each, "provenance": {**each.get("provenance", {}), **entries}}
        for each in submission["observations"]
    ]
    return {**submission, "observations": observations}


def read_label(observation: Mapping[str, Any]) -> str | None:
    """Return the label of a recorded run; None where it has none."""
    label = (observation.get("provenance") or {}).get("label")
    return label if isinstance(label, str) else None


def list_versions(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of each package and program that an environment names.

    >>> list_versions({"peft_version": "0.21.0", "cpu": "x", "packages": {"numpy": "2.3.1"}})
    {'peft': '0.21.0', 'numpy': '2.3.1'}
    """
    columns = {
        name.removesuffix(_VERSION): str(value)
        for name, value in environment.items()
        if name.endswith(_VERSION) and name != "framework_version" and value is not None
    }
    if environment.get("framework"):
        version = environment.get("framework_version")
        columns["framework"] = " ".join(filter(None, (environment["framework"], version)))
    return columns | dict(environment.get("packages") or {})


def list_machine(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an environment says of the machine, and of variables and switches.

    >>> list_machine({"peft_version": "0.21.0", "n_cpus": 2, "settings": {"OMP_NUM_THREADS": "1"}})
    {'n_cpus': 2, 'OMP_NUM_THREADS': '1'}
    """
    columns = {
        name: value
        for name, value in environment.items()
        if not name.endswith(_VERSION) and name not in _OTHER and value is not None
    }
    return columns | dict(environment.get("settings") or {})


@dataclass(frozen=True)
class Change:
    """What is not the same on two sides: all values on each, as text."""

    name: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    def __str__(self) -> str:
        """Return the change in words."""
        sides = (", ".join(values) or "not stated" for values in (self.a, self.b))
        return f"{self.name}: " + " → ".join(sides)


def find_differences(side_a: Sequence[Row], side_b: Sequence[Row]) -> list[Change]:
    """Return what differs between the environments of two sides, versions first.

    What one side does not state at all is left out: a run that failed early has loaded less.
    """
    found = []
    for listed in (list_versions, list_machine):
        a, b = (_gather(map(listed, _environments(side))) for side in (side_a, side_b))
        found += [
            Change(name, tuple(sorted(a[name])), tuple(sorted(b[name])))
            for name in a
            if name in b and a[name] != b[name]
        ]
    return found


def find_pooled(side: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Return what runs that should be of one release do not share: label, and versions by name."""
    labels = {read_label(row) or UNLABELLED for row in side}
    found = {"label": labels, **_gather(map(list_versions, _environments(side)))}
    return {name: tuple(sorted(values)) for name, values in found.items() if len(values) > 1}


def find_telling(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names whose values tell some tables apart, in order."""
    return [name for name, values in _gather(tables).items() if len(values) > 1]


def _environments(side: Iterable[Row]) -> list[Row]:
    return [row.get("environment") or {} for row in side]


def _gather(tables: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for table in tables:
        for name, value in table.items():
            found.setdefault(name, set()).add(str(value))
    return found
