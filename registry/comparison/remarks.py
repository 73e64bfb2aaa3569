"""What a reader must know of the runs of one configuration beside their ratios."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from registry.measure.ratios import find_figure
from registry.measure.releases import Change
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]

#: Outcomes that a run may have instead of ending well.
FAILED = ("oom", "error", "interrupted")


def is_well(run: Row) -> bool:
    """Return whether a run ended well."""
    return bool(run["outcome"] == "ok")


def is_recorded(run: Row) -> bool:
    """Return whether the recorder wrote a run down."""
    return "recorder" in (run.get("provenance") or {})


def has_seen_length(run: Row) -> bool:
    """Return whether a run's length is that of the longest of varying sequences that it saw.

    A loop never says how long its sequences may be, and of other jobs the record tells.
    """
    provenance = run.get("provenance") or {}
    is_seen = provenance.get("trainer") == "loop" or (
        is_recorded(run) and "seq_len" in (run.get("inferences") or {})
    )
    return is_seen and run["configuration"].get("length_distribution") == "variable"


def span_lengths(runs: Sequence[Row]) -> str:
    """Return the least and the largest of the lengths that runs saw; empty where they saw none.

    A run that failed has not seen all of its own.
    """
    seen = [
        run["configuration"]["seq_len"]
        for run in runs
        if is_well(run) and has_seen_length(run) and "seq_len" in run["configuration"]
    ]
    if not seen:
        return ""
    return str(min(seen)) if min(seen) == max(seen) else f"{min(seen)}-{max(seen)}"


def list_remarks(a: Sequence[Row], b: Sequence[Row]) -> Iterator[str]:
    """Yield failures, other commands, steps and lengths, and flags, of the runs of both sides."""
    yield from list_failures(a, b)
    for change in (_find_commands(a, b), _find_steps(a, b), _find_lengths(a, b)):
        if len({*change.a, *change.b}) > 1:
            yield f"differs: {change}"
    yield from _list_flags(a, b)


def _list_flags(a: Sequence[Row], b: Sequence[Row]) -> Iterator[str]:
    """Yield each flag of runs that ended well, and how many of which side have it."""
    found: dict[str, list[str]] = {}
    for name, runs in (("a", a), ("b", b)):
        well = list(filter(is_well, runs))
        flags = Counter(flag for run in well for flag in run.get("flags") or ())
        for flag, n in flags.items():
            found.setdefault(flag, []).append(_count(n, well, name))
    yield from (f"flagged {flag}: {', '.join(counts)}" for flag, counts in found.items())


def list_failures(a: Sequence[Row], b: Sequence[Row]) -> Iterator[str]:
    """Yield how many runs of each side ended in which failure, were not run, or do not say."""
    for name, runs in (("a", a), ("b", b)):
        failed = Counter(run["outcome"] for run in runs if not is_well(run))
        yield from (f"{outcome} in {_count(n, runs, name)}" for outcome, n in failed.items())


def _count(n: int, runs: Sequence[Row], name: str) -> str:
    return f"{n} of {len(runs)} {'run' if len(runs) == 1 else 'runs'} of {name}"


def _find_commands(a: Sequence[Row], b: Sequence[Row]) -> Change:
    sides = ({_read_command(run) for run in side} for side in (a, b))
    return Change("command", *(tuple(sorted(filter(None, side))) for side in sides))


def _read_command(run: Row) -> str:
    """Return the command of a run in a line, however it is stated; empty where it is not."""
    command = (run.get("provenance") or {}).get("command")
    if not command or isinstance(command, str):
        return command or ""
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return canonical_json(command)


def _find_steps(a: Sequence[Row], b: Sequence[Row]) -> Change:
    """Return the numbers of steps of runs that ended well: those of the others say nothing."""
    sides = ({find_figure(run, "n_steps") for run in side if is_well(run)} for side in (a, b))
    return Change("n_steps", *(tuple(f"{n:.0f}" for n in sorted(filter(None, s))) for s in sides))


def _find_lengths(a: Sequence[Row], b: Sequence[Row]) -> Change:
    sides = (tuple(filter(None, (span_lengths(side),))) for side in (a, b))
    return Change("longest sequence seen", *sides)
