"""Recorded observations as documents, for repeating and comparing them."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError, did_you_mean
from registry.measure.releases import HOW_TO_LABEL
from registry.store.ids import SHORTEST_PREFIX
from registry.store.observation_documents import as_document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.catalogue import Catalogue
    from registry.query.model import Read

Row = dict[str, Any]

#: What begins the selection of a label.
_LABEL = "label="

#: What the statement can select by.
_PARAMETERS = ("word", "prefix", "label", "observation_ids", "trial_ids", "package", "version")

#: Most ids that are named where several begin with a word.
_MOST_NAMED = 3

#: A package and the beginning of its version.
_PACKAGE = re.compile(r"([a-z][a-z0-9_-]*)={1,2}(\d[\w.+]*)")


def read_recorded(read: Read, word: str, catalogue: Catalogue | None = None) -> list[Row]:
    """Return the observations that a word selects.

    An observation's or environment's id (or its first digits), a source's id, a label
    (``label=main``), the version of a package (``peft=0.21``), or the path of a plan. What was
    withdrawn is left out. Raises QueryError where it selects none, or where several ids begin so.
    """
    if word.startswith(_LABEL):
        return _read_label(read, word.removeprefix(_LABEL))
    trial_ids = _trial_ids(word, catalogue) if word.endswith(".toml") else None
    package, version = match.groups() if (match := _PACKAGE.fullmatch(word)) else (None, None)
    stated = word if trial_ids is None else "-"
    found, withdrawn = _select(
        read,
        word=stated,
        prefix=stated if len(stated) >= SHORTEST_PREFIX else "-",
        trial_ids=trial_ids,
        package=package,
        version=version,
    )
    _validate_prefix(stated, [*found, *withdrawn])
    if not found:
        _refuse_withdrawn(word, withdrawn)
        raise QueryError(
            f"{word}: selects no observation; expected the id of an observation or an environment "
            "(at least 4 digits) or of a source, a label (label=main), a package's version "
            "(peft=0.21), or the path of a plan that was run; registry environments lists labels "
            "and versions"
        )
    return found


def read_observations(read: Read, observation_ids: Iterable[str]) -> list[Row]:
    """Return the observations with these ids, in the order of their time, unless withdrawn."""
    return _select(read, observation_ids=",".join(observation_ids))[0]


def _read_label(read: Read, label: str) -> list[Row]:
    found, withdrawn = _select(read, label=label)
    if not found:
        _refuse_withdrawn(f"{_LABEL}{label}", withdrawn)
        labels = read_labels(read)
        known = f"one of {', '.join(labels)}" if labels else "a label, which no run has yet"
        raise QueryError(
            f"{_LABEL}{label}: selects no observation{did_you_mean(label, labels)}; expected "
            f"{known}; a run gets one with: {HOW_TO_LABEL}"
        )
    return found


def _validate_prefix(word: str, rows: Iterable[Row]) -> None:
    """Raise QueryError where a word begins several ids: they have nothing else in common."""
    begun = set()
    for row in rows:
        if row["source_id"] == word:
            return
        ids = (row["observation_id"], row["environment"]["environment_id"])
        begun |= {one for one in ids if one.startswith(word)}
    if len(begun) > 1:
        raise QueryError(
            f"{word}: {len(begun)} ids of observations or environments start with this "
            f"({', '.join(sorted(begun)[:_MOST_NAMED])}{', …' if len(begun) > _MOST_NAMED else ''})"
            "; expected one; give more digits"
        )


def _refuse_withdrawn(word: str, withdrawn: list[Row]) -> None:
    """Raise QueryError where all that a word selects was withdrawn."""
    if withdrawn:
        last = withdrawn[-1]
        raise QueryError(
            f"{word}: selects only what was withdrawn ({last['observation_id'][:12]}: "
            f"{last['withdrawn']}); expected others; registry environments lists "
            "labels and versions that have some"
        )


def _select(read: Read, **chosen: str | None) -> tuple[list[Row], list[Row]]:
    """Return the observations that stand and those that were withdrawn, with the reason."""
    params = {**dict.fromkeys(_PARAMETERS), "word": "-", "prefix": "-", **chosen}
    rows = [as_document(row) for row in read(_read_sql("recorded"), params)]
    standing = [row for row in rows if "withdrawn" not in row]
    return standing, [row for row in rows if "withdrawn" in row]


def read_one(read: Read, observation_id: str) -> Row:
    """Return the one observation with this prefix, though it may have been withdrawn.

    Raises QueryError for none or several.
    """
    is_long = len(observation_id) >= SHORTEST_PREFIX
    found = [
        row
        for row in (chain(*_select(read, prefix=observation_id)) if is_long else [])
        if row["observation_id"].startswith(observation_id)
    ]
    if not found:
        raise QueryError(
            f"{observation_id}: found no observation whose id starts with this; expected the id "
            f"of one, or at least {SHORTEST_PREFIX} digits of it; registry ls lists them"
        )
    if len(found) > 1:
        raise QueryError(
            f"{observation_id}: {len(found)} observation ids start with this; expected one; give "
            "more digits"
        )
    return found[0]


def read_labels(read: Read) -> list[str]:
    """Return the labels of recorded runs, the newest first."""
    return [row["label"] for row in read(_read_sql("labels"), {})]


def _read_sql(name: str) -> str:
    return (files("registry.comparison") / f"{name}.sql").read_text(encoding="utf-8")


def _trial_ids(path: str, catalogue: Catalogue | None) -> str:
    from registry.measure.running.plan import read_plan  # noqa: PLC0415 - only for plans
    from registry.measure.running.trials import expand_trials  # noqa: PLC0415 - likewise

    return ",".join(trial.trial_id for trial in expand_trials(read_plan(Path(path)), catalogue))
