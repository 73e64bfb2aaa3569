"""A figure of any canonical unit: text to a quantity, and to the columns of a measurement."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from registry.units.bound import split_bound, with_bound
from registry.units.count import parse_count
from registry.units.duration import parse_duration
from registry.units.known import rate_units_by_spelling
from registry.units.memory import MemoryOptions, UnitOptions, parse_memory
from registry.units.number import NUMBER, parse_number, strip_bold, unit_error, validate_reason
from registry.units.quantity import Quantity
from registry.units.range import parse_range, split_range
from registry.units.rate import parse_rate, split_several

if TYPE_CHECKING:
    from registry.units.rate import Rate

AnyQuantity = Quantity[int] | Quantity[float]

#: Metrics that are the time of one thing, which may be written as a speed such as ``2.1s/it``.
TIME_OF = {"step_time": "step", "sample_time": "sample"}

#: What a canonical rate counts.
_RATES = {"sample/second": "sample", "token/second": "token", "step/second": "step"}
_COUNTS = ("parameter", "step", "token", "sample")
_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_FLOPS = re.compile(
    rf"(?P<number>{NUMBER})\s*(?P<prefix>[kMGTP]?)"
    r"(?P<label>(?:FLOPS|FLOP/s|FLOPs/s|FLOPs|FLOP/sec|FLOPs/sec)(?:/(?:GPU|gpu|device|chip))?)"
)
_FLOPS_UNIT = "FLOP/second"
_RATIO = re.compile(rf"(?P<number>{NUMBER})\s*(?P<label>%)?")


def parse_figure(
    unit: str, text: str, *, where: str, per: str | None = None, per_gpu: bool = False
) -> dict[str, Any]:
    """Return the columns of a measurement for a figure that is given as text.

    ``unit`` is the canonical unit of the metric as ``schemas/vocabularies.yaml`` names it; ``per``
    (``step``, ``sample``) is what a time is the time of; ``per_gpu`` says whether one GPU's share
    of a rate may be stated. Nulls are left out, and bounds that equal the value.

    >>> parse_figure("byte", "36.6 GiB", where="value")["value"]
    39298950758

    Raises:
        UnitError: the text does not say a quantity of that unit. The message starts with ``where``.
    """
    return format_figure(parse_quantity(unit, text, where=where, per=per, per_gpu=per_gpu))


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
    unit: str,
    text: str,
    *,
    where: str,
    per: str | None = None,
    per_gpu: bool = False,
    **options: Unpack[MemoryOptions],
) -> AnyQuantity:
    """Return the quantity that a text says, in a canonical unit.

    ``per`` is what a time is the time of, ``step`` or ``sample``; ``2.1s/it`` is read then.
    ``per_gpu`` says whether one GPU's share of a rate is expected. A range is its middle, a figure
    with a tolerance is itself, and both have bounds.

    Raises:
        UnitError: as :func:`parse_figure`.
    """

    def parse_one(figure: str) -> AnyQuantity:
        return _parse_exact(unit, figure, where=where, per=per, per_gpu=per_gpu, **options)

    bare, bound = split_bound(text)
    ends = split_range(bare)
    if ends is not None and bound in (None, "about"):
        quantity = parse_range(ends, text, parse_one, where=where)
    else:
        quantity = parse_one(text if bound is None else bare)
    return quantity if bound is None else with_bound(quantity, bound, text)


def _parse_exact(  # noqa: PLR0911 - one return for each canonical unit
    unit: str,
    text: str,
    *,
    where: str,
    per: str | None,
    per_gpu: bool,
    **options: Unpack[MemoryOptions],
) -> AnyQuantity:
    if unit == "byte":
        return parse_memory(text, where=where, **options)
    stated = _unit_options(options)
    if unit == "second":
        is_by_unit = "/" in text or stated["default_unit"] in rate_units_by_spelling()
        is_speed = is_by_unit or split_several(text) is not None
        if per is None or not is_speed:
            return parse_duration(text, where=where, **stated)
        each = _parse_rate_of(per, text, stated, where=where, per_gpu=per_gpu)
        return _in_unit(each, "second", each.seconds_each)
    if unit in _RATES:
        rate = _parse_rate_of(_RATES[unit], text, stated, where=where, per_gpu=per_gpu)
        return _in_unit(rate, "1/second", rate.per_second)
    if unit in _COUNTS:
        return parse_count(text, where=where, **stated)
    if unit == _FLOPS_UNIT:
        return _parse_flops(text, stated, where=where)
    return _parse_ratio(text, where)


def _unit_options(options: MemoryOptions) -> UnitOptions:
    return {
        "default_unit": options.get("default_unit"),
        "read_as": options.get("read_as"),
        "reason": options.get("reason"),
    }


def _parse_rate_of(what: str, text: str, stated: UnitOptions, *, where: str, per_gpu: bool) -> Rate:
    default, reason = stated["default_unit"], stated["reason"]
    rate = parse_rate(text, where=where, default_unit=default, reason=reason)
    if rate.what != what:
        raise unit_error(where, text, f"a speed in {what}s, not in {rate.what}s")
    if rate.per_gpu and not per_gpu:
        expected = "the speed of all GPUs together; one GPU's share has the scope mean_gpu"
        raise unit_error(where, text, expected)
    if not rate.quantity.value:
        raise unit_error(where, text, "a speed above zero")
    return rate


def _in_unit(rate: Rate, unit: str, value: float) -> Quantity[float]:
    return replace(rate.quantity, value=value, unit=unit, low=value, high=value)


def _parse_ratio(text: str, where: str) -> Quantity[float]:
    expected = "a number such as '0.83' or '83%'"
    found = _RATIO.fullmatch(strip_bold(text, where=where, expected=expected))
    if found is None:
        raise unit_error(where, text, expected)
    divisor = 100 if found["label"] else 1
    value = float(parse_number(found["number"], where=where) / divisor)
    return Quantity.exact(value, "ratio", text, found["label"])


def _parse_flops(text: str, stated: UnitOptions, *, where: str) -> Quantity[float]:
    expected = "a throughput such as '120 TFLOP/s'"
    bare = strip_bold(text, where=where, expected=expected)
    default = stated["default_unit"] if re.fullmatch(NUMBER, bare) else None
    if default:
        validate_reason(stated["reason"], f"the default unit {default!r}", where=where)
    found = _FLOPS.fullmatch(f"{bare} {default}" if default else bare)
    if found is None:
        raise unit_error(where, text, expected)
    value = float(parse_number(found["number"], where=where) * _PREFIXES[found["prefix"]])
    label = found["prefix"] + found["label"]
    return Quantity.exact(
        value,
        "flop/second",
        text,
        None if default else label,
        reading=label,
        reason=stated["reason"] if default else None,
    )
