"""A figure of any canonical unit: text to a quantity, and to the columns of a measurement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from registry.units.count import parse_count
from registry.units.duration import parse_duration
from registry.units.known import rate_units_by_spelling
from registry.units.memory import MemoryOptions, parse_memory
from registry.units.number import NUMBER, parse_number, strip_bold, unit_error
from registry.units.quantity import Quantity
from registry.units.rate import parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.units.rate import Rate

AnyQuantity = Quantity[int] | Quantity[float]

#: Metrics that are the time of one thing, which may be written as a speed such as ``2.1s/it``.
TIME_OF = {"step_time": "step", "sample_time": "sample"}

#: What a canonical rate counts.
_RATES = {"sample/second": "sample", "token/second": "token", "step/second": "step"}
_COUNTS = ("parameter", "step", "token", "sample")
_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_FLOPS = re.compile(rf"(?P<number>{NUMBER})\s*(?P<prefix>[kMGTP]?)(?P<label>FLOPS|FLOP/s|FLOPs/s)")
_RATIO = re.compile(rf"(?P<number>{NUMBER})\s*(?P<label>%)?")


class FigureOptions(MemoryOptions, total=False):
    """What is known of a figure besides its text.

    Attributes:
        per: what a time is the time of, ``step`` or ``sample``; ``2.1s/it`` is read then.
        per_gpu: whether one GPU's share of a rate is expected.
    """

    per: str | None
    per_gpu: bool


def parse_figure(unit: str, text: str, *, where: str, per: str | None = None) -> dict[str, Any]:
    """Return the columns of a measurement for a figure that is given as text.

    ``unit`` is the canonical unit of the metric as ``schemas/vocabularies.yaml`` names it; ``per``
    (``step``, ``sample``) is what a time is the time of. Nulls are left out, and bounds that equal
    the value.

    >>> parse_figure("byte", "36.6 GiB", where="value")["value"]
    39298950758

    Raises:
        UnitError: the text does not say a quantity of that unit. The message starts with ``where``.
    """
    return format_figure(parse_quantity(unit, text, where=where, per=per))


def format_figure(quantity: AnyQuantity) -> dict[str, Any]:
    """Return the columns of a measurement that a quantity fills."""
    reasons = [quantity.reason, "a lower bound" if quantity.high is None else None]
    columns = {
        "value": quantity.value,
        "low": None if quantity.low == quantity.value else quantity.low,
        "high": None if quantity.high == quantity.value else quantity.high,
        "raw": quantity.raw,
        "unit_reported": quantity.unit_as_written,
        "reading": quantity.reading,
        "reason": "; ".join(filter(None, reasons)) or None,
    }
    return {name: value for name, value in columns.items() if value is not None}


def parse_quantity(
    unit: str, text: str, *, where: str, **options: Unpack[FigureOptions]
) -> AnyQuantity:
    """Return the quantity that a text says, in a canonical unit.

    Raises:
        UnitError: as :func:`parse_figure`.
    """
    if unit == "byte":
        return parse_memory(text, where=where, **_memory_options(options))
    if unit == "second":
        return _parse_time(text, where, options)
    if unit in _RATES:
        return _parse_rate(text, where, _RATES[unit], options)
    if unit in _COUNTS:
        return parse_count(text, where=where, **_unit_options(options))
    return _OTHERS[unit](text, where)


def _memory_options(options: FigureOptions) -> MemoryOptions:
    return MemoryOptions(
        **_unit_options(options),
        capacity_bytes=options.get("capacity_bytes"),
        allow_over_capacity=options.get("allow_over_capacity", False),
    )


class _UnitOptions(TypedDict):
    default_unit: str | None
    read_as: str | None
    reason: str | None


def _unit_options(options: FigureOptions) -> _UnitOptions:
    return {
        "default_unit": options.get("default_unit"),
        "read_as": options.get("read_as"),
        "reason": options.get("reason"),
    }


def _parse_time(text: str, where: str, options: FigureOptions) -> AnyQuantity:
    per = options.get("per")
    default_is_rate = options.get("default_unit") in rate_units_by_spelling()
    if per is None or ("/" not in text and not default_is_rate):
        return parse_duration(text, where=where, **_unit_options(options))
    rate = _parse_rate_of(text, where, per, options)
    return _in_unit(rate, "second", rate.seconds_each)


def _parse_rate(text: str, where: str, what: str, options: FigureOptions) -> AnyQuantity:
    rate = _parse_rate_of(text, where, what, options)
    return _in_unit(rate, "1/second", rate.per_second)


def _parse_rate_of(text: str, where: str, what: str, options: FigureOptions) -> Rate:
    rate = parse_rate(
        text,
        where=where,
        default_unit=options.get("default_unit"),
        reason=options.get("reason"),
    )
    if rate.what != what:
        raise unit_error(where, text, f"a speed in {what}s, not in {rate.what}s")
    if rate.per_gpu and not options.get("per_gpu"):
        raise unit_error(where, text, "the speed of all GPUs together, not one GPU's share")
    if not rate.quantity.value:
        raise unit_error(where, text, "a speed above zero")
    return rate


def _in_unit(rate: Rate, unit: str, value: float) -> Quantity[float]:
    given = rate.quantity
    return Quantity(
        value=value,
        unit=unit,
        raw=given.raw,
        unit_as_written=given.unit_as_written,
        reading=given.reading,
        reason=given.reason,
        low=value,
        high=value,
    )


def _parse_ratio(text: str, where: str) -> Quantity[float]:
    expected = "a number such as '0.83' or '83%'"
    found = _RATIO.fullmatch(strip_bold(text, where=where, expected=expected))
    if found is None:
        raise unit_error(where, text, expected)
    divisor = 100 if found["label"] else 1
    value = float(parse_number(found["number"], where=where) / divisor)
    return _exact(value, "ratio", text, found["label"])


def _parse_flops(text: str, where: str) -> Quantity[float]:
    expected = "a throughput such as '120 TFLOP/s'"
    found = _FLOPS.fullmatch(strip_bold(text, where=where, expected=expected))
    if found is None:
        raise unit_error(where, text, expected)
    value = float(parse_number(found["number"], where=where) * _PREFIXES[found["prefix"]])
    return _exact(value, "flop/second", text, found["prefix"] + found["label"])


def _exact(value: float, unit: str, raw: str, label: str | None) -> Quantity[float]:
    return Quantity(
        value=value,
        unit=unit,
        raw=raw,
        unit_as_written=label,
        reading=label or unit,
        reason=None,
        low=value,
        high=value,
    )


_OTHERS: dict[str, Callable[[str, str], Quantity[float]]] = {
    "1": _parse_ratio,
    "FLOP/second": _parse_flops,
}
