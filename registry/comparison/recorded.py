"""Recorded observations as documents, for repeating and comparing them."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError, did_you_mean
from registry.measure.releases import HOW_TO_LABEL
from registry.measure.running.plan import read_plan
from registry.measure.running.trials import expand_trials
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

#: A package and the beginning of its version.
_PACKAGE = re.compile(r"([a-z][a-z0-9_-]*)={1,2}(\d[\w.+]*)")


def read_recorded(read: Read, word: str, catalogue: Catalogue | None = None) -> list[Row]:
    """Return the observations that a word selects.

    An observation's or environment's id (or its first digits), a source's id, a label
    (``label=main``), the version of a package (``peft=0.21``), or the path of a plan. Raises
    QueryError where it selects none.
    """
    if word.startswith(_LABEL):
        return _read_label(read, word.removeprefix(_LABEL))
    trial_ids = _trial_ids(word, catalogue) if word.endswith(".toml") else None
    package, version = match.groups() if (match := _PACKAGE.fullmatch(word)) else (None, None)
    stated = word if trial_ids is None else "-"
    found = _select(
        read,
        word=stated,
        prefix=stated if len(stated) >= SHORTEST_PREFIX else "-",
        trial_ids=trial_ids,
        package=package,
        version=version,
    )
    if not found:
        raise QueryError(
            f"{word}: selects no observation; expected the id of an observation or an environment "
            "(at least 4 digits) or of a source, a label (label=main), a package's version "
            "(peft=0.21), or the path of a plan that was run; registry environments lists labels "
            "and versions"
        )
    return found


def read_observations(read: Read, observation_ids: Iterable[str]) -> list[Row]:
    """Return the observations with these ids, in the order of their time."""
    return _select(read, observation_ids=",".join(observation_ids))


def _read_label(read: Read, label: str) -> list[Row]:
    found = _select(read, label=label)
    if not found:
        labels = read_labels(read)
        known = f"one of {', '.join(labels)}" if labels else "a label, which no run has yet"
        raise QueryError(
            f"{_LABEL}{label}: selects no observation{did_you_mean(label, labels)}; expected "
            f"{known}; a run gets one with: {HOW_TO_LABEL}"
        )
    return found


def _select(read: Read, **chosen: str | None) -> list[Row]:
    params = {**dict.fromkeys(_PARAMETERS), "word": "-", "prefix": "-", **chosen}
    rows = read(_read_sql("recorded"), params)
    return [as_document(row) for row in rows]


def read_one(read: Read, observation_id: str) -> Row:
    """Return the one observation with this prefix; raise QueryError for none or several."""
    is_long = len(observation_id) >= SHORTEST_PREFIX
    found = [
        row
        for row in (_select(read, prefix=observation_id) if is_long else [])
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
    return ",".join(trial.trial_id for trial in expand_trials(read_plan(Path(path)), catalogue))
