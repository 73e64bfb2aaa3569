"""Read the texts of figures as quantities, once the row's cards are known."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.errors import UnitError
from registry.tables.column_spec import SHARED_METRICS
from registry.tables.decimal_marks import has_decimal_comma, read_decimal_commas
from registry.tables.header import parse_rate_unit, without_share
from registry.tables.header_check import check_clock, check_scope
from registry.tables.report import ReportedFigure
from registry.units import (
    TIME_OF,
    figures_in,
    find_failure,
    parse_duration,
    parse_outcome_word,
    parse_quantity,
    parse_totals,
    split_change,
)
from registry.units.number import NUMBER
from registry.units.rate import IN_THOUSANDS, POWERS, rate_digits

if TYPE_CHECKING:
    from registry.tables.cell_reader import FigureText
    from registry.tables.column_spec import FigureSpec
    from registry.tables.values import Values
    from registry.units.figure import AnyQuantity
    from registry.units.memory import MemoryOptions
    from registry.units.rate import RateEvidence

#: Cards that a figure of all cards is taken to be of at most, where nobody says how many there are.
_MOST_UNSTATED_CARDS = 256

#: What every run takes some of; a speed of 0 is none that its reader knows.
_NEVER_ZERO = ("peak_memory", "total_time", "step_time", "sample_time")
_LEAST_THOUSANDS = 1000
_SEVERAL = re.compile(r"[0-9]\S*\s+[/|;+]\s+[0-9]")
_TOTAL = re.compile(r"(?P<after>.+?)(?:\s+in\s+|\s*)total|total:?\s*(?P<before>.+)", re.IGNORECASE)
_COUNT_OF = {"sample": "n_samples", "token": "n_tokens", "step": "n_steps"}


@dataclass(frozen=True)
class Hardware:
    """What bounds a memory figure; None where it is not stated."""

    n_gpus: int | None = None
    gpu_memory_bytes: int | None = None
    allow_over_capacity: bool = False

    def capacity_bytes(self, scope: str) -> int | None:
        """Return the memory of the cards that a figure of this scope is about."""
        if self.gpu_memory_bytes is None:
            return None
        if scope != "total":
            return self.gpu_memory_bytes
        return None if self.n_gpus is None else self.n_gpus * self.gpu_memory_bytes


#: A number and one word behind it, which is no unit that is known.
_ONE_WORD_BEHIND = re.compile(rf"{NUMBER}\s*(?P<word>[^\W\d_]+)")


@dataclass(frozen=True)
class ReadFigures:
    """The figures that a text gives, and whether it contradicts itself."""

    figures: tuple[ReportedFigure, ...]
    disagrees: bool = False


def read_figure(part: FigureText, hardware: Hardware, values: Values) -> ReadFigures:
    """Return the figure that a text says, and the totals that stand beside a rate.

    Raises:
        UnitError: the text does not say what the mapping expects of it.
    """
    figure = part.figure
    if figure.decimal == ",":
        point = read_decimal_commas(part.text, where=part.where)
        part = replace(part, text=point, written=part.text)
    scope = _scope(part, hardware)
    if figure.canonical_unit == "byte":
        part = _without_share(part, scope, hardware)
    problem = check_scope(part.column, figure, scope, hardware.n_gpus) or check_clock(
        part.column, figure, part.text
    )
    if problem:
        raise UnitError(f"{part.where}: {problem}")
    _validate_thousands(part)
    factor = _factor(figure, values, where=part.where)
    evidence, totals = _read_totals(part, factor)
    beside = f"({part.remark})" if evidence else ""
    quantity = _read_quantity(part.text + beside, part, scope, hardware)
    main = ReportedFigure(
        metric=figure.metric,
        statistic=figure.statistic,
        scope=scope,
        device_index=part.device_index,
        kind=figure.memory_kind,
        quantity=_scaled(quantity, factor),
        unit_in_header=figure.unit if _is_bare(part.text) else None,
        because=figure.because,
        written=part.written and part.written + beside,
    )
    return ReadFigures((main, *totals), disagrees=evidence is not None and not evidence.agrees)


def _is_bare(text: str) -> bool:
    """Return whether figures have no unit of their own; thousands, as in ``2.1k``, are none."""
    behind = [re.sub(rf"{NUMBER}\s*", "", figure) for figure in figures_in(text)]
    return not any(re.search(r"[^\W\d_]|%", label) and label not in POWERS for label in behind)


def _validate_thousands(part: FigureText) -> None:
    """Refuse to multiply a figure in thousands: the factor is for those without."""
    factor, found = part.figure.multiply_by, IN_THOUSANDS.match(part.text)
    is_factor = isinstance(factor, int | float) and factor >= _LEAST_THOUSANDS
    if is_factor and found and part.figure.canonical_unit not in ("byte", "second"):
        raise UnitError(
            f"{part.where}: found {part.text!r} and `multiply_by: {factor}`, expected one of them "
            f"to say thousands; leave `multiply_by` out if {found['thousands']} says it, or take "
            "the number alone with `form`"
        )


def _scope(part: FigureText, hardware: Hardware) -> str:
    """Return the devices that a figure covers; refuse to guess it where there are several."""
    figure = part.figure
    if part.device_index is not None:
        return "per_gpu"
    if figure.scope is not None:
        return figure.scope
    if figure.metric not in SHARED_METRICS or hardware.n_gpus == 1:
        return "total"
    if _says_per_gpu(part):
        return "mean_gpu"
    if hardware.n_gpus is None:
        return "total"
    raise UnitError(
        f"{part.where}: found a figure of {hardware.n_gpus} cards without scope, expected "
        "`scope: total` (all cards together), `mean_gpu` (each card's, or their mean) or `max_gpu` "
        "(the fullest card)"
    )


def _without_share(part: FigureText, scope: str, hardware: Hardware) -> FigureText:
    """Return an amount of memory such as ``16 GB/GPU`` without what says that it is one card's.

    Raises:
        UnitError: the mapping says that it is all cards' together.
    """
    text = without_share(part.text)
    if text == part.text:
        return part
    if scope == "total" and hardware.n_gpus != 1:
        raise UnitError(
            f"{part.where}: found {part.text!r}, one card's share, expected `scope: mean_gpu` or "
            "`max_gpu`, where all cards together are `total`"
        )
    return replace(part, text=text, written=part.written or part.text)


def _says_per_gpu(part: FigureText) -> bool:
    """Return whether a unit is one card's share."""
    if without_share(part.text) != part.text:
        return True
    written = re.sub(r"^[\d.,\s]+", "", part.text)
    labels = (written, part.figure.unit or "", part.figure.default_unit or "")
    return any((parse_rate_unit(label) or "").endswith("/gpu") for label in labels if label)


def _read_quantity(text: str, part: FigureText, scope: str, hardware: Hardware) -> AnyQuantity:
    figure = part.figure
    options = _options(figure, is_bare=_is_bare(part.text))
    if _is_held_by_cards(figure):
        options["capacity_bytes"] = hardware.capacity_bytes(scope)
        options["allow_over_capacity"] = hardware.allow_over_capacity
    try:
        quantity = parse_quantity(
            figure.canonical_unit,
            text,
            where=part.where,
            per=TIME_OF.get(figure.metric),
            per_gpu=scope != "total" or hardware.n_gpus == 1,
            **options,
        )
    except UnitError as error:
        said = f" (the cell says {part.written!r})" if part.written else ""
        raise UnitError(f"{error}{said}{_way_out(part, str(error))}") from None
    _check_some(quantity, part)
    _check_plausible(quantity, part, scope, hardware)
    return quantity


def _way_out(part: FigureText, problem: str) -> str:
    """Return the setting that a figure of another form asks for; nothing where none is known."""
    if part.figure.decimal is None and has_decimal_comma(part.text):
        return "; where the comma is the decimal mark, state `decimal: ','` of the figure"
    failure = find_failure(part.text)
    if failure is not None or re.match(r"[^\W\d_]", part.text):
        outcome = parse_outcome_word(failure or "").outcome
        meaning = f"{{outcome: {outcome}}}" if outcome else "{}"
        return (
            "; a text in the place of a figure has its meaning under `words` of the column: "
            f"`words: {{{part.text!r}: {meaning}}}`"
        )
    change = split_change(part.text)
    if change:
        mark = re.split(r"[\w\s]", part.text.strip().removesuffix(change[-1]).rstrip())[-1]
        return (
            "; which of them is the row's? "
            f"`form: ['.+{mark}\\s*(?P<value>.+)']` of the figure takes the last"
        )
    if _SEVERAL.search(part.text):
        return (
            "; a cell of several figures is read as `parts: [{metric: …}, {metric: …}]` with the "
            "`separator` between them, in the place of `figure`"
        )
    unit = _ONE_WORD_BEHIND.fullmatch(part.text)
    if unit and "found unit" in problem:
        return (
            f"; if {unit['word']!r} is written for another unit, take the number alone: "
            f"`form: ['(?P<value>.+?) *{unit['word']}']` of the figure, with its `default_unit` "
            "and the `default_reason`"
        )
    return ""


def _check_some(quantity: AnyQuantity, part: FigureText) -> None:
    """Refuse none of what every run takes: programs write 0 where nothing was measured."""
    if quantity.value == 0 and part.figure.metric in _NEVER_ZERO:
        raise UnitError(
            f"{part.where}: found {part.text!r}, expected more than 0 of {part.figure.metric}; "
            f"a 0 where nothing was measured is stated as `absent: [{part.text!r}]` of the column"
        )


def _is_held_by_cards(figure: FigureSpec) -> bool:
    """Return whether a figure is limited by the memory of the cards: that of the host is not."""
    return figure.canonical_unit == "byte" and figure.kind != "host_rss"


def _check_plausible(
    quantity: AnyQuantity, part: FigureText, scope: str, hardware: Hardware
) -> None:
    """Refuse memory that more cards would hold than a run of an unstated number of them has."""
    of_one = hardware.gpu_memory_bytes
    if not _is_held_by_cards(part.figure) or scope != "total" or hardware.n_gpus is not None:
        return
    if of_one is None or hardware.allow_over_capacity:
        return
    if quantity.value > _MOST_UNSTATED_CARDS * of_one:
        raise UnitError(
            f"{part.where}: found {part.text!r}, {quantity.value} bytes, expected at most what "
            f"{_MOST_UNSTATED_CARDS} of the cards hold ({_MOST_UNSTATED_CARDS * of_one}), as no "
            "`n_gpus` is stated; state it, or correct the unit, or state `decimal: ','` where the "
            "comma is the decimal mark"
        )


def _options(figure: FigureSpec, *, is_bare: bool) -> MemoryOptions:
    """Return how a figure is read, with the reasons for what its text does not say itself."""
    default = (figure.unit or figure.default_unit) if is_bare else None
    # a mapping may say a speed as headers do: tokens/s/device, TGS
    default = (default and parse_rate_unit(default)) or default
    in_header = (
        (figure.despite_header or "the column's header gives the unit") if figure.unit else None
    )
    reasons = [
        (figure.default_reason or in_header) if default else None,
        figure.reason if figure.read_as else None,
    ]
    return {
        "default_unit": default,
        "read_as": figure.read_as,
        "reason": "; ".join(filter(None, reasons)) or None,
    }


def _factor(figure: FigureSpec, values: Values, *, where: str) -> float:
    factor = 1.0
    for key, power in (("multiply_by", 1), ("divide_by", -1)):
        stated: Any = getattr(figure, key)
        if isinstance(stated, str):
            known = values.get(stated)
            if known is None or not known.value:
                raise UnitError(f"{where}: found no {stated}, expected one to {key} it")
            stated = known.value
        factor *= float(stated or 1) ** power
    return factor


def _scaled(quantity: AnyQuantity, factor: float) -> AnyQuantity:
    if factor == 1:
        return quantity
    number = type(quantity.value)

    def scale(value: float) -> Any:
        return number(round(value * factor)) if number is int else value * factor

    return replace(
        quantity,
        value=scale(quantity.value),
        low=scale(quantity.low),
        high=None if quantity.high is None else scale(quantity.high),
    )


def _read_totals(
    part: FigureText, factor: float
) -> tuple[RateEvidence | None, list[ReportedFigure]]:
    """Return the totals in a remark; refuse a remark that says anything else.

    What a rate is multiplied by, such as epochs, its count is too: the time is that of all of them.

    A remark such as ``2*A100`` changes what the figure is about: the mapping has to say how.
    """
    if part.remark is None:
        return None, []
    where = f"{part.where}, in parentheses"
    digits = rate_digits(part.text)
    if digits:
        evidence, _ = parse_totals(part.remark, digits, where=where)
        if evidence is not None:
            counted = replace(
                _total(_COUNT_OF[evidence.what], _scaled(evidence.count, factor)),
                because=part.figure.because if factor != 1 else None,
            )
            return evidence, [counted, _total("total_time", evidence.duration)]
    total = _TOTAL.fullmatch(part.remark)
    if total is None:
        raise UnitError(
            f"{part.where}: found the remark {part.remark!r} behind a figure, expected its meaning "
            "under `remarks` of the column; write `set: {}` there if it changes nothing"
        )
    duration = parse_duration(total["after"] or total["before"], where=where)
    return None, [_total("total_time", duration)]


def _total(metric: str, quantity: AnyQuantity) -> ReportedFigure:
    return ReportedFigure(metric, "value", "total", None, None, quantity)
