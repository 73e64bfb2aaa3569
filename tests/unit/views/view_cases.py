"""Cases of the views: figures in, rows out, as ``cases/*.yaml`` states them.

A case states one observation (``figures``, ``configuration``, …) or several ``runs``, and the row
or rows that its view gives for them, of which the columns that are named count. What is stated
beside ``runs`` holds for each of them; a null takes it away. ``later`` are further submissions, one
a run. Runs have names (a, b, … where not stated), which stand for observation ids in the rows.
A case that ``awaits`` something is not handed in until that is there; one that ``fails`` names a
known fault of the registry, with the routes (see the tests) on which it shows.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.contract import view_names
from registry.contract.resources import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from registry import Registry

    Row = dict[str, Any]

CASES = Path(__file__).parent / "cases"

#: The column that tells whose row it is; source_id where not named.
OWNERS = {
    "conflicts": "observation_id",
    "coverage": "model_id",
    "implausible": "observation_id",
    "max_seq_len": "model_id",
}

#: When a registry is folded: never, at the end, or between the first submissions and the later.
ROUTES = ("pending", "folded", "folded between")

_RUN_COLUMNS = (
    "outcome",
    "evidence",
    "model_reported",
    "observed_at",
    "flags",
    "inferences",
    "citations",
    "environment",
    "samples",
)


@dataclass(frozen=True)
class Case:
    """One case as its file states it."""

    view: str
    stated: Mapping[str, Any]

    @property
    def slug(self) -> str:
        """The claim as an id: its model and its source are called so."""
        return re.sub(r"[^a-z0-9]+", "-", self.stated["claim"].lower()).strip("-")

    @property
    def awaits(self) -> str | None:
        """What must be there before the case holds."""
        return self.stated.get("awaits")

    @property
    def retracted(self) -> Collection[str]:
        """The runs that are withdrawn once they were handed in."""
        return list(self.stated.get("retracted", ()))

    def fails(self, route: str) -> str | None:
        """Why the case does not hold yet on a route; None where it does."""
        known = self.stated.get("fails", {})
        return known.get("because") if route in known.get("when", [route]) else None

    @property
    def rows(self) -> list[Row]:
        """The rows that the view gives."""
        return list(self.stated.get("rows", [self.stated.get("row")]))

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the submissions that hand the case in, the first and those that come later."""
        runs = self.stated.get("runs", [{}])
        yield self._document(self.slug, runs)
        for run in self.stated.get("later", ()):
            yield self._document(run.get("source", self.slug), [run])

    def _document(self, source_id: str, runs: Sequence[Row]) -> dict[str, Any]:
        return {
            "source": {"source_id": source_id, "kind": "document"},
            "models": [{"model_id": self.slug, **self.stated.get("model", {})}],
            "gpus": self.stated.get("gpus", []),
            "observations": [self._observation(run, "abcdef"[i % 6]) for i, run in enumerate(runs)],
        }

    def _observation(self, run: Row, name: str) -> dict[str, Any]:
        both = {**self.stated, **run}
        configuration = {
            "model_id": self.slug,
            "method": "lora",
            **self.stated.get("configuration", {}),
            **run.get("configuration", {}),
        }
        return {
            "outcome": "ok",
            "run_id": both.get("run", name),
            **{column: both[column] for column in _RUN_COLUMNS if column in both},
            "configuration": {k: v for k, v in configuration.items() if v is not None},
            "measurements": both.get("figures", []),
        }


def load_cases() -> list[Case]:
    """Return the cases of all files, in their order."""
    return [
        Case(stated.get("view") or _view_of(path), stated)
        for path in sorted(CASES.glob("*.yaml"))
        for stated in parse_yaml(path.read_bytes())
    ]


def list_ready(cases: Iterable[Case]) -> list[Case]:
    """Return the cases that await nothing."""
    return [case for case in cases if case.awaits is None]


def hand_in(opened: Registry, cases: Iterable[Case], *, later: bool) -> None:
    """Add the first submission of each case, or those that come later."""
    chosen = slice(1, None) if later else slice(1)
    handed = [(case, document) for case in cases for document in [*case.documents()][chosen]]
    for (case, document), added in zip(
        handed, opened.add_many(document for _, document in handed), strict=True
    ):
        runs = [observation["run_id"] for observation in document["observations"]]
        for run, identity in zip(runs, added.observation_ids, strict=True):
            if run in case.retracted and not later:
                opened.retract(identity, reason="the case says so")


def take_route(opened: Registry, cases: Iterable[Case], route: str) -> None:
    """Add what comes later to a registry of the first submissions, and fold it when it is time."""
    if route == "folded between":
        opened.fold()
    hand_in(opened, cases, later=True)
    if route == "folded":
        opened.fold()


def _view_of(path: Path) -> str:
    return max((name for name in view_names() if path.stem.startswith(name)), key=len)


@dataclass(frozen=True)
class Names:
    """Whose an observation is: its case's source and the name of its run, by id."""

    sources: Mapping[str, str]
    runs: Mapping[str, str]

    @classmethod
    def of(cls, observations: Iterable[Row]) -> Names:
        """Return the names of the rows of ``observations``."""
        rows = list(observations)
        return cls(
            {row["observation_id"]: row["source_id"] for row in rows},
            {row["observation_id"]: row["run_id"] for row in rows},
        )


def read_names(opened: Registry) -> Names:
    """Return the names of all observations of a registry."""
    sql = "select observation_id, source_id, run_id from observations"
    return Names.of(opened.query(sql).rows())


def find_problems(case: Case, rows: Iterable[Row], names: Names) -> list[str]:
    """Return where the rows of a view are not those of the case; ``rows`` may hold others' too.

    Each row that the case states must be one row of the view, and each row of the view one of them.
    """
    owner = OWNERS.get(case.view, "source_id")
    found = [
        _named(row, names) for row in rows if names.sources.get(row[owner], row[owner]) == case.slug
    ]
    matches = [[row for row in found if _agrees(row, expected)] for expected in case.rows]
    return [
        *(
            f"{len(m)} rows for {row}"
            for row, m in zip(case.rows, matches, strict=True)
            if len(m) != 1
        ),
        *(f"not expected {row}" for row in found if [row] not in matches),
    ]


def _named(row: Row, names: Names) -> Row:
    """Return a row with names of runs for ids; the pairs of `conflicts` in the order of names."""
    ids = ("observation_id", "other_observation_id")
    named = {k: names.runs.get(v, v) if k in ids else v for k, v in row.items()}
    is_pair = "ratio" in row  # the rows of `implausible` have a direction
    if is_pair and (named.get("other_observation_id") or "z") < (named.get("observation_id") or ""):
        named |= {
            "observation_id": named["other_observation_id"],
            "other_observation_id": named["observation_id"],
            "value": row["other_value"],
            "other_value": row["value"],
            "ratio": 1 / row["ratio"] if row["ratio"] else None,
        }
    return named


def _agrees(row: Row, expected: Row) -> bool:
    return all(name in row and _same(row[name], value) for name, value in expected.items())


def _same(found: Any, expected: Any) -> bool:
    if type(found) is not type(expected):
        return hasattr(found, "astimezone") and bool(found == expected)
    if isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-9)
    return bool(found == expected)
