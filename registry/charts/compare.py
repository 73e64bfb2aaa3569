"""Time and memory of B over those of A, with their intervals: a configuration a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.layers import has

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = False
HAS_LEGEND = True
SCALES: dict[str, str] = {}
_MEASURES = ("time", "memory")
#: Sizes that do not follow from the width.
SIZE: dict[str, Any] = {"height": {"step": 40, "for": "position"}}

#: What breaks a long name into lines of about thirty letters.
_IN_LINES = r"split(replace(datum.label, /(.{20,32}) /g, '$1\n'), '\n')"


def title(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the picture shows."""
    return "B compared with A"


def is_usable(row: Row, look: Look) -> bool:  # noqa: ARG001 - as for the other kinds
    """Return whether a row has a ratio, or says that B fails."""
    return has(row, "ratio") or bool(row.get("regression"))


def shown(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what a row must have."""
    return "a ratio, or a failure"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "Left of 1, B is faster or smaller. Bars: intervals over runs (none where each side "
        "has one run). A cross: was ok in A, and fails or is missing in B."
    )


def transformed(chart: Any, look: Look) -> Any:  # noqa: ARG001 - as for the other kinds
    """Return the chart with what its rows need."""
    return chart.transform_calculate(
        at="isValid(datum.ratio) ? datum.ratio : 1", failed="!!datum.regression"
    )


def layers(look: Look) -> list[Any]:
    """Return the line of no change, intervals, ratios and failures."""
    shades = [look.theme.good, look.theme.bad]
    axis = alt.Axis(labelLimit=260, labelExpr=_IN_LINES, labelOffset=-12, grid=True)
    y = alt.Y("configuration:N", title=None, sort=None, axis=axis)
    apart = alt.YOffset("measure:N", scale=alt.Scale(domain=list(_MEASURES)))
    scale = alt.Scale(type="log", nice=False, padding=24)
    ticks = alt.Axis(format=".2~f", tickCount=6, labelOverlap="greedy")
    x = alt.X("at:Q", title="B / A (1: no change)", scale=scale, axis=ticks)
    measure = alt.Color(
        "measure:N",
        title="figure",
        scale=alt.Scale(domain=list(_MEASURES), range=shades),
        legend=alt.Legend(symbolOpacity=1),
    )
    marks = alt.Shape(
        "measure:N", title="figure",
        scale=alt.Scale(domain=list(_MEASURES), range=["circle", "square"]),
    )  # fmt: skip
    one = alt.Chart().mark_rule(color=look.theme.faint).encode(x=alt.datum(1))
    bars = (
        alt.Chart()
        .mark_rule(strokeWidth=2)
        .encode(x=alt.X("low:Q"), x2="high:Q", y=y, yOffset=apart, color=measure)
        .transform_filter("isValid(datum.low) && isValid(datum.high)")
    )
    told = ["configuration:N", "measure:N", alt.Tooltip("ratio:Q", format=".3f"),
            alt.Tooltip("low:Q", format=".3f"), alt.Tooltip("high:Q", format=".3f"),
            "n_a:Q", "n_b:Q", "regression:N"]  # fmt: skip
    ratios = (
        alt.Chart()
        .mark_point(filled=True, size=60)
        .encode(x=x, y=y, yOffset=apart, color=measure, shape=marks, tooltip=told)
        .transform_filter("isValid(datum.ratio)")
    )
    failures = (
        alt.Chart()
        .mark_text(text="\u00d7", fontSize=20, fontWeight="bold", color=look.theme.bad)
        .encode(x=x, y=y, tooltip=told)
        .transform_filter("datum.failed && !isValid(datum.ratio)")
    )
    return [failures, one, bars, ratios]  # the order of their rows is that of the axis
