"""Predicted over measured peaks, each source held out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.layers import GIB, has

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = False
HAS_LEGEND = True
SCALES: dict[str, str] = {}
#: Sizes that do not follow from the width.
SIZE: dict[str, Any] = {}

#: Ratios that the axis shows.
_SHOWN = [1 / 8, 8]


def title(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the picture shows."""
    return "Predicted over measured peak memory"


def is_usable(row: Row, look: Look) -> bool:  # noqa: ARG001 - as for the other kinds
    """Return whether a row has what was predicted and what was measured."""
    return has(row, "predicted_bytes", "measured_bytes")


def shown(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what a row must have."""
    return "a predicted and a measured peak"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "All models and cards with a measured peak; each source was predicted without its own"
        " rows. Bars: 90 % intervals. Hollow: the interval misses what was measured. Above 1,"
        " too much was predicted; what is off by more than 8 times is drawn at the edge."
    )


def transformed(chart: Any, look: Look) -> Any:  # noqa: ARG001 - as for the other kinds
    """Return the chart with what its rows need."""
    return chart.transform_calculate(
        measured=f"datum.measured_bytes / {GIB}",
        ratio="datum.predicted_bytes / datum.measured_bytes",
        low="datum.low_bytes / datum.measured_bytes",
        high="datum.high_bytes / datum.measured_bytes",
        seen="datum.held_back ? 'kept back' : 'seen while it was made'",
    ).transform_calculate(inside="datum.low <= 1 && datum.high >= 1")


def layers(look: Look) -> list[Any]:
    """Return the line of no error, intervals and points."""
    x = alt.X("measured:Q", title="measured peak of a card (GiB)",
              scale=alt.Scale(type="log", base=2, nice=False, padding=14),
              axis=alt.Axis(format="~g", tickCount=8))  # fmt: skip
    y = alt.Y("ratio:Q", title="predicted / measured",
              scale=alt.Scale(type="log", base=2, domain=_SHOWN, nice=False, clamp=True),
              axis=alt.Axis(format="~g", tickCount=7))  # fmt: skip
    seen = ["seen while it was made", "kept back"]
    shades = [look.theme.good, look.theme.bad]
    source = alt.Color(
        "seen:N",
        title="sources",
        scale=alt.Scale(domain=seen, range=shades),
        legend=alt.Legend(symbolOpacity=1),
    )
    marks = alt.Shape(
        "seen:N", title="sources", scale=alt.Scale(domain=seen, range=["circle", "triangle-up"])
    )
    one = alt.Chart().mark_rule(color=look.theme.text).encode(y=alt.datum(1))
    bars = (
        alt.Chart()
        .mark_rule(strokeWidth=1, opacity=0.25)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=source)
    )
    told = ["source_id:N", alt.Tooltip("measured:Q", title="measured (GiB)", format=".2f"),
            alt.Tooltip("ratio:Q", title="predicted / measured", format=".3f")]  # fmt: skip
    rings = (
        alt.Chart()
        .mark_point(size=34, strokeWidth=1.4)
        .encode(x=x, y=y, color=source, shape=marks, tooltip=told)
    )
    dots = (
        alt.Chart()
        .mark_point(size=34, filled=True)
        .encode(x=x, y=y, color=source, shape=marks)
        .transform_filter("datum.inside")
    )
    return [one, bars, dots, rings]
