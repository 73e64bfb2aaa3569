"""Hold what a mapping says of a column's figures against what the column's header says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import UnitError
from registry.tables.header import Header, counted_by, read_header, same_unit
from registry.units.duration import READ_UNASKED, clock_readings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.tables.column_spec import FigureSpec

_DIMENSIONS = {
    "byte": "memory",
    "second": "duration",
    "FLOP/second": "flops",
    "sample/second": "rate",
    "token/second": "rate",
    "step/second": "rate",
}
_COUNTED = {
    "tokens_per_second": "token",
    "samples_per_second": "sample",
    "sample_time": "sample",
    "steps_per_second": "step",
    "step_time": "step",
}
_IN_WORDS = {"h": "hours", "day": "days"}
_WAY_OUT = "correct the mapping, or say under `despite_header` why the header is wrong"


def check_header(column: str, figure: FigureSpec) -> Iterator[str]:
    """Yield how a figure's meaning contradicts the header of its column."""
    if figure.despite_header:
        return
    header = read_header(column)
    yield from _check_unit(header, figure)
    yield from _check_counted(header, figure)
    if header.clock not in (None, *READ_UNASKED, figure.read_as):
        yield (
            f"found the clock {header.clock} in the header and no `read_as: {header.clock}`, "
            f"expected both the same; {_WAY_OUT}"
        )
    yield from _check_factor(header, figure)
    yield from _check_kind(header, figure)
    if header.deviation is not None and figure.statistic != "std":
        yield (
            f"found {header.deviation!r} in the header, the spread of several figures, and no "
            f"`statistic: std`, expected both; {_WAY_OUT}"
        )


def _check_unit(header: Header, figure: FigureSpec) -> Iterator[str]:
    stated = figure.unit or figure.default_unit
    dimension = _DIMENSIONS.get(figure.canonical_unit)
    is_time_as_rate = dimension == "duration" and header.dimension == "rate"
    if (
        stated is None
        or header.unit is None
        or not (dimension == header.dimension or is_time_as_rate)
    ):
        return
    if not same_unit(stated, header):
        yield (
            f"found unit {stated!r} in the mapping and {header.unit!r} in the header, expected the "
            f"same; {_WAY_OUT}"
        )


def _check_counted(header: Header, figure: FigureSpec) -> Iterator[str]:
    """Yield what a header counts where the figure counts others, and no factor leads there."""
    said, counted = counted_by(header.unit), _COUNTED.get(figure.metric)
    has_factor = figure.multiply_by is not None or figure.divide_by is not None
    if said and counted and said != counted and not has_factor:
        yield (
            f"found {figure.metric} in the mapping and {header.unit!r} in the header, expected "
            f"both of {said}s; {_WAY_OUT}"
        )


def check_unit_column(cells: Mapping[str, str], figure: FigureSpec, *, where: str) -> None:
    """Raise UnitError where a figure's unit contradicts that in a column of units in its row."""
    for name, cell in cells.items():
        if name.strip().lower() in _UNIT_COLUMNS and not figure.despite_header:
            said = read_header(f"({cell.strip()})")
            if any(_check_unit(said, figure)):
                stated = figure.unit or figure.default_unit
                raise UnitError(
                    f"{where}: found unit {stated!r} in the mapping and {said.unit!r} in column "
                    f"{name!r}, expected the same; {_WAY_OUT}"
                )


_UNIT_COLUMNS = ("unit", "units", "单位")


def check_clock(column: str, figure: FigureSpec, text: str) -> str | None:
    """Return how a clock such as ``2:30`` is unclear below a header in hours or days, or None."""
    is_told = figure.unit or figure.default_unit or figure.read_as or figure.despite_header
    long_unit = None if is_told else read_header(column).long_unit
    if long_unit is None or figure.canonical_unit != "second":
        return None
    readings = clock_readings(text)
    if not readings or (long_unit == "h" and "h:mm:ss" in readings):
        return None
    unit = "`unit: h`, which makes it h:mm, or " if long_unit == "h" else ""
    listed = ", ".join(f"`{reading}`" for reading in readings)
    return (
        f"found the clock {text!r} below a header in {_IN_WORDS[long_unit]}, expected to be told "
        f"what its fields are; state {unit}`read_as` (one of {listed}) and the `reason`"
    )


def _check_factor(header: Header, figure: FigureSpec) -> Iterator[str]:
    """Yield what of a header makes its figures others than one, where no factor says it.

    Thousands, a period, several steps, the time of all cards, shares and comparisons.
    """
    dimension = _DIMENSIONS.get(figure.canonical_unit)
    if figure.multiply_by is not None or figure.divide_by is not None:
        return
    if header.card_time and dimension == "duration":
        yield (
            f"found {header.card_time!r} in the header, the time of all cards together, and no "
            f"`divide_by`, expected the time on a clock; {_WAY_OUT}"
        )
    if header.relative and dimension is not None:
        yield (
            f"found {header.relative!r} in the header, expected amounts, no shares or comparisons; "
            f"leave the column out, or {_WAY_OUT}"
        )
    if (header.several or 1) > 1 and figure.metric == "step_time":
        yield (
            f"found a time of {header.several} in the header and no `divide_by`, expected the time "
            f"of one; {_WAY_OUT}"
        )
    is_counted_in_them = dimension is None and (figure.unit or figure.default_unit)
    if header.counted_in and dimension in ("rate", None) and not is_counted_in_them:
        yield (
            f"found {header.counted_in.text} in the header and no `multiply_by` (nor, of a count, "
            f"`unit: {header.counted_in.symbol}`), expected the figures in ones; {_WAY_OUT}"
        )
    if header.period and "rate" in (dimension, header.dimension):
        yield (
            f"found a rate per {header.period.symbol} in the header and no `divide_by` "
            f"({header.period.factor} seconds), expected it per second; {_WAY_OUT}"
        )


def _check_kind(header: Header, figure: FigureSpec) -> Iterator[str]:
    """Yield a kind of memory in the header that is not the figure's."""
    if _DIMENSIONS.get(figure.canonical_unit) != "memory":
        return
    if "host" in header.kinds and figure.kind != "host_rss":
        yield (
            "found the memory of the host in the header and no `kind: host_rss`, expected both; "
            f"{_WAY_OUT}"
        )
    named = [kind for kind in header.kinds if kind != "host"]
    if figure.kind is not None and named and figure.kind not in named:
        yield (
            f"found {' and '.join(named)} in the header and `kind: {figure.kind}`, expected the "
            f"same; {_WAY_OUT}"
        )


def check_scope(column: str, figure: FigureSpec, scope: str, n_gpus: int | None) -> str | None:
    """Return how a figure's scope contradicts the header of its column, or None."""
    if n_gpus == 1 or figure.despite_header:
        return None
    header = read_header(column)
    if header.per_gpu and scope == "total":
        return (
            "found one card's share in the header and scope total, expected `scope: mean_gpu` "
            f"(each card's, or their mean) or `scope: max_gpu` (the fullest); {_WAY_OUT}"
        )
    if header.all_gpus and not header.per_gpu and scope != "total":
        return (
            f"found all cards together in the header and scope {scope}, expected `scope: total`; "
            f"{_WAY_OUT}"
        )
    return None
