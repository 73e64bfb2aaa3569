"""Print how good other estimators are on the rows of ``docs/accuracy.md``, with ours beside.

``python -m benchmarks.peers [--eleuther FILE] [--held-out]``: fitcheck-llm is asked where it is
installed, EleutherAI's calculator where its script is given. A peer is judged on the rows that it
answers, each source with the same weight, and so is ours on the same rows.
"""

from __future__ import annotations

import argparse
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers import eleuther, fitcheck_llm, fm_estimator
from benchmarks.peers.refused import Refused
from registry.api import open_registry
from registry.predict.calibration.mixture import Interval
from registry.predict.calibration.runs import PURPOSES, read_observations
from registry.predict.evaluation.evaluate import Judged, judge_peaks, score
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.formula.published import PUBLISHED
from registry.store.folder import curated_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question

    Peer = Callable[[Question], float]

_HEAD = "| {:<28} | {:>8} | {:>7} | {:>7} | {:>7} | {:>12} | {:>9} |"


def main() -> None:
    """Print the table, and why each peer refuses what it refuses."""
    arguments = _parse()
    given = read_observations(open_registry(curated_dir()))
    seen = [one for one in given if one.purpose == PURPOSES[0]]
    rows = [one for one in seen if one.measured_memory]
    held_out = judge_peaks(seen) if arguments.held_out else ()
    ours = {one.observation_id: one for one in held_out} or _by_id(rows)
    print(f"{len(rows)} rows of {len({one.source_id for one in rows})} sources")
    titles = ("answered", "refused", "median", "p90", "ours: median", "ours: p90")
    print(_HEAD.format("", *titles))
    for name, peer in _peers(arguments.eleuther).items():
        _report(name, peer, rows, ours)
    _report("our formula alone", _ours, rows, ours)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--eleuther", type=Path, help="calc_transformer_mem.py of the cookbook")
    parser.add_argument(
        "--held-out", action="store_true", help="ours calibrated, each source held out (minutes)"
    )
    return parser.parse_args()


def _peers(script: Path | None) -> Mapping[str, Peer]:
    peers: dict[str, Peer] = dict(PUBLISHED)
    peers["fm-training-estimator"] = fm_estimator.answer
    if find_spec("fitcheck") is not None:
        peers["fitcheck-llm"] = fitcheck_llm.answer
    if script is not None:
        peers["EleutherAI's calculator"] = eleuther.load(script)
    return peers


def _ours(question: Question) -> float:
    return total(memory_terms(question))


def _by_id(rows: Sequence[ObservedRun]) -> dict[str, Judged]:
    return {one.observation_id: _judged(one, _ours(one.asked or one.question)) for one in rows}


def _judged(one: ObservedRun, value: float) -> Judged:
    return Judged(one.source_id, Interval(value, value, value), one.peak_bytes or 0.0)


def _report(name: str, peer: Peer, rows: Sequence[ObservedRun], ours: Mapping[str, Judged]) -> None:
    judged, same, refused = [], [], Counter[str]()
    for one in rows:
        try:
            judged.append(_judged(one, peer(one.asked or one.question)))
        except Refused as reason:
            refused[str(reason)[:60]] += 1
        else:
            same.append(ours[one.observation_id])
    theirs, beside = score(name, judged), score("ours", same)
    shares = (theirs.median_error, theirs.p90_error, beside.median_error, beside.p90_error)
    cells = (f"{share:.1%}" for share in shares)
    print(_HEAD.format(name, len(judged), refused.total(), *cells))
    for reason, count in refused.most_common(8):
        print(f"    refused {count}: {reason}")


if __name__ == "__main__":
    main()
