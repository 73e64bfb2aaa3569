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
from registry.text import format_markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.predict.evaluation.evaluate import Said, Score

FILE_NAME = "accuracy.md"

_HEAD = (
    *("", "rows", "median error", "90th percentile", "coverage", "half width"),
    *("false fits", "false refusals", "undecided"),
)


def format_evaluation(found: Evaluation) -> str:
    """Return the scores as Markdown tables, each below its heading."""
    sections = {
        "Peak memory, each source held out, asked as it states its runs": format_table(
            found.stated
        ),
        "The same, asked with all that is known of the source's software": format_table(
            found.informed
        ),
        "Chances of fitting, asked as the sources state their runs": _chances(found.chances),
        "Other formulas on the same rows": format_table(found.peers),
        "Peak memory, asked as its source states it, its software named": format_table(found.named),
        "Peak memory, one row held out, its source and stack known": format_table(found.near),
        "Time of a step, each source held out, asked as it states its runs": format_table(
            found.time
        ),
        "Time of a step, one row held out, its source and stack known": format_table(
            found.near_time
        ),
    }
    return "\n".join(
        line for title, table in sections.items() for line in (f"## {title}", "", *table, "")
    )


def format_table(scores: Iterable[Score]) -> list[str]:
    """Return scores as the lines of a Markdown table."""
    return _table(_HEAD, map(_cells, scores))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    rules = ("---", *("--:",) * (len(head) - 1))
    return format_markdown_table(head, rows, rules).splitlines()


def _chances(found: Iterable[Said]) -> list[str]:
    head = ("", "chance said", "of all verdicts", "mean chance", "it fits")
    rows = [
        (
            one.name,
            f"{one.low:.0%} to {one.high:.0%}",
            *(f"{share:.1%}" for share in (one.share, one.mean_chance, one.fits)),
        )
        for one in found
    ]
    return _table(head, rows)


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
