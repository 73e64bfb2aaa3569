"""Throughput over length, batch or number of cards."""

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
    shapes,
    tooltip,
    with_methods,
    with_setting,
    with_words,
)
from registry.charts.style import CROSS

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = True
HAS_LEGEND = True
SCALES = {"x": "shared", "y": "independent"}
#: Sizes that do not follow from the width.
SIZE: dict[str, Any] = {}


def title(look: Look) -> str:
    """Return what the picture shows."""
    return f"Speed over {WORDS[look.x]}"


def is_usable(row: Row, look: Look) -> bool:
    """Return whether a row has the figure, or ran out of memory."""
    return has(row, look.x, "n_gpus") and (row["outcome"] == "oom" or has(row, look.y))


def shown(look: Look) -> str:
    """Return what a row must have."""
    return f"{look.x}, {look.y} and n_gpus"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "Hollow: not measured, or how it ended is not known. A cross at the foot: ran out of "
        "memory, so has no speed. Square: several cards, the figure is that of one. Lines "
        "join runs that differ in nothing else."
    )


def transformed(chart: Any, look: Look) -> Any:
    """Return the chart with what its rows need."""
    chart = with_setting(with_methods(with_words(chart), look), look.x)
    return with_rate(chart, look).transform_filter(
        f"isValid(datum.{look.x}) && (datum.is_oom || isValid(datum.rate))"
    )


def with_rate(chart: Any, look: Look) -> Any:
    """Return a chart whose rows have the figure of the y axis: a rate of one card, or a time."""
    over_cards = "" if look.y == "seconds_per_step" else " / datum.n_gpus"
    stated = f"isValid(datum.{look.y}) && datum.n_gpus > 0 && !datum.is_oom"
    return chart.transform_calculate(
        rate=f"{stated} ? datum.{look.y}{over_cards} : null",
        cards="datum.is_oom ? 'out of memory' : datum.n_gpus > 1 ? 'several' : 'one'",
    )


def cards_shape(look: Look) -> Any:
    """Return the encoding of one card, several, or that memory ran out, as a shape."""
    known = {"one": "circle", "several": "square", "out of memory": CROSS}
    return shapes("cards:N", "cards", known, look)


def layers(look: Look) -> list[Any]:
    """Return lines, points and what has no speed because memory ran out."""
    x = over(look)
    y = alt.Y("rate:Q", title=TITLES[look.y], scale=alt.Scale(zero=True))
    lines = (
        alt.Chart()
        .mark_line(strokeWidth=1, opacity=0.45)
        .encode(x=x, y=alt.Y("median(rate):Q"), color=color(look), detail="setting:N")
        .transform_filter("!datum.is_oom && datum.measured")
    )
    failed = (
        points(x, alt.value("height"), look, shape=cards_shape(look), tooltip=tooltip())
        .transform_filter("datum.is_oom")
    )  # fmt: skip
    figure = alt.Tooltip("rate:Q", title=TITLES[look.y], format=".4~g")
    ran = points(x, y, look, shape=cards_shape(look), tooltip=[*tooltip(), figure])
    return [
        lines,
        filled(x, y, look, shape=cards_shape(look)),
        ran.transform_filter("!datum.is_oom"),
        failed,
    ]
