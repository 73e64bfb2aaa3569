"""Peak memory of a card over length, batch or number of cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.layers import (
    TITLES,
    WORDS,
    color,
    filled,
    has,
    over,
    points,
    shape,
    tooltip,
    with_memory,
    with_methods,
    with_setting,
    with_words,
)

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = True
HAS_LEGEND = True
SCALES = {"x": "shared", "y": "shared"}
_FIGURES = (
    alt.Tooltip("peak:Q", title="peak (GiB)", format=".2f"),
    alt.Tooltip("capacity:Q", title="memory of the card (GiB)", format=".2f"),
)
#: Sizes that do not follow from the width.
SIZE: dict[str, Any] = {}


def title(look: Look) -> str:
    """Return what the picture shows."""
    return f"Peak memory over {WORDS[look.x]}"


def is_usable(row: Row, look: Look) -> bool:
    """Return whether a row has a peak, or a card whose memory it exceeded."""
    figure = "gpu_memory_bytes" if row["outcome"] == "oom" else "peak_memory_bytes_per_gpu"
    return has(row, look.x, figure)


def shown(look: Look) -> str:
    """Return what a row must have."""
    return f"{look.x} and a peak, or the card that was too small"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "Hollow: not measured, or how it ended is not known. A cross: ran out of memory, at "
        "the memory of the card (it needs more); dashed: that memory. Bars: the readings that"
        " physics allows. Lines join runs that differ in nothing else."
    )


def transformed(chart: Any, look: Look) -> Any:
    """Return the chart with what its rows need."""
    chart = with_setting(with_methods(with_memory(with_words(chart)), look), look.x)
    return chart.transform_calculate(
        height="datum.is_oom ? datum.capacity : datum.peak"
    ).transform_filter(f"isValid(datum.{look.x}) && isValid(datum.height)")


def layers(look: Look) -> list[Any]:
    """Return capacity, lines, bars and points."""
    x = over(look)
    y = alt.Y("height:Q", title=TITLES["peak_memory_bytes_per_gpu"], scale=alt.Scale(zero=True))
    capacity = (
        alt.Chart()
        .mark_rule(strokeDash=[5, 4], color=look.theme.faint)
        .encode(y="capacity:Q")
        .transform_filter("isValid(datum.capacity)")
        .transform_aggregate(capacity="max(capacity)", groupby=["panel", "capacity"])
    )
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=1, opacity=0.45)
        .encode(x=x, y=alt.Y("median(height):Q"), color=color(look), detail=["setting:N", "kind:N"])
        .transform_filter("!datum.is_oom && datum.measured")
    )
    bars = (
        alt.Chart()
        .mark_rule(strokeWidth=1.5, opacity=0.7)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=color(look))
        .transform_filter("!datum.is_oom && datum.high > datum.low")
    )
    told = tooltip("kind:N")
    return [
        capacity,
        lines,
        bars,
        filled(x, y, look, shape=shape(look)),
        points(x, y, look, shape=shape(look), tooltip=[*told, *_FIGURES]),
    ]
