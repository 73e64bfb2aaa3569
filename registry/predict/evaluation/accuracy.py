"""The page of accuracy in the documentation, and the command that writes it.

``python -m registry.predict.evaluation.accuracy`` writes ``docs/accuracy.md`` of a checkout. It
takes minutes; the tests judge two sources and hold their lines against the page.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from registry.api import open_registry
from registry.predict.calibration.runs import read_observations
from registry.predict.evaluation.dry_runs import score_dry_runs
from registry.predict.evaluation.evaluate import Evaluation, evaluate, held_back
from registry.predict.formula.published import ADAPTED
from registry.store.folder import curated_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.predict.evaluation.evaluate import Score

FILE_NAME = "accuracy.md"

_HEAD = (
    *("", "rows", "median error", "90th percentile", "coverage", "half width"),
    *("false fits", "false refusals", "undecided"),
)


def format_evaluation(found: Evaluation) -> str:
    """Return the scores as Markdown tables, each below its heading."""
    sections = {
        "Peak memory, each source held out, asked as it states its runs": found.stated,
        "The same, asked with all that is known of the source's software": found.informed,
        "Other formulas on the same rows": found.peers,
        "Peak memory, one row held out, its source and stack known": found.near,
        "Time per sample, each source held out": found.time,
    }
    return "\n".join(
        line
        for title, scores in sections.items()
        for line in (f"## {title}", "", *format_table(scores), "")
    )


def format_table(scores: Iterable[Score]) -> list[str]:
    """Return scores as the lines of a Markdown table."""
    line = ["---", *["--:"] * (len(_HEAD) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (_HEAD, line, *map(_cells, scores))]


def _cells(score: Score) -> list[str]:
    shares = (
        *(score.median_error, score.p90_error, score.coverage, score.half_width),
        *(score.false_fits, score.false_refusals, score.undecided),
    )
    name = f"{score.name} *" if score.name in held_back() else score.name
    cells = ["" if share is None else f"{share:.1%}" for share in shares]
    return [name, str(score.n_rows), *cells]


def format_accuracy(found: Evaluation, dry_runs: Iterable[Score]) -> str:
    """Return the page ``docs/accuracy.md``."""
    adapted = "\n".join(f"- **{name}**: {text}." for name, text in ADAPTED.items())
    page = (files("registry.predict.evaluation") / "accuracy_page.md").read_text(encoding="utf-8")
    return page.format(
        adapted=adapted,
        tables=format_evaluation(found),
        dry_runs="\n".join(format_table(dry_runs)),
    )


def main(arguments: Sequence[str], folder: Path) -> str | None:
    """Write the page; return what is wrong."""
    if arguments:
        return f"found {' '.join(arguments)!r}; expected nothing"
    observations = read_observations(open_registry(curated_dir()))
    text = format_accuracy(evaluate(observations), score_dry_runs(observations))
    (folder / FILE_NAME).write_text(text, encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[3] / "docs"))
