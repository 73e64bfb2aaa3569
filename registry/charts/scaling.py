"""Throughput over the number of cards, beside ideal scaling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.layers import color, has, over, with_methods

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = True
HAS_LEGEND = True
SCALES = {"x": "shared", "y": "independent"}
#: Sizes that do not follow from the width.
SIZE: dict[str, Any] = {}


def title(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the picture shows."""
    return "Throughput over the number of cards"


def is_usable(row: Row, look: Look) -> bool:  # noqa: ARG001 - as for the other kinds
    """Return whether a row has a throughput and that of fewer cards."""
    return has(row, "n_gpus", "samples_per_second", "base_n_gpus", "base_samples_per_second")


def shown(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what a row must have."""
    return "samples per second on several numbers of cards"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "A line is one setting; dashed: what its fewest cards would give if nothing were "
        "lost. Medians of successful runs; both axes are logarithmic."
    )


def transformed(chart: Any, look: Look) -> Any:
    """Return the chart with what its rows need."""
    return with_methods(chart, look).transform_calculate(
        panel="(datum.model_id || 'model not stated') + ' on ' + "
        "(datum.gpu_id || 'card not stated')",
        ideal="datum.base_samples_per_second * datum.n_gpus / datum.base_n_gpus",
    )


def layers(look: Look) -> list[Any]:
    """Return what is ideal, lines and points."""
    doubling = {"type": "log", "base": 2, "nice": False, "padding": 14}
    x = over(replace(look, x="n_gpus"))
    y = alt.Y(
        "samples_per_second:Q", title="samples per second, all cards",
        scale=alt.Scale(**doubling), axis=alt.Axis(format="~s", tickCount=6),
    )  # fmt: skip
    ideal = (
        alt.Chart()
        .mark_line(strokeDash=[4, 4], strokeWidth=1, color=look.theme.faint)
        .encode(x=x, y=alt.Y("ideal:Q"), detail="setting:N")
    )
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=1.2)
        .encode(x=x, y=alt.Y("max(samples_per_second):Q"), detail="setting:N", color=color(look))
    )
    told = [
        alt.Tooltip(f"{name}:N")
        for name in (
            *("source_id", "method_label", "compute_dtype", "seq_len", "micro_batch_size"),
            *("n_gpus", "sharding", "interconnect", "n_observations"),
        )
    ]
    figures = [
        alt.Tooltip("samples_per_second:Q", format=".4~g"),
        alt.Tooltip("efficiency:Q", format=".1%"),
    ]
    marks = (
        alt.Chart()
        .mark_point(size=45, filled=True)
        .encode(x=x, y=y, color=color(look), tooltip=[*told, *figures])
    )
    return [ideal, lines, marks]
