"""Which runs of two sides are of one configuration."""

from __future__ import annotations

from itertools import chain, islice, product
from typing import TYPE_CHECKING, Any

from registry.comparison.remarks import FAILED, has_seen_length, is_recorded
from registry.measure.releases import read_label
from registry.submission.identity import canonical_json, configuration_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Row = dict[str, Any]

#: The runs of one side by what tells their configurations apart.
Groups = dict[str, list[Row]]

#: Settings of a trial that do not change what is measured.
_OF_ONE_RUN = ("repeat", "timeout_seconds")

_ID = "configuration_id"

#: What the batches show that a run has had until it ends.
_LENGTH = ("seq_len", "length_distribution")

#: Configurations of a side among which the nearest pair is looked for.
_MOST_LOOKED_AT = 300


def match_sides(side_a: Sequence[Row], side_b: Sequence[Row]) -> tuple[Groups, Groups]:
    """Return the runs of each side by configuration, under the same keys on both sides.

    Trials of plans are of the same configuration where they were told the same, whatever their
    releases made of it. A length that was only seen does not tell other runs apart, and neither
    does what a run could not state because it failed early.
    """
    if all(map(is_trial, chain(side_a, side_b))):
        return _group(side_a, _told), _group(side_b, _told)
    seen = {_without_length(row) for row in chain(side_a, side_b) if has_seen_length(row)}

    def identify(row: Row) -> str:
        key = _without_length(row)
        return key if key in seen else str(row["configuration"][_ID])

    return _place_early_failures(_group(side_a, identify), _group(side_b, identify))


def find_repeats(run: Row, others: Sequence[Row]) -> list[Row]:
    """Return those of other runs that were told the same, or are of the same configuration.

    They are of the same release in the same environment as well.
    """
    wanted = _release(run)
    alike = [other for other in others if _release(other) == wanted]
    of_run, of_others = match_sides([run], alike)
    return [each for key in of_run for each in of_others.get(key, ())]


def _release(run: Row) -> tuple[bool, str | None, str | None]:
    environment = run.get("environment") or {}
    return is_trial(run), environment.get("environment_id"), read_label(run)


def list_different(a: Row, b: Row) -> list[str]:
    """Return the columns in which the configurations of two runs differ."""
    first, second = a["configuration"], b["configuration"]
    return sorted(
        name
        for name in first.keys() | second.keys()
        if name != _ID and first.get(name) != second.get(name)
    )


def find_nearest(groups_a: Groups, groups_b: Groups) -> tuple[Row, Row]:
    """Return the first runs of those two configurations that differ in the fewest columns."""
    firsts_a, firsts_b = (
        islice((runs[0] for runs in groups.values()), _MOST_LOOKED_AT)
        for groups in (groups_a, groups_b)
    )
    return min(product(firsts_a, firsts_b), key=lambda pair: len(list_different(*pair)))


def _group(side: Iterable[Row], identify: Callable[[Row], str]) -> Groups:
    found: Groups = {}
    for row in side:
        found.setdefault(identify(row), []).append(row)
    return found


def _told(row: Row) -> str:
    """Return what a trial was told, its repeat and its time-out left out; empty where unknown."""
    spec = (row.get("provenance") or {}).get("spec")
    if not isinstance(spec, dict) or not isinstance(settings := spec.get("settings"), dict):
        return ""
    told = {name: value for name, value in settings.items() if name not in _OF_ONE_RUN}
    return canonical_json([told, spec.get("model")])


def is_trial(row: Row) -> bool:
    """Return whether a run was a trial of a plan."""
    return bool(_told(row))


def _without_length(row: Row) -> str:
    """Return the id of a recorded run's configuration but for its longest sequence.

    Empty where all sequences had one length, or where nobody recorded them.
    """
    configuration = row["configuration"]
    if not is_recorded(row) or configuration.get("length_distribution") != "variable":
        return ""
    return configuration_id({k: v for k, v in configuration.items() if k not in (_ID, "seq_len")})


def _place_early_failures(groups_a: Groups, groups_b: Groups) -> tuple[Groups, Groups]:
    """Return the runs of both sides, failed ones under the one configuration that they fit.

    A run that ended before its first step states less than one that went on, and is of the same
    configuration all the same.
    """
    first = {key: runs[0] for groups in (groups_b, groups_a) for key, runs in groups.items()}
    fitting = {
        key: [other for other in first if other != key and _fits(first[key], first[other])]
        for key in first
        if all(
            run["outcome"] in FAILED
            for groups in (groups_a, groups_b)
            for run in groups.get(key, ())
        )
    }
    places = {}
    for key, others in fitting.items():
        whole = [other for other in others if not fitting.get(other)]
        if len(whole) == 1:
            places[key] = whole[0]
    return _move(groups_a, places), _move(groups_b, places)


def _move(groups: Groups, places: dict[str, str]) -> Groups:
    moved: Groups = {}
    for key, runs in groups.items():
        moved.setdefault(places.get(key, key), []).extend(runs)
    return moved


def _fits(run: Row, other: Row) -> bool:
    """Return whether a run states nothing that another one contradicts."""
    stated, of_other = run["configuration"], other["configuration"]
    if any(
        of_other.get(name) != value for name, value in stated.items() if name not in (_ID, *_LENGTH)
    ):
        return False
    return _fits_length(run, other)


def _fits_length(run: Row, other: Row) -> bool:
    """Return whether the sequences of a run that failed may be those of another.

    The first of sequences that vary may all have had one length.
    """
    stated, of_other = run["configuration"], other["configuration"]
    if all(name not in stated or stated[name] == of_other.get(name) for name in _LENGTH):
        return True
    is_full = is_recorded(run) and stated.get("length_distribution") == "full"
    if not is_full or of_other.get("length_distribution") != "variable":
        return False
    return has_seen_length(other) or stated["seq_len"] <= of_other.get("seq_len", 0)
