"""What the pictures share: units, words and settings from the columns, marks, scales, tooltips."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts.kinds import SETTINGS
from registry.charts.style import OTHER_METHODS, SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.charts.style import Theme

Row = dict[str, Any]

GIB = 2**30

#: Most values of an axis that each get a tick.
_MOST_TICKS = 10
#: Titles of axes: what a column is, with the unit that people read.
TITLES = {
    "seq_len": "sequence length (tokens)",
    "micro_batch_size": "batch on a card (samples)",
    "n_gpus": "cards",
    "tokens_per_second": "tokens per second per card",
    "samples_per_second": "samples per second per card",
    "seconds_per_step": "seconds per step",
    "peak_memory_bytes_per_gpu": "peak memory of the fullest card (GiB)",
}

#: What stands in a heading for the column of an axis.
WORDS = {
    "seq_len": "sequence length",
    "micro_batch_size": "batch",
    "n_gpus": "number of cards",
    "tokens_per_second": "Tokens per second",
    "samples_per_second": "Samples per second",
    "seconds_per_step": "Seconds per step",
    "peak_memory_bytes_per_gpu": "Peak memory",
}


@dataclass(frozen=True)
class Look:
    """Theme, the methods that have a colour, and the columns of the axes."""

    theme: Theme
    methods: tuple[str, ...]
    x: str
    y: str
    #: Whether some methods may have no colour of their own.
    has_others: bool = True
    #: Lengths, batches or numbers of cards that get a tick; none: the renderer's choice.
    ticks: tuple[int, ...] = ()
    #: Shapes that occur, by their names in the legend; None: all may.
    shapes: frozenset[str] | None = None


def has(row: Row, *columns: str) -> bool:
    """Return whether a row states all of these columns."""
    return all(row.get(column) is not None for column in columns)


def with_words(chart: Any) -> Any:
    """Return a chart whose rows say panel, evidence and that memory ran out in words."""
    return chart.transform_calculate(
        panel="(datum.model_id || 'model not stated') + ' on ' + "
        "(datum.gpu_id || 'card not stated')",
        is_oom="datum.outcome === 'oom'",
        measured="datum.evidence === 'measured' && "
        "(datum.outcome === 'ok' || datum.outcome === 'oom')",
    )


def with_memory(chart: Any) -> Any:
    """Return a chart with words whose rows say memory in GiB, and what kind it is."""
    return chart.transform_calculate(
        capacity=f"isValid(datum.gpu_memory_bytes) ? datum.gpu_memory_bytes / {GIB} : null",
        peak=f"isValid(datum.peak_memory_bytes_per_gpu) ? "
        f"datum.peak_memory_bytes_per_gpu / {GIB} : null",
    ).transform_calculate(
        # the readings of a total, as those of the fullest card
        low="datum.peak * datum.peak_memory_bytes_low / datum.peak_memory_bytes",
        high="datum.peak * datum.peak_memory_bytes_high / datum.peak_memory_bytes",
        kind="datum.is_oom ? 'out of memory' : (datum.memory_kind || 'unknown')",
    )


def with_methods(chart: Any, look: Look) -> Any:
    """Return a chart whose rows say the method as the legend does."""
    named = [name for name in look.methods if name]
    return chart.transform_calculate(
        shown=f"indexof({named!r}, datum.method_label) >= 0 ? datum.method_label : "
        f"'{OTHER_METHODS}'"
    )


def with_setting(chart: Any, *but: str) -> Any:
    """Return a chart whose rows have a text that is the same where all settings are, ``but`` some.

    A setting that is not stated is a value of its own.
    """
    names = [name for name in SETTINGS if name not in but]
    values = ", ".join(f"datum.{name}" for name in names)
    return chart.transform_calculate(setting=f"join([{values}], '|')")


def color(look: Look) -> Any:
    """Return the encoding of the method as a colour."""
    pairs = [
        (name, shade) for name, shade in zip(look.methods, look.theme.methods, strict=False) if name
    ]
    if look.has_others:
        pairs.append((OTHER_METHODS, look.theme.other))
    names, shades = zip(*pairs, strict=True)
    legend = alt.Legend(symbolType="circle", symbolOpacity=1)
    return alt.Color(
        "shown:N",
        title="method",
        scale=alt.Scale(domain=list(names), range=list(shades)),
        legend=legend,
    )


def shape(look: Look, kinds: Sequence[str] = tuple(SHAPES)) -> Any:
    """Return the encoding of the kind of memory, or that it ran out, as a shape."""
    return shapes("kind:N", "kind of memory", {kind: SHAPES[kind] for kind in kinds}, look)


def shapes(field: str, title: str, known: dict[str, str], look: Look) -> Any:
    """Return the encoding of words as shapes, of which the legend has those that occur."""
    found = [name for name in known if look.shapes is None or name in look.shapes]
    scale = alt.Scale(domain=found, range=[known[name] for name in found])
    return alt.Shape(field, title=title, scale=scale, legend=outlines(look) if found else None)


def list_shapes(rows: Sequence[Row]) -> frozenset[str]:
    """Return the shapes of rows as `with_memory` and the number of cards name them."""
    ran = [row for row in rows if row.get("outcome") != "oom"]
    sized = [row for row in ran if row.get("peak_memory_bytes_per_gpu") is not None]
    kinds = {row.get("memory_kind") or "unknown" for row in sized}
    cards = {"several" if (row.get("n_gpus") or 1) > 1 else "one" for row in ran}
    return frozenset(kinds | cards | ({"out of memory"} if len(ran) < len(rows) else set()))


def outlines(look: Look) -> Any:
    """Return a legend of shapes in outline, so that a cross is seen in it too."""
    return alt.Legend(symbolStrokeColor=look.theme.text, symbolFillColor="transparent")


def points(x: Any, y: Any, look: Look, **encodings: Any) -> Any:
    """Return marks of observations: filled where measured, hollow where not."""
    return (
        alt.Chart()
        .mark_point(size=60, strokeWidth=1.6, opacity=0.9)
        .encode(x=x, y=y, color=color(look), **encodings)
    )


def filled(x: Any, y: Any, look: Look, **encodings: Any) -> Any:
    """Return the inside of the marks of what was measured."""
    return (
        alt.Chart()
        .mark_point(size=60, filled=True, opacity=0.9)
        .encode(x=x, y=y, color=color(look), **encodings)
        .transform_filter("datum.measured && !datum.is_oom")
    )


def over(look: Look) -> Any:
    """Return the encoding of the x axis: lengths, batches and cards by doubling."""
    # with five ticks or more, the renderer splits a range of one doubling evenly: 70, 80, 90, …
    ticks = {"values": list(look.ticks)} if look.ticks else {"tickCount": 4}
    return alt.X(
        f"{look.x}:Q",
        title=TITLES[look.x],
        scale=alt.Scale(type="log", base=2, nice=False, padding=16),
        axis=alt.Axis(format="d", labelOverlap="greedy", grid=True, **ticks),
    )


def list_ticks(values: Iterable[int]) -> tuple[int, ...]:
    """Return the values that get a tick: all, or of many the powers of two between them.

    >>> list_ticks([64, 128, 128]), list_ticks(range(100, 500))
    ((64, 128), (128, 256))
    """
    found = sorted(set(values))
    if len(found) <= _MOST_TICKS:
        return tuple(found)
    powers = (2**n for n in range(found[-1].bit_length()))
    return tuple(power for power in powers if power >= found[0])


def tooltip(*more: str) -> list[Any]:
    """Return what is shown under the pointer: what the observation is, and its figures."""
    names = (*("observation_id", "source_id", "method_label", "seq_len", "micro_batch_size"),
             *("n_gpus", "outcome", "evidence"), *more)  # fmt: skip
    return [alt.Tooltip(name if ":" in name else f"{name}:N") for name in names]
