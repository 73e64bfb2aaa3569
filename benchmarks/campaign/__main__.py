"""Do to registries whatever may happen to them, and count what is lost.

Run as ``python -m benchmarks.campaign [--kills N] [--quick] [--only PART]``, from the checkout. It
prints one table; the exit status is 1 where one of its bounds is broken.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.campaign.edits import EDITS, run_edits
from benchmarks.campaign.kills import Kills
from benchmarks.campaign.merges import run_merges
from benchmarks.campaign.writers import N_WRITERS, run_crowd

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.campaign.truth import Verdict

#: A line of the table: what was done, what was found, and whether that is within the bounds.
Line = tuple[str, str, bool]

_SEED = 7


def kill(folder: Path, options: argparse.Namespace) -> list[Line]:
    """Kill what writes."""
    kills = Kills(folder, random.Random(_SEED))  # noqa: S311 - instants, no secrets
    kills.run(60 if options.quick else options.kills)
    killed = ", ".join(f"{n} {name}" for name, n in sorted(kills.killed.items()))
    refused = [(f"  refused: {text}", "", False) for text in sorted(set(kills.refusals))[:10]]
    found = f"{_format(kills.verdict)}, {len(kills.refusals)} refused"
    is_good = kills.verdict.is_right and not kills.refusals
    return [(f"{kills.killed.total()} kills ({killed})", found, is_good), *refused]


def crowd(folder: Path, options: argparse.Namespace) -> list[Line]:
    """Write from many processes at once."""
    n_folds, n_reads = (3, 10) if options.quick else (20, 200)
    found = run_crowd(folder / "registry", n_folds=n_folds, n_reads=n_reads)
    done = f"{N_WRITERS} writers ({found.n_recorded} documents), {found.n_folds} folds, "
    is_good = found.verdict.is_right and not found.refusals
    is_good &= found.n_folds >= n_folds and found.n_reads >= n_reads
    text = f"{_format(found.verdict)}, {len(found.refusals)} refused"
    refused = [(f"  refused: {text}", "", False) for text in sorted(set(found.refusals))[:10]]
    return [(f"{done}{found.n_reads} reads", text, is_good), *refused]


def merge(folder: Path, _: argparse.Namespace) -> list[Line]:
    """Merge two branches that both folded."""
    lines = []
    for one in run_merges(folder):
        before = "wrong before the repair" if one.is_silently_wrong else "not misled before"
        is_good = one.verdict.is_right and not one.problems and not one.is_silently_wrong
        text = f"{before}; {_format(one.verdict)}, check finds {len(one.problems)}"
        lines.append((f"merge {one.name} ({one.n_conflicts} conflicts)", text, is_good))
    return lines


def edit(folder: Path, _: argparse.Namespace) -> list[Line]:
    """Edit what nobody should."""
    lines = []
    for report in run_edits(folder):
        named = "named" if report.is_named else "not named"
        restored = "restored" if report.is_restored else "not restored"
        answer = report.answer.partition(":")[0]
        lines.append((f"edit: {report.name}", f"{named}, {answer}, {restored}", report.is_good))
        if not report.is_good:
            lines.append((f"  {report.message}", "", False))
    good = sum(is_good for _, text, is_good in lines if text)
    return [*lines, (f"{len(EDITS)} edits", f"{good} as they should be", good == len(EDITS))]


PARTS: dict[str, Callable[[Path, argparse.Namespace], list[Line]]] = {
    "kills": kill,
    "writers": crowd,
    "merges": merge,
    "edits": edit,
}


def _format(verdict: Verdict) -> str:
    return f"{verdict.lost} lost, {verdict.doubled} doubled, {verdict.half} half"


def main() -> int:
    """Run the campaign; return 1 where a bound is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="processes to kill")
    parser.add_argument("--quick", action="store_true", help="a small run of everything")
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    options = parser.parse_args()
    lines: list[Line] = []
    for name, run in PARTS.items():
        if options.only in (None, name):
            sys.stderr.write(f"{name} ...\n")
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "work").mkdir()
                lines += run(Path(folder) / "work", options)
    for done, found, is_good in lines:
        print(f"{'ok ' if is_good else 'BAD'} {done:<56} {found}")
    return 0 if all(is_good for _, _, is_good in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
