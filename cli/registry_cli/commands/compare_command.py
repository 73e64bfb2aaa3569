"""``registry compare``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.comparison.selections import compare_words
from registry.errors import QueryError, QueryTimeoutError, SourceError
from registry.store.read import build_dataset
from registry_cli import console
from registry_cli.comparison_report import (
    factor_option,
    fail_option,
    is_failure,
    memory_factor_option,
    report_format_option,
    show_report,
    strict_option,
)
from registry_cli.comparison_text import format_nothing
from registry_cli.options import registry_option
from registry_cli.output import open_snapshot, reader_of


@click.command(name="compare")
@click.argument("a")
@click.argument("b")
@factor_option
@memory_factor_option
@fail_option
@strict_option
@report_format_option
@registry_option
def command(
    a: str,
    b: str,
    *,
    factor: float,
    memory_factor: float | None,
    fail: bool,
    strict: bool,
    format_name: str,
    registry_path: Path | None,
) -> int:
    """Compare A with B: outcome, time and peak memory of each configuration.

    A and B are labels (label=main), versions of a package (peft=0.21), ids of observations,
    environments or sources (or their first digits), or paths of plans that were run. What succeeded
    in A and fails or is missing in B comes first.

    The interval is over runs: it needs two on each side, or repeats of one side or of other
    configurations. B is worse if it fails, or if the ratio of the step time or of the peak exceeds
    --factor and the interval lies above 1; it is not worse if the interval ends at --factor or
    below; otherwise it cannot be told. Exit status: 0, or 1 if B is worse and --fail is given; 2 if
    A and B cannot be compared.

    \b
    Examples:
      registry compare peft-method-comparison-2025-06 peft-method-comparison
      registry compare peft=0.15 peft=0.19 -f markdown
    """  # noqa: D301 - \b keeps the examples' lines
    try:
        snapshot = open_snapshot(registry_path)
        read = reader_of(build_dataset(snapshot))
        sides, found = compare_words((a, b), read, snapshot.catalogue)
    except QueryTimeoutError:
        raise
    except (QueryError, SourceError) as error:
        if format_name == "markdown":
            console.answer(format_nothing((a, b), str(error)))
        raise click.UsageError(str(error)) from None
    verdicts = show_report(
        found, sides[0], sides[1], factors=(factor, memory_factor), format_name=format_name
    )
    return 1 if is_failure(verdicts, fail=fail, strict=strict) else 0
