"""Compare runs configuration by configuration."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from registry.comparison.matching import find_nearest, list_different, match_sides
from registry.comparison.remarks import (
    FAILED,
    has_seen_length,
    is_well,
    list_failures,
    list_remarks,
    span_lengths,
)
from registry.errors import QueryError
from registry.measure.ratios import (
    Noise,
    Ratio,
    choose_memory,
    choose_reader,
    choose_time,
    compare,
    compare_rounds,
    pool_noise,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Row = dict[str, Any]

#: Columns that identify a configuration for people.
_TELLING = ("model_id", "method", "quant_bits", "lora_rank", "seq_len", "micro_batch_size")

_ID_DIGITS = 12

#: What is said of a configuration of A that B has no run of, or none that came to an end.
MISSING = "was ok, is missing"


@dataclass(frozen=True)
class Compared:
    """One configuration on both sides."""

    label: str
    #: Ids of the runs that ended well.
    a: tuple[str, ...]
    b: tuple[str, ...]
    time: Ratio | None = None
    memory: Ratio | None = None
    #: Run times of a and b in seconds, by metric: the median of each side's runs.
    totals: dict[str, tuple[float, float]] = field(default_factory=dict)
    #: How many times as long a step of b takes on average, pauses and evaluations included: the
    #: medians over the runs of ``train_time`` over the steps; None where the runs lack either.
    mean_step: float | None = None
    #: What ended well before and does not any more.
    regression: str = ""
    note: str = ""
    #: What else the runs do not share, or what a reader must know of some of them.
    remarks: tuple[str, ...] = ()
    #: What the runs of a or of b have a figure of and not both: ``time``, ``memory``.
    unshared: tuple[str, ...] = ()
    #: Ids of the runs that ended in a failure.
    failed_a: tuple[str, ...] = ()
    failed_b: tuple[str, ...] = ()


def compare_sides(side_a: list[Row], side_b: list[Row]) -> list[Compared]:
    """Return the comparison of each configuration that ended well in A or fails on one side alone.

    Those that fail in B come first. Two single observations are compared whatever their
    configurations. Raises QueryError where nothing is shared.
    """
    if len(side_a) == 1 and len(side_b) == 1:
        return [compare_runs(side_a, side_b)]
    runs_a, runs_b = match_sides(side_a, side_b)
    if not runs_a.keys() & runs_b.keys():
        raise QueryError(
            f"{len(side_a)} and {len(side_b)} observations share no configuration"
            f"{''.join(f'; {each}' for each in list_failures(side_a, side_b))}; "
            f"{_describe_nearest(*find_nearest(runs_a, runs_b))}"
        )
    floors = _floors(runs for side in (runs_a, runs_b) for runs in side.values())
    found = [
        _compare_configuration(runs_a.get(key, []), runs_b.get(key, []), *floors)
        for key in dict.fromkeys((*runs_a, *runs_b))
        if _is_wanted(runs_a.get(key, []), runs_b.get(key, []))
    ]
    return sorted(found, key=_urgency)


def _is_wanted(runs_a: list[Row], runs_b: list[Row]) -> bool:
    """Return whether both sides ran it, it ended well in A, or it failed: all of that is named."""
    if runs_a and runs_b:
        return True
    return bool(_well(runs_a)) or any(run["outcome"] in FAILED for run in (*runs_a, *runs_b))


def _describe_nearest(a: Row, b: Row) -> str:
    one, other = (row["observation_id"][:_ID_DIGITS] for row in (a, b))
    difference = _difference(a, b) or f"settings of trials differ in {_list_told_apart(a, b)}"
    return (
        f"in the nearest two, {one} and {other}, the {difference}; expected the same configuration "
        "on both sides; compare two single observations by their ids: registry compare "
        f"{one} {other}"
    )


def _list_told_apart(a: Row, b: Row) -> str:
    first, second = (row["provenance"]["spec"]["settings"] for row in (a, b))
    names = sorted(n for n in first.keys() | second.keys() if first.get(n) != second.get(n))
    return ", ".join(names) or "the model"


def compare_runs(runs_a: list[Row], runs_b: list[Row]) -> Compared:
    """Return the comparison of runs of one thing on both sides, whatever their configurations.

    With one run on a side, the noise is that between the runs of the other.
    """
    note = _difference(runs_a[0], runs_b[0])
    return _compare_configuration(runs_a, runs_b, *_floors((runs_a, runs_b)), note)


def _urgency(compared: Compared) -> tuple[bool, bool, bool]:
    """Return what sorts comparisons: what fails in B first, and of that what runs out of memory."""
    return not compared.regression, "oom" not in compared.regression, bool(compared.b)


def _list_ids(runs: Iterable[Row]) -> tuple[str, ...]:
    return tuple(run["observation_id"][:_ID_DIGITS] for run in runs)


def _well(runs: list[Row]) -> list[Row]:
    return list(filter(is_well, runs))


def _floors(groups: Iterable[list[Row]]) -> tuple[Noise | None, Noise | None]:
    """Return the noise of time and of memory between all repeats in some groups of runs."""
    well = list(map(_well, groups))
    return _floor(well, choose_time), _floor(well, choose_memory)


def _floor(groups: list[list[Row]], choose: Any) -> Noise | None:
    """Return the noise between all repeats on both sides."""
    figures = []
    for runs in groups:
        chosen = choose(runs) if len(runs) > 1 else None
        if chosen is not None:
            figures.append([chosen[1](run) for run in runs])
    return pool_noise(figures)


def _compare_configuration(
    runs_a: list[Row],
    runs_b: list[Row],
    time_floor: Noise | None,
    memory_floor: Noise | None,
    note: str = "",
) -> Compared:
    a, b = _well(runs_a), _well(runs_b)
    if a and b and not note:
        note = _difference(a[0], b[0])
    time = _ratio(a, b, choose_time, time_floor)
    memory = _ratio(a, b, choose_memory, memory_floor)
    unshared = tuple(_list_unshared(a, b, time, memory))
    if "time" in unshared:
        both = choose_time(a) and choose_time(b)
        why = ": those of A and B are other metrics or statistics (mean, median)" if both else ""
        note = f"{note}; they have no time or rate in common{why}".removeprefix("; ")
    return Compared(
        label=_label(runs_a, runs_b),
        a=_list_ids(a),
        b=_list_ids(b),
        failed_a=_list_ids(run for run in runs_a if run["outcome"] in FAILED),
        failed_b=_list_ids(run for run in runs_b if run["outcome"] in FAILED),
        time=time,
        memory=memory,
        totals=_totals(a, b) if a and b else {},
        mean_step=_mean_step(a, b) if a and b else None,
        regression=_regression(runs_a, runs_b),
        note=note,
        remarks=tuple(list_remarks(runs_a, runs_b)),
        unshared=unshared,
    )


def _list_unshared(
    a: list[Row], b: list[Row], time: Ratio | None, memory: Ratio | None
) -> Iterator[str]:
    """Yield what cannot be compared; memory that no run has a figure of is not asked for."""
    if not (a and b):
        return
    if time is None:
        yield "time"
    if memory is None and any(choose_memory([run]) for run in (*a, *b)):
        yield "memory"


def _ratio(a: list[Row], b: list[Row], choose: Any, floor: Noise | None) -> Ratio | None:
    chosen = choose([*a, *b]) if a and b else None
    if chosen is None:
        return None
    metric, read = chosen
    rounds = _find_rounds(a, b) or _find_turns(a, b)
    if rounds:
        figures = [([read(run) for run in x], [read(run) for run in y]) for x, y in rounds]
        return compare_rounds(figures, metric=metric)
    ratio = compare([read(run) for run in a], [read(run) for run in b], floor=floor, metric=metric)
    if ratio.note is None and follow_each_other(a, b):
        return replace(ratio, note=_DRIFT)
    return ratio


_DRIFT = "the runs did not alternate: the interval does not cover drift between the sides"


def follow_each_other(a: Sequence[Row], b: Sequence[Row]) -> bool:
    """Return whether all runs of one side began after those of the other, and in no bench."""
    if _by_round(a).keys() & _by_round(b).keys():
        return False
    x, y = ([row["observed_at"] for row in rows if row.get("observed_at")] for rows in (a, b))
    return bool(x and y) and (max(x) < min(y) or max(y) < min(x))


def _find_rounds(a: list[Row], b: list[Row]) -> list[tuple[list[Row], list[Row]]]:
    """Return the runs of both sides by the rounds that they share, where these say enough.

    Runs of no shared round are left out: what else the machine did then is not known.
    """
    rounds_a, rounds_b = _by_round(a), _by_round(b)
    shared = [(runs, rounds_b[key]) for key, runs in rounds_a.items() if key in rounds_b]
    n_shared = sum(len(x) + len(y) for x, y in shared)
    return shared if len(shared) > 1 or n_shared == len(a) + len(b) else []


def _find_turns(a: list[Row], b: list[Row]) -> list[tuple[list[Row], list[Row]]]:
    """Return the runs in pairs, where they took turns: in their order, one of each side at a time.

    Of fewer pairs, intervals over pairs are wider than what drift there is.
    """
    if len(a) != len(b) or len(a) < _FEWEST_TURNS or not all(r.get("observed_at") for r in a + b):
        return []
    sides = [(run["observed_at"], side, run) for side, runs in enumerate((a, b)) for run in runs]
    ordered = sorted(sides, key=lambda entry: entry[:2])
    pairs = [
        sorted(pair, key=lambda entry: entry[1])
        for pair in zip(ordered[::2], ordered[1::2], strict=True)
    ]
    if any([side for _, side, _ in pair] != [0, 1] for pair in pairs):
        return []
    return [([first[2]], [second[2]]) for first, second in pairs]


#: Pairs from which on runs that took turns are compared pair by pair.
_FEWEST_TURNS = 4


def _by_round(runs: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for run in runs:
        provenance = run.get("provenance") or {}
        if "bench" in provenance:
            key = str(provenance["bench"]), str(provenance.get("round"))
            found.setdefault(key, []).append(run)
    return found


def _regression(runs_a: list[Row], runs_b: list[Row]) -> str:
    """Return how a configuration that ended well in A fails in B; empty where it does not."""
    failed_a, failed_b = (
        Counter(run["outcome"] for run in runs if run["outcome"] in FAILED)
        for runs in (runs_a, runs_b)
    )
    if not _well(runs_a):
        return ""
    if not (_well(runs_b) or failed_b):
        return MISSING
    worse = {
        outcome: n for outcome, n in failed_b.items() if not failed_a[outcome] or not _well(runs_b)
    }
    if not worse:
        return ""
    counts = ", ".join(f"{outcome} in {n} of {len(runs_b)}" for outcome, n in worse.items())
    return f"was ok, is {next(iter(worse))}" if len(runs_b) == 1 else f"was ok, is {counts} runs"


def _totals(a: list[Row], b: list[Row]) -> dict[str, tuple[float, float]]:
    found = {}
    for metric in ("train_time", "total_time"):
        read = choose_reader([*a, *b], metric)
        if read:
            one, other = ([read(run) or 0.0 for run in side] for side in (a, b))
            found[metric] = (statistics.median(one), statistics.median(other))
    return found


def _mean_step(a: list[Row], b: list[Row]) -> float | None:
    """Return the ratio of the times that a step takes on average, all that trains included."""
    time, steps = (choose_reader([*a, *b], metric) for metric in ("train_time", "n_steps"))
    if time is None or steps is None:
        return None
    one, other = (
        statistics.median((time(run) or 0.0) / (steps(run) or 1.0) for run in side)
        for side in (a, b)
    )
    return other / one if one else None


def _difference(a: Row, b: Row) -> str:
    """Return in which columns two configurations differ, lengths that were only seen left out."""
    configurations = a["configuration"], b["configuration"]
    is_seen = has_seen_length(a) and has_seen_length(b)
    names = [name for name in list_different(a, b) if not (is_seen and name == "seq_len")]
    texts = [_format_difference(name, *configurations) for name in names]
    return f"configurations differ in {', '.join(texts)}" if texts else ""


def _format_difference(name: str, a: Row, b: Row) -> str:
    values = a.get(name), b.get(name)
    if any(isinstance(value, list | dict) for value in values):
        return name
    before, after = ("not stated" if value is None else value for value in values)
    return f"{name} ({before} → {after})"


def _label(runs_a: Sequence[Row], runs_b: Sequence[Row]) -> str:
    """Return what people know a configuration by; its length is the span of what was seen."""
    runs = [*runs_a, *runs_b]
    stated = (_well(runs) or runs)[0]["configuration"]
    length = span_lengths(runs)
    return format_label({**stated, "seq_len": length} if length else stated)


def format_label(configuration: Row) -> str:
    """Return a short description of a configuration."""
    return (
        " ".join(
            f"{name.removesuffix('_id')}={configuration[name]}"
            for name in _TELLING
            if name in configuration
        )
        or "configuration not stated"
    )
