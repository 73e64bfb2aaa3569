"""Speeds: steps, samples and tokens per second, or seconds for one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from registry.units.count import parse_count
from registry.units.duration import parse_duration
from registry.units.known import RateUnit, What, rate_units_by_spelling, unknown_unit
from registry.units.number import (
    MAX_TEXT,
    NUMBER,
    parse_number,
    rounding_half_width,
    strip_bold,
    unit_error,
    validate_reason,
)
from registry.units.quantity import Quantity

_EXPECTED = "a speed such as '1.0s/it', '0.45iter/s', '0.653 sample/s' or '1.2k tokens/s/gpu'"
_RATE = re.compile(
    rf"(?P<number>{NUMBER})\s*(?P<thousands>[kKM\u4e07])?\s*"
    r"(?P<label>[A-Za-z/]+|[^\W\d_]+/[^\W\d_]+)?"
    r"\s*(?:[(\uff08](?P<remark>[^()\uff08\uff09]*)[)\uff09])?"
)
#: Powers of ten by which a rate may be written.
POWERS = {"k": 3, "K": 3, "M": 6, "\u4e07": 4}
IN_THOUSANDS = re.compile(rf"(?P<number>{NUMBER})\s*(?P<thousands>[kKM\u4e07])")
_EVIDENCE = re.compile(
    rf"(?P<count>{NUMBER})\s*(?P<what>sample|token|step|iter)s?\s*/\s*(?P<seconds>{NUMBER}\s*[a-z]+)"
)

_WORDS: dict[What, str] = {
    "step": "steps?|its?|iters?|iterations?|步|ステップ|스텝|Schritte?n?",
    "sample": "samples?|examples?|sequences?|样本|サンプル|샘플",
}
#: A time and of how many steps or samples it is: ``4.8 s / 3 steps``, ``12 s per 100 steps``.
_SEVERAL = re.compile(
    rf"(?P<time>{NUMBER}\s*[^\W\d_]+)\s*(?:/|\bper\b|\bfor\b)\s*(?P<count>[1-9][0-9,]{{0,9}})\s*"
    rf"(?:(?P<step>{_WORDS['step']})|(?P<sample>{_WORDS['sample']}))",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RateEvidence:
    """The count and the duration from which a source computed a rate.

    ``what`` is counted; ``agrees`` tells whether their quotient is the rate within the rounding of
    its last digit.
    """

    what: What
    count: Quantity[int]
    duration: Quantity[float]
    agrees: bool


@dataclass(frozen=True, slots=True)
class Rate:
    """A speed as its source states it.

    Attributes:
        quantity: the figure, in ``1/second`` for a rate or ``second`` for the time of one.
        what: what is counted: ``step`` (as the producer counts it), ``sample`` or ``token``.
        per_gpu: whether the figure is one GPU's share.
        remark: text in parentheses after the figure, None without.
        evidence: the totals behind the figure where the remark gives them.
    """

    quantity: Quantity[float]
    what: What
    per_gpu: bool = False
    remark: str | None = None
    evidence: RateEvidence | None = None

    @property
    def per_second(self) -> float:
        """How many per second; infinite where one takes no time."""
        return self._reciprocal() if self.quantity.unit == "second" else self.quantity.value

    @property
    def seconds_each(self) -> float:
        """How many seconds one takes; infinite where the rate is zero."""
        return self.quantity.value if self.quantity.unit == "second" else self._reciprocal()

    def _reciprocal(self) -> float:
        return 1 / self.quantity.value if self.quantity.value else float("inf")


def parse_rate(
    text: str, *, where: str, default_unit: str | None = None, reason: str | None = None
) -> Rate:
    """Read one speed.

    ``2.1k`` is 2,100; ``0.45iter/s(3h total)`` keeps its remark.
    ``0.95(87543 samples/91974.29 seconds)`` has no unit of its own and gets it from the totals in
    the remark, if their quotient agrees with it.
    ``default_unit`` is that of a number alone and needs a ``reason``.

    ``4.8 s / 3 steps`` is the time of one of them.

    >>> parse_rate("2.5s/it", where="row 1").per_second
    0.4
    >>> parse_rate("12 s per 100 steps", where="row 1").seconds_each
    0.12

    Raises:
        UnitError: the text is no speed, or its unit is missing. The message starts with ``where``.
    """
    bare = strip_bold(text, where=where, expected=_EXPECTED)
    several = split_several(bare)
    if several is not None:
        return _parse_several(text, *several, where=where)
    found = _RATE.fullmatch(bare)
    if found is None:
        raise unit_error(where, text, _EXPECTED)
    digits = rate_digits(bare)
    evidence, unit_of_evidence = parse_totals(found["remark"], digits, where=where)
    label, stated = found["label"], None
    if label is None:
        stated = default_unit
        label = _label_of_bare(text, default_unit, reason, unit_of_evidence, where=where)
    unit = _rate_unit(label, where=where)
    if found["thousands"] and unit.unit == "second":
        raise unit_error(where, text, _EXPECTED)
    quantity = Quantity.exact(
        float(parse_number(digits, where=where) * unit.factor),
        unit.unit,
        text,
        "".join(filter(None, (found["thousands"], found["label"]))) or None,
        reading=" ".join(filter(None, (found["thousands"], unit.symbol))),
        reason=reason if stated else None if found["label"] else f"the totals: {found['remark']}",
    )
    return Rate(quantity, unit.what, unit.per_gpu, found["remark"], evidence)


def split_several(text: str) -> tuple[str, int, What] | None:
    """Return a time, of how many it is, and of what; None for a text of another form.

    >>> split_several("4.8 s / 3 steps")
    ('4.8 s', 3, 'step')
    """
    found = _SEVERAL.fullmatch(text.strip()) if len(text) <= MAX_TEXT else None
    if found is None:
        return None
    what: What = "step" if found["step"] else "sample"
    return found["time"], int(found["count"].replace(",", "")), what


def _parse_several(text: str, time: str, count: int, what: What, *, where: str) -> Rate:
    whole = parse_duration(time, where=where)
    return Rate(
        Quantity.exact(
            float(Fraction(repr(whole.value)) / count),
            "second",
            text,
            whole.unit_as_written,
            reading=whole.reading,
            reason=f"the time of {count} {what}s in the source",
        ),
        what,
    )


def rate_digits(text: str) -> str:
    """Return the number that a text begins with; ``2.1k`` is 2.1e3, so that its last digit stays.

    >>> rate_digits("2.1k tokens/s"), rate_digits("950"), rate_digits("none")
    ('2.1e3', '950', '')
    """
    found = IN_THOUSANDS.match(text)
    if found is not None and "e" not in found["number"].lower():
        return f"{found['number']}e{POWERS[found['thousands']]}"
    plain = re.match(NUMBER, text)
    return plain[0] if plain else ""


def _label_of_bare(
    text: str,
    default_unit: str | None,
    reason: str | None,
    unit_of_evidence: str | None,
    *,
    where: str,
) -> str:
    if default_unit is not None:
        validate_reason(reason, f"the default unit {default_unit!r}", where=where)
    label = default_unit or unit_of_evidence
    if label is None:
        raise unit_error(
            where, text, f"{_EXPECTED}: a number alone needs a default unit and its reason"
        )
    return label


def _rate_unit(label: str, *, where: str) -> RateUnit:
    known = rate_units_by_spelling()
    if label not in known:
        symbols = list(dict.fromkeys(unit.symbol for unit in known.values()))
        raise unknown_unit(label, "speed", symbols, where=where)
    return known[label]


def parse_totals(
    remark: str | None, digits: str, *, where: str
) -> tuple[RateEvidence | None, str | None]:
    """Return the totals in a remark, and the unit they give the rate if they agree with it.

    ``digits`` are those of the rate itself.
    """
    found = _EVIDENCE.fullmatch((remark or "").strip())
    if found is None:
        return None, None
    count = parse_count(found["count"], where=f"{where}, totals")
    duration = parse_duration(found["seconds"], where=f"{where}, totals")
    difference = Fraction(count.value) - parse_number(digits, where=where) * Fraction(
        duration.value
    )
    agrees = abs(difference) <= rounding_half_width(digits) * Fraction(duration.value)
    what: What = "step" if found["what"] == "iter" else found["what"]  # type: ignore[assignment]
    return RateEvidence(what, count, duration, agrees), f"{what}/s" if agrees else None
