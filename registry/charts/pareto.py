"""Speed over peak memory, with the front of each kind of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.layers import (
    TITLES,
    filled,
    has,
    points,
    shape,
    tooltip,
    with_memory,
    with_methods,
    with_words,
)
from registry.charts.speed import with_rate
from registry.charts.style import SHAPES

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = True
HAS_LEGEND = True
SCALES = {"x": "independent", "y": "independent"}
#: Sizes that do not follow from the width.
SIZE: dict[str, Any] = {}


def title(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the picture shows."""
    return "Speed over peak memory"


def is_usable(row: Row, look: Look) -> bool:
    """Return whether a row has both figures."""
    figures = (look.y, "n_gpus", "peak_memory_bytes_per_gpu")
    return row["outcome"] != "oom" and has(row, *figures)


def shown(look: Look) -> str:
    """Return what a row must have."""
    return f"peak memory, {look.y} and n_gpus"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "Line: the front (by the same kind of memory, nothing is faster with less), with its "
        "methods named. Lengths and batches differ: choose with --seq-len. Hollow: not "
        "measured, or how it ended is not known. Runs that ran out of memory are left out."
    )


def transformed(chart: Any, look: Look) -> Any:
    """Return the chart with what its rows need: the front is the running best by memory."""
    better, worst = ("min", ">=") if look.y == "seconds_per_step" else ("max", "<=")
    chart = with_rate(with_methods(with_memory(with_words(chart)), look), look)
    chart = chart.transform_filter("isValid(datum.rate) && isValid(datum.peak)")
    by = ["panel", "kind", "measured"]
    return (
        chart.transform_window(
            sort=[alt.SortField("peak"), alt.SortField("rate", order=_order(better))],
            frame=[None, 0], groupby=by, best=f"{better}(rate)", place="row_number()",
        )
        .transform_window(
            sort=[alt.SortField("place")], frame=[None, None], groupby=by,
            before="lag(best)",
        )
        .transform_calculate(
            is_front=f"datum.measured && (!isValid(datum.before) || !(datum.rate {worst} "
            "datum.before))"
        )
    )  # fmt: skip


def _order(better: str) -> Any:
    return "ascending" if better == "min" else "descending"


def layers(look: Look) -> list[Any]:
    """Return the fronts, the points and the names of what stands on a front."""
    x = alt.X("peak:Q", title=TITLES["peak_memory_bytes_per_gpu"], scale=alt.Scale(zero=True))
    y = alt.Y("rate:Q", title=TITLES[look.y], scale=alt.Scale(zero=True))
    front = (
        alt.Chart()
        .mark_line(interpolate="step-after", strokeWidth=1.5, color=look.theme.faint)
        .encode(x=x, y=y, detail="kind:N")
        .transform_filter("datum.is_front")
    )
    names = (
        alt.Chart()
        .mark_text(align="left", dx=7, dy=-7, fontSize=10, color=look.theme.text)
        .encode(x=x, y=y, text="method_label:N")
        .transform_filter("datum.is_front")
        .transform_window(
            sort=[alt.SortField("place")],
            groupby=["panel", "kind"],
            neighbour="lag(method_label)",
        )
        .transform_filter("datum.neighbour !== datum.method_label")
    )
    kinds = [kind for kind in SHAPES if kind != "out of memory"]
    figures = [
        alt.Tooltip("peak:Q", title="peak (GiB)", format=".2f"),
        alt.Tooltip("rate:Q", title=TITLES[look.y], format=".4~g"),
    ]
    return [
        front,
        filled(x, y, look, shape=shape(look, kinds)),
        points(x, y, look, shape=shape(look, kinds), tooltip=[*tooltip("memory_kind"), *figures]),
        names,
    ]
