"""Heat map over length and batch: how full the card was at most, and where memory ran out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.layers import TITLES, has, with_memory, with_words

if TYPE_CHECKING:
    from registry.charts.layers import Look, Row

PANELS = True
HAS_LEGEND = True
SCALES = {"x": "independent", "y": "independent"}
#: A cell is as high as its figure needs.
SIZE: dict[str, Any] = {"height": {"step": 24}}


def title(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the picture shows."""
    return "How full the card was"


def is_usable(row: Row, look: Look) -> bool:  # noqa: ARG001 - as for the other kinds
    """Return whether a row has its place, and how full its card was or that memory ran out."""
    if not has(row, "seq_len", "micro_batch_size", "n_gpus"):
        return False
    if row["outcome"] == "oom":
        return True
    return row.get("memory_kind") != "host_rss" and has(
        row, "peak_memory_bytes_per_gpu", "gpu_memory_bytes"
    )


def shown(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what a row must have."""
    return "length, batch and n_gpus, with a peak on a card that is known, or out of memory"


def notes(look: Look) -> str:  # noqa: ARG001 - as for the other kinds
    """Return what the marks mean."""
    return (
        "Each cell has its fullest run, in per cent of the card's memory: at least (≥) that "
        "where only what PyTorch allocated or reserved is known; ~ where the kind of memory "
        "is not. Thin frame: nothing was measured. A cross: ran out of memory; next to a "
        "figure, some runs of the cell did."
    )


def transformed(chart: Any, look: Look) -> Any:  # noqa: ARG001 - as for the other kinds
    """Return the chart with what its rows need: a row a cell."""
    known = "isValid(datum.peak) && isValid(datum.capacity) && datum.memory_kind !== 'host_rss'"
    return (
        with_memory(with_words(chart))
        .transform_calculate(
            panel="datum.panel + ', ' + datum.n_gpus + (datum.n_gpus > 1 ? ' cards, ' : ' card, ')"
            " + (datum.method_label || 'method not stated')",
            share=f"!datum.is_oom && {known} ? datum.peak / datum.capacity : null",
        )
        .transform_filter("datum.is_oom || isValid(datum.share)")
        .transform_calculate(
            device="datum.memory_kind === 'device' ? datum.share : null",
            unknown="datum.memory_kind === 'unknown' ? datum.share : null",
        )
        .transform_aggregate(
            share="max(share)", device="max(device)", unknown="max(unknown)",
            n_oom="sum(is_oom)", n="count()", n_measured="sum(measured)",
            groupby=["panel", "seq_len", "micro_batch_size"],
        )
        .transform_calculate(
            label=f"({_BOUND}) + format(datum.share * 100, '.0f') + (datum.n_oom ? ' \u00d7' : '')"
        )
    )  # fmt: skip


#: What stands before a figure: nothing where it is of the whole card.
_BOUND = "datum.device === datum.share ? '' : datum.unknown === datum.share ? '~' : '≥'"


def layers(look: Look) -> list[Any]:
    """Return cells, their figures, and the crosses of what ran out."""
    x = alt.X("seq_len:O", title=TITLES["seq_len"], axis=alt.Axis(labelAngle=0, format="d"))
    y = alt.Y("micro_batch_size:O", title=TITLES["micro_batch_size"], sort="descending")
    told = [
        alt.Tooltip("share:Q", title="share of the card", format=".1%"),
        alt.Tooltip("n:Q", title="observations"),
        alt.Tooltip("n_oom:Q", title="of these ran out of memory"),
    ]
    cells = (
        alt.Chart()
        .mark_rect(stroke=look.theme.faint)
        .encode(
            x=x, y=y, tooltip=told,
            color=alt.Color(
                "share:Q", title="share of the card",
                scale=alt.Scale(domain=[0, 1], range=list(look.theme.ramp), clamp=True),
                legend=alt.Legend(format=".0%", gradientLength=120),
            ),
            strokeWidth=alt.condition("datum.n_measured > 0", alt.value(0), alt.value(2)),
        )
        .transform_filter("isValid(datum.share)")
    )  # fmt: skip
    dark, light = sorted((look.theme.text, look.theme.ground))
    ink = alt.condition(_IS_LIGHT[look.theme.name], alt.value(dark), alt.value(light))
    figures = (
        alt.Chart()
        .mark_text(fontSize=11)
        .encode(x=x, y=y, text="label:N", color=ink)
        .transform_filter("isValid(datum.share)")
    )
    crosses = (
        alt.Chart()
        .mark_text(text="\u00d7", fontSize=20, fontWeight="bold", color=look.theme.bad)
        .encode(x=x, y=y, tooltip=told)
        .transform_filter("datum.n_oom > 0 && !isValid(datum.share)")
    )
    return [cells, figures, crosses]


#: Where a cell is light enough for dark letters.
_IS_LIGHT = {"light": "datum.share < 0.6", "dark": "datum.share > 0.6"}
