"""A chart of a kind: its layers, in a panel for each model and card, in a theme, with a heading."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import altair as alt

from registry.charts import compare, fits, history, memory, pareto, residuals, scaling, speed
from registry.charts.kinds import CHOICES, COLUMNS, MOST_PANELS
from registry.charts.layers import Look, list_shapes, list_ticks
from registry.charts.style import USUAL_METHODS, configure, find_theme
from registry.errors import ChartError, did_you_mean
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]

_DRAWN = {
    "memory": memory,
    "speed": speed,
    "pareto": pareto,
    "fits": fits,
    "scaling": scaling,
    "history": history,
    "compare": compare,
    "residuals": residuals,
}
#: Width of a picture in which the legends stand below, in pixels.
_NARROW = 700
#: Least width of a panel, and what axes and legends take beside the panels, in pixels.
_LEAST_PANEL = 240
_AXIS = 64
_LEGEND = 190
_TALLEST = 420
#: Pixels of a letter of the heading.
_LETTER = 6.2


@dataclass(frozen=True)
class ChartOptions:
    """How a chart is drawn; see `registry.charts`."""

    theme: str = "light"
    width: int = 900
    x: str | None = None
    y: str | None = None
    methods: Sequence[str] | None = None
    title: str | None = None
    #: What the rows were chosen by: the heading says it.
    chosen: str = ""


def build(kind: str, rows: Sequence[Row] | None, options: ChartOptions) -> Any:
    """Return the Altair chart of a kind; see `registry.charts.build_chart`."""
    drawn = _DRAWN[kind]
    look = _look(kind, options)
    usable = None if rows is None else _choose_usable(kind, list(rows), look)
    look = _fit_look(look, usable, options)
    n_panels = _count_panels(usable) if drawn.PANELS else 1
    layout = _lay_out(options.width, n_panels, has_legend=drawn.HAS_LEGEND)
    size = layout.size | drawn.SIZE
    layers = [layer.properties(**size) for layer in drawn.layers(look)]
    data = _data(kind, usable)
    if drawn.PANELS:
        header = alt.Header(labelLimit=layout.size["width"])
        panel = alt.Facet("panel:N", title=None, header=header)
        chart = alt.layer(*layers).facet(facet=panel, data=data, columns=layout.columns)
        if usable and n_panels % layout.columns:  # a shared axis would hang under an empty place
            chart = chart.resolve_axis(x="independent")
    else:
        chart = alt.layer(*layers, data=data)
    # Altair copies a chart for each transform that it is given: an empty one costs next to nothing
    chart.transform = drawn.transformed(alt.Chart(), look).transform
    heading = _heading(kind, usable, look, options)
    configured = _configured(look, options.width)
    return chart.resolve_scale(**drawn.SCALES).properties(title=heading).configure(**configured)


def _configured(look: Look, width: int) -> dict[str, Any]:
    configured = configure(look.theme)
    if width < _NARROW:
        configured["legend"] |= {"orient": "bottom", "columns": 2, "direction": "vertical"}
    return configured


@dataclass(frozen=True)
class _Layout:
    columns: int
    size: dict[str, int]


def _lay_out(width: int, n_panels: int, *, has_legend: bool) -> _Layout:
    free = width - (_LEGEND if has_legend and width >= _NARROW else 0)
    columns = max(1, min(n_panels, free // (_LEAST_PANEL + _AXIS)))
    panel = max(120, free // columns - _AXIS)
    return _Layout(columns, {"width": panel, "height": min(_TALLEST, max(180, panel * 3 // 5))})


def _look(kind: str, options: ChartOptions) -> Look:
    chosen = {"x": options.x, "y": options.y}
    for axis, column in chosen.items():
        known = CHOICES.get(kind, {}).get(axis, ())
        if column is not None and column not in known:
            raise ChartError(
                f"{kind}: axis {axis}: found {column!r}{did_you_mean(column, known)}; expected "
                + (f"one of {', '.join(known)}" if known else "none: it is fixed")
            )
        chosen[axis] = column or (known[0] if known else None)
    return Look(find_theme(options.theme), (), chosen["x"] or "", chosen["y"] or "")


def _fit_look(look: Look, rows: Sequence[Row] | None, options: ChartOptions) -> Look:
    """Return a look with what depends on the rows that are drawn: colours, shapes and ticks."""
    most = len(look.theme.methods)
    methods = tuple((options.methods or _choose_methods(rows, most))[:most])
    if rows is None:
        return replace(look, methods=methods)
    over = look.x or "n_gpus"
    return replace(
        look,
        methods=methods,
        has_others=any(row.get("method_label") not in methods for row in rows),
        shapes=list_shapes(rows),
        ticks=list_ticks(row[over] for row in rows if row.get(over) is not None),
    )


def _choose_methods(rows: Sequence[Row] | None, most: int) -> list[str]:
    """Return the labels that get a colour: the usual ones that are there, then the most frequent.

    The usual ones keep their place in the list of colours even where some are not there.
    """
    counts = Counter(str(row.get("method_label")) for row in rows or () if row.get("method_label"))
    frequent = [name for name in _rank(counts) if name not in USUAL_METHODS]
    places = [name if rows is None or name in counts else None for name in USUAL_METHODS]
    n_free = most - len(USUAL_METHODS)
    for name in frequent[n_free:]:  # places of usual ones that are not there
        if None not in places:
            break
        places[places.index(None)] = name
    return [place or "" for place in places] + frequent[:n_free]


def _rank(counts: Counter[Any]) -> list[Any]:
    """Return what was counted, the most frequent first; the order of rows does not matter."""
    return sorted(counts, key=lambda one: (-counts[one], one))


def _choose_usable(kind: str, rows: list[Row], look: Look) -> list[Row]:
    """Return the rows that say what the picture shows; raise ChartError where none does."""
    usable = [row for row in rows if _DRAWN[kind].is_usable(row, look)]
    if usable:
        return usable
    if not rows:
        raise ChartError(f"{kind}: no observation matches; expected some; use fewer filters")
    other = _find_other_axes(kind, rows, look)
    way_out = f"; these do: {', '.join(other)}" if other else "; choose others"
    raise ChartError(
        f"{kind}: none of the {_count_runs(rows)} observations has what the chart shows "
        f"({_DRAWN[kind].shown(look)}){way_out}"
    )


def _find_other_axes(kind: str, rows: list[Row], look: Look) -> list[str]:
    found = []
    for axis, known in CHOICES.get(kind, {}).items():
        for column in known:
            other = replace(look, x=column) if axis == "x" else replace(look, y=column)
            if any(_DRAWN[kind].is_usable(row, other) for row in rows):
                found.append(f"--{axis} {column}")
    return found


def _pair(row: Row) -> tuple[str, str]:
    return str(row.get("model_id") or "(none)"), str(row.get("gpu_id") or "(none)")


def _count_panels(rows: list[Row] | None) -> int:
    """Return how many panels rows make; raise ChartError where they are too many."""
    if rows is None:
        return MOST_PANELS
    pairs = Counter(map(_pair, rows))
    if len(pairs) > MOST_PANELS:
        model, gpu = _rank(pairs)[0]
        n = _count_runs([row for row in rows if _pair(row) == (model, gpu)])
        raise ChartError(
            f"found {len(pairs)} pairs of a model and a card, each with a panel of its own; "
            f"expected at most {MOST_PANELS}; choose with --model and --gpu, such as "
            f"--model {model} --gpu {gpu} ({n} observations)"
        )
    return len(pairs)


def _data(kind: str, rows: list[Row] | None) -> Any:
    if rows is None:
        return alt.NamedData("rows")
    values = [{name: row.get(name) for name in COLUMNS[kind]} for row in rows]
    return alt.InlineData(values=values, name="rows")


def _heading(kind: str, rows: list[Row] | None, look: Look, options: ChartOptions) -> Any:
    letters = max(30, int(options.width / _LETTER))
    notes = [] if rows is None else [_count(rows)]
    notes.append(_DRAWN[kind].notes(look))
    title = options.title or ": ".join(filter(None, (_DRAWN[kind].title(look), options.chosen)))
    return alt.TitleParams(
        text=textwrap.wrap(title, int(letters * 0.72)),
        subtitle=textwrap.wrap(" ".join(notes), letters),
    )


def _count(rows: list[Row]) -> str:
    sources = {row.get("source_id") for row in rows}
    if "source_id" not in rows[0]:
        return f"{len(rows)} comparisons."
    n_runs = _count_runs(rows)
    medians = "" if n_runs == len(rows) else f"{format_count(len(rows), 'median')} of "
    counted = format_count(n_runs, "observation")
    return f"{medians}{counted} of {format_count(len(sources), 'source')}."


def _count_runs(rows: Sequence[Row]) -> int:
    """Return how many observations rows stand for: one of the view `scaling` is a median."""
    return sum(row.get("n_observations") or 1 for row in rows)
