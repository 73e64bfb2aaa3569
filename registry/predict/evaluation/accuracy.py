"""The table of accuracy in the documentation, and the command that writes it.

``python -m registry.predict.evaluation.accuracy`` writes ``docs/accuracy.md`` of a checkout; with
``--check`` it says whether the file is what the code gives.
"""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from registry.predict.calibration.calibration_file import read_calibration
from registry.predict.evaluation.evaluate import JUDGED, LADDER, evaluate
from registry.predict.formula.published import ADAPTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.predict.evaluation.evaluate import Score

FILE_NAME = "accuracy.md"
#: What was asked of the predictions before the first was made: median, 90th percentile, by split.
TARGETS = {
    ("memory", "row"): (0.03, 0.12),
    ("memory", "model"): (0.04, 0.15),
    ("memory", "source"): (0.08, 0.20),
    ("time", "row"): (0.06, None),
    ("time", "model"): (0.13, None),
    ("time", "source"): (0.22, None),
}
TARGET_COVERAGE = (0.86, 0.94)
TARGET_FALSE_FITS = 0.005


def format_scores(scores: Sequence[Score]) -> str:
    """Return the scores as Markdown tables."""
    memory = [score for score in scores if score.figure == "memory"]
    time = [score for score in scores if score.figure == "time"]
    return "\n".join(
        [
            "## Peak memory of one device",
            "",
            *_table(memory, verdicts=True),
            "",
            "## Time per sample",
            "",
            *_table(time, verdicts=False),
            "",
        ]
    )


def _table(scores: Sequence[Score], *, verdicts: bool) -> list[str]:
    head = ["predictor", "held out", "rows", "median error", "90th percentile", "coverage"]
    head += ["half width", *(["false fits", "of decided", "undecided"] if verdicts else [])]
    rows = [_cells(score, verdicts=verdicts) for score in scores]
    line = ["---", "---", *["--:"] * (len(head) - 2)]
    return [f"| {' | '.join(cells)} |" for cells in (head, line, *rows)]


def _cells(score: Score, *, verdicts: bool) -> list[str]:
    cells = [score.predictor, _SPLITS[score.split], str(score.n_rows)]
    median, p90 = TARGETS.get((score.figure, score.split), (None, None))
    if score.predictor != "calibrated":
        median = p90 = None
    cells += [_share(score.median_error, median), _share(score.p90_error, p90)]
    cells += ["" if part is None else f"{part:.0%}" for part in (score.coverage, score.half_width)]
    if verdicts and score.verdicts:
        found = score.verdicts
        cells += [str(found.false_fits), f"{found.false_share:.2%}", str(found.undecided)]
    return cells


_SPLITS = {"row": "one row", "model": "one model", "source": "one source", "none": "nothing"}


def _share(value: float, target: float | None) -> str:
    if target is None:
        return f"{value:.2%}"
    reached = "reached" if value <= target else "missed"
    return f"{value:.2%} (≤ {target:.0%} {reached})"


def format_accuracy(scores: Sequence[Score]) -> str:
    """Return the page ``docs/accuracy.md``."""
    judged = ", ".join(f"`{name}`" for name in JUDGED)
    adapted = "\n".join(f"- **{name}**: {text}." for name, text in ADAPTED.items())
    ladder = ", ".join(str(size) for size in LADDER)
    page = (files("registry.predict.evaluation") / "accuracy_page.md").read_text(encoding="utf-8")
    return page.format(judged=judged, adapted=adapted, ladder=ladder, tables=format_scores(scores))


def write_accuracy(folder: Path) -> None:
    """Write the page into the folder of the documentation. Takes seconds."""
    (folder / FILE_NAME).write_text(_current(), encoding="utf-8")


def check_accuracy(folder: Path) -> list[str]:
    """Return the lines of the page that are not what the code gives."""
    path = folder / FILE_NAME
    if not path.is_file():
        return ["all of it"]
    written = path.read_text(encoding="utf-8").splitlines()
    current = _current().splitlines()
    return [line for line in current if line not in written]


def _current() -> str:
    return format_accuracy(evaluate(read_calibration().observations))


def main(arguments: Sequence[str], folder: Path) -> str | None:
    """Write or check the page; return what is wrong."""
    if list(arguments) not in ([], ["--check"]):
        return f"found {' '.join(arguments)!r}; expected nothing or --check"
    if not arguments:
        write_accuracy(folder)
        return None
    stale = check_accuracy(folder)
    way_out = "run `python -m registry.predict.evaluation.accuracy` and commit what it writes"
    return f"docs/{FILE_NAME}: not what the code gives; {way_out}" if stale else None


if __name__ == "__main__":
    # Matrices of this size are slower on many threads than on one where other work is running.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[3] / "docs"))
