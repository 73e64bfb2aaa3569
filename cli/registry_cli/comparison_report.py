"""What a comparison found, shown in the format that was asked for."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from registry.comparison.selections import check_selections, list_differences, narrow_to_shared
from registry.comparison.verdicts import judge, sum_up
from registry_cli import console
from registry_cli.comparison_text import format_compared, format_markdown, format_verdict
from registry_cli.group import HintedChoice
from registry_cli.options import POSITIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.comparison.configurations import Compared
    from registry.comparison.selections import RunsOfSide
    from registry.comparison.verdicts import Factors, Judgement, Verdict

factor_option = click.option(
    "--factor",
    type=POSITIVE,
    default=1.05,
    show_default=True,
    help="By what ratio B may be slower or larger than A.",
)

memory_factor_option = click.option(
    "--memory-factor",
    type=POSITIVE,
    help="By what ratio the memory of B may be larger than that of A (else --factor).",
)

fail_option = click.option("--fail", is_flag=True, help="Exit 1 if B is worse.")

strict_option = click.option(
    "--strict", is_flag=True, help="Exit 1 if B is worse, or if that cannot be told."
)

report_format_option = click.option(
    "-f",
    "--format",
    "format_name",
    type=HintedChoice(["text", "json", "markdown"]),
    default="text",
    help="Text, JSON, or a summary in Markdown for a pull request.",
)


def show_report(
    found: Sequence[Compared], a: RunsOfSide, b: RunsOfSide, *, factors: Factors, format_name: str
) -> set[Verdict]:
    """Show the comparisons, with what differs and what to know beside; return the verdicts.

    What differs and what to know are part of JSON and Markdown, and go to stderr beside text and
    JSON. The verdict in a line ends the text, and goes to stderr too beside JSON.
    """
    words = {"a": a.word, "b": b.word}
    a, b = narrow_to_shared(a, b)
    changes, remarks = list_differences(a, b), list(check_selections(a, b))
    for change in changes:
        console.hint(f"differs: {change}")
    console.warn_all(remarks)
    judged = [judge(compared, factors) for compared in found]
    if format_name == "json":
        verdict = format_verdict(found, factors)
        console.data(
            {
                "verdict": sum_up(judged),
                "summary": verdict,
                **words,
                "factor": factors[0],
                "memory_factor": factors[1] or factors[0],
                "failed": [each.label for each in found if each.regression],
                "differs": list(map(asdict, changes)),
                "remarks": remarks,
                "configurations": list(map(_as_data, found, judged)),
            }
        )
        console.hint(verdict)
    elif format_name == "markdown":
        names = (a.word, b.word)
        console.answer(
            format_markdown(found, names=names, factors=factors, changes=changes, remarks=remarks)
        )
    else:
        for compared in found:
            console.answer(format_compared(compared, factors))
        console.say(format_verdict(found, factors))
    return {each.verdict for each in judged}


def is_failure(verdicts: set[Verdict], *, fail: bool, strict: bool) -> bool:
    """Return whether verdicts fail a command that was told to."""
    return ("worse" in verdicts and (fail or strict)) or ("cannot be told" in verdicts and strict)


def _as_data(compared: Compared, judged: Judgement) -> dict[str, Any]:
    worse = judged.verdict == "worse"
    return {**asdict(compared), "worse": worse, "verdict": judged.verdict, "why": judged.why}
