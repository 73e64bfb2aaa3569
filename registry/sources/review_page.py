"""``records/REVIEW.md``: what the review found, open findings first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.sources.review import format_finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.sources.review import Decision, Finding, Review

_INTRODUCTION = """\
# What the review of the records found

`registry build` writes this page. It lists figures that contradict each other (the view
`conflicts`), the limits of the card or their own series (the view `implausible`), and observations
of two sources with equal figures. The file `review.yaml` next to the source's mapping says how a
finding was settled: `kept` as the source has it, `mended` in the mapping, or `flagged`. A finding
about a flagged observation (`suspect`, `figures_disagree`, `peak_over_capacity`,
`peak_at_capacity`) counts as settled. Runs of one configuration and environment are repeats; they
are listed if one figure is more than 1.5 times the other.
"""


def format_review(review: Review) -> str:
    """Return the page as Markdown."""
    parts = (_INTRODUCTION, *_format_open(review), *_format_settled(review), *_format_flags(review))
    return "\n".join(parts)


def list_open(review: Review) -> Iterator[tuple[str, str]]:
    """Yield the source and a line of each finding and decision that somebody must look at."""
    for finding in review.open_findings():
        yield finding.source_id, format_finding(finding)
    for source_id, decision in review.stale_decisions():
        metric = f" ({decision.metric})" if decision.metric else ""
        settled = f"review.yaml settles {decision.n}, which is not the number found"
        yield source_id, f"{decision.kind}{metric}: {settled}"


def _format_open(review: Review) -> Iterator[str]:
    yield "## Open\n"
    lines = [f"- `{source_id}`: {line}" for source_id, line in list_open(review)]
    yield "\n".join(lines or ["Nothing."]) + "\n"


def _format_settled(review: Review) -> Iterator[str]:
    yield "## Settled"
    found: dict[int, Finding] = {
        id(decision): finding
        for finding in review.findings
        if (decision := review.decision(finding))
    }
    for source_id, decisions in review.decisions.items():
        lines = [*_format_decisions(decisions, found)]
        yield f"\n### {source_id}\n\n" + "\n".join(lines)
    yield ""


def _format_decisions(decisions: Iterable[Decision], found: dict[int, Finding]) -> Iterator[str]:
    for decision in decisions:
        finding = found.get(id(decision))
        if finding:
            yield f"- {format_finding(finding)}. Kept: {decision.because}."
        elif decision.settled != "kept":
            metric = f" ({decision.metric})" if decision.metric else ""
            yield f"- {decision.kind}{metric}. {decision.settled.capitalize()}: {decision.because}."


def _format_flags(review: Review) -> Iterator[str]:
    yield "## Flags\n"
    yield "| source | flag | observations | first |\n| --- | --- | --: | --- |"
    for row in review.flagged:
        yield f"| {row['source_id']} | {row['flag']} | {row['n']} | `{row['example'][:12]}` |"
    yield ""
