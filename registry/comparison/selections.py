"""Two selections of runs: whether they can be compared, and what else differs between them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.comparison.configurations import compare_sides, follow_each_other
from registry.comparison.matching import is_trial, match_sides
from registry.comparison.recorded import read_recorded
from registry.comparison.remarks import is_recorded
from registry.errors import QueryError
from registry.measure.releases import (
    DECISIVE,
    HOW_TO_LABEL,
    UNLABELLED,
    find_differences,
    find_pooled,
    read_label,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from registry.catalogue import Catalogue
    from registry.comparison.configurations import Compared
    from registry.comparison.matching import Groups
    from registry.measure.releases import Change
    from registry.query.model import Read

Row = dict[str, Any]

_ID_DIGITS = 12

#: How both sides of a comparison meet whatever else the machine does.
IN_TURNS_OF_PLANS = "for a plan, registry bench alternates A and B"
IN_TURNS_OF_COMMANDS = (
    "for a command, alternate registry run --label A -- CMD and registry run --label B -- CMD "
    "several times"
)


@dataclass(frozen=True)
class RunsOfSide:
    """Runs that a word selects."""

    word: str
    rows: Sequence[Row]


def compare_words(
    words: Sequence[str], read: Read, catalogue: Catalogue
) -> tuple[list[RunsOfSide], list[Compared]]:
    """Return the two selections that words name, and the comparison of each configuration.

    Raises QueryError or SourceError where a word selects nothing, or the two cannot be compared.
    """
    sides = [RunsOfSide(word, read_recorded(read, word, catalogue)) for word in words]
    validate_selections(*sides)
    return sides, compare_sides(*(list(side.rows) for side in sides))


def validate_selections(a: RunsOfSide, b: RunsOfSide) -> None:
    """Raise QueryError where a run stands on both sides: the ratio would say nothing."""
    identities = {row["observation_id"] for row in a.rows}
    shared = [row for row in b.rows if row["observation_id"] in identities]
    if not shared:
        return
    runs = "1 run is" if len(shared) == 1 else f"{len(shared)} runs are"
    pooled = format_pooled(find_pooled(shared))
    of_several = f", and they are from several releases ({pooled})" if pooled else ""
    raise QueryError(
        f"{a.word} and {b.word}: {runs} on both sides{of_several}; expected two sets of runs; "
        f"{_way_out([*a.rows, *b.rows])}"
    )


def _way_out(rows: Sequence[Row]) -> str:
    """Return the command that compares the oldest release in the runs with the newest."""
    rows = sorted(rows, key=lambda row: (row.get("observed_at") or "", _versions(row)))
    words = [f"label={label}" for label in _distinct(map(read_label, rows))]
    pairs = [_ends(words), *map(_apart, _by_version(rows)), _ends(_by_environment(rows))]
    pair = next(filter(None, pairs), None)
    if pair is not None:
        return f"compare them with: registry compare {shlex.join(pair)}"
    if words:
        new = "label=NAME"
        return (
            f"all are from one release; run the other one under its own label "
            f"({HOW_TO_LABEL}) and compare with: registry compare {shlex.join((*words, new))}"
        )
    return (
        "all are from one release, and without a label; run each release under its own label "
        f"({HOW_TO_LABEL}) and compare with: registry compare label=NAME label=OTHER"
    )


def _ends(words: Sequence[str]) -> tuple[str, str] | None:
    return (words[0], words[-1]) if len(words) > 1 else None


def _apart(words: Sequence[str]) -> tuple[str, str] | None:
    """Return the first and the last version that do not select each other, as 0.21 does 0.21.1."""
    dotted = [(word, f"{word}.") for word in words]
    pairs = (
        (first, last)
        for first, begin in dotted
        for last, end in reversed(dotted)
        if not begin.startswith(end) and not end.startswith(begin)
    )
    return next(pairs, None)


def _versions(row: Row) -> list[str]:
    return [row["environment"].get(f"{name}_version") or "" for name in DECISIVE]


def _by_version(rows: Sequence[Row]) -> Iterator[list[str]]:
    for name in DECISIVE:
        versions = _distinct(row["environment"].get(f"{name}_version") for row in rows)
        yield [f"{name}={version}" for version in versions]


def _by_environment(rows: Sequence[Row]) -> list[str]:
    return _distinct(row["environment"]["environment_id"][:_ID_DIGITS] for row in rows)


def _distinct(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value is not None))


def narrow_to_shared(a: RunsOfSide, b: RunsOfSide) -> tuple[RunsOfSide, RunsOfSide]:
    """Return the runs of the configurations that both have; all of them where they share none."""
    groups_a, groups_b = match_sides(a.rows, b.rows)
    shared = groups_a.keys() & groups_b.keys()
    return (_narrow(a, groups_a, shared), _narrow(b, groups_b, shared)) if shared else (a, b)


def _narrow(side: RunsOfSide, groups: Groups, wanted: AbstractSet[str]) -> RunsOfSide:
    return RunsOfSide(side.word, [row for key in groups if key in wanted for row in groups[key]])


def list_differences(a: RunsOfSide, b: RunsOfSide) -> list[Change]:
    """Return what differs between the environments of two selections."""
    return find_differences(a.rows, b.rows)


def check_selections(a: RunsOfSide, b: RunsOfSide) -> Iterator[str]:
    """Yield what a reader must know: several releases on a side, sides that did not take turns."""
    for name, selection in (("A", a), ("B", b)):
        pooled = format_pooled(_find_pooled_within(selection.rows))
        if pooled:
            yield (
                f"{name} ({selection.word}) pools runs from several releases: {pooled}; select one "
                "by its label or version (registry environments lists them)"
            )
    if follow_each_other(a.rows, b.rows):
        yield (
            "the runs of A and B did not alternate, so whatever changed on the machine between "
            f"them also affects the ratio; {_take_turns([*a.rows, *b.rows])}"
        )


def _take_turns(rows: Sequence[Row]) -> str:
    """Return what has plans take turns, or commands, whichever was run; both where nobody knows."""
    are_trials = [is_trial(row) for row in rows]
    if all(are_trials):
        return IN_TURNS_OF_PLANS
    if all(map(is_recorded, rows)) and not any(are_trials):
        return IN_TURNS_OF_COMMANDS
    return f"{IN_TURNS_OF_PLANS}; {IN_TURNS_OF_COMMANDS}"


def _find_pooled_within(rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Return what is pooled in any configuration."""
    groups, _ = match_sides(rows, ())
    found: dict[str, set[str]] = {}
    for group in groups.values():
        for name, values in find_pooled(group).items():
            found.setdefault(name, set()).update(values)
    return {name: tuple(sorted(values)) for name, values in found.items()}


def format_pooled(pooled: dict[str, tuple[str, ...]]) -> str:
    """Return what several releases do not share: the label and decisive packages, else the rest."""
    telling = [name for name in ("label", *DECISIVE) if name in pooled] or list(pooled)
    return "; ".join(f"{name} {_list(pooled[name])}" for name in telling)


def _list(values: Sequence[str]) -> str:
    return ", ".join("none" if value == UNLABELLED else value for value in values)
