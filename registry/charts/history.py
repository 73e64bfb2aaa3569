"""One configuration over the releases of its software."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.layers import (
    GIB,
    WORDS,
    color,
    filled,
    has,
    points,
    shape,
    tooltip,
    with_memory,
    with_methods,
    with_words,
)
from registry.charts.style import CROSS, SHAPES

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = True
HAS_LEGEND = True
SCALES = {"x": "independent", "y": "independent"}
_TITLES = {
    "seconds_per_step": "seconds per step",
    "tokens_per_second": "tokens per second, all cards",
    "samples_per_second": "samples per second, all cards",
    "peak_memory_bytes_per_gpu": "peak memory of the fullest card (GiB)",
}
#: Pixels from one line of the name of a release to the next.
LINE = 10
#: Sizes that do not follow from the width.
SIZE: dict[str, Any] = {}


def title(look: Look) -> str:
    """Return what the picture shows."""
    return f"{WORDS[look.y]} over releases"


def is_usable(row: Row, look: Look) -> bool:
    """Return whether a row has a release and the figure, or failed."""
    return has(row, "release") and (row["outcome"] in ("oom", "error") or has(row, look.y))


def shown(look: Look) -> str:
    """Return what a row must have."""
    return f"{look.y}, and the same configuration in two releases"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "A line is one configuration in one framework, through the medians of its releases; "
        "machines may differ. Hollow: not measured. A cross at the foot: it failed in that "
        "release."
    )


def transformed(chart: Any, look: Look) -> Any:
    """Return the chart with what its rows need."""
    scaled = f" / {GIB}" if look.y == "peak_memory_bytes_per_gpu" else ""
    return (
        with_methods(with_memory(with_words(chart)), look)
        .transform_calculate(
            is_oom="datum.outcome === 'oom' || datum.outcome === 'error'",
            figure=f"datum.outcome === 'ok' && isValid(datum.{look.y}) ? "
            f"datum.{look.y}{scaled} : null",
        )
        .transform_filter("datum.is_oom || isValid(datum.figure)")
    )


def layers(look: Look) -> list[Any]:
    """Return lines, points and failures."""
    order = alt.EncodingSortField("release_order", op="min")
    lines = "split(datum.label, ', ')"
    # upright, a label is as wide as its lines are high; one without room for them is left out
    axis = alt.Axis(labelExpr=lines, labelAngle=-90, labelLimit=220, labelFontSize=9,
                    labelLineHeight=LINE, labelOverlap="greedy", grid=True)  # fmt: skip
    x = alt.X("release:N", title=None, sort=order, axis=axis)
    y = alt.Y("figure:Q", title=_TITLES[look.y], scale=alt.Scale(zero=True))
    joined = (
        alt.Chart()
        .mark_line(strokeWidth=1.2, opacity=0.6)
        .encode(x=x, y=alt.Y("median(figure):Q"), color=color(look), detail=["series:N", "kind:N"])
        .transform_filter("!datum.is_oom")
    )
    figure = alt.Tooltip("figure:Q", title=_TITLES[look.y], format=".4~g")
    told = [*tooltip("release"), alt.Tooltip("configuration:N"), figure]
    failed = (
        alt.Chart()
        .mark_point(shape=CROSS, size=60, strokeWidth=1.6)
        .encode(x=x, y=alt.value("height"), color=color(look), tooltip=told)
        .transform_filter("datum.is_oom")
    )
    by_kind = (
        {} if look.y != "peak_memory_bytes_per_gpu" else {"shape": shape(look, list(SHAPES)[:-1])}
    )
    ran = points(x, y, look, tooltip=told, **by_kind).transform_filter("!datum.is_oom")
    return [joined, filled(x, y, look, **by_kind), ran, failed]
