from __future__ import annotations

import pytest

from registry.errors import UnitError
from registry.units import figure_of, parse_rate

PLACE = "table 2, row 1, column 'Speed'"


@pytest.mark.parametrize(
    ("text", "value", "unit", "what", "per_gpu"),
    [
        ("1.0s/it", 1.0, "second", "step", False),
        ("2.5 s/iter", 2.5, "second", "step", False),
        ("4it/s", 4.0, "1/second", "step", False),
        ("0.9秒/步", 0.9, "second", "step", False),
        ("0.9 сек/шаг", 0.9, "second", "step", False),
        ("12 样本/秒", 12.0, "1/second", "sample", False),
        ("41.9 imgs/s", 41.9, "1/second", "sample", False),
        ("0.45iter/s", 0.45, "1/second", "step", False),
        ("0.653 sample/s", 0.653, "1/second", "sample", False),
        ("3.2samples/s", 3.2, "1/second", "sample", False),
        ("12 ex/s", 12.0, "1/second", "sample", False),
        ("474.11 tokens/s", 474.11, "1/second", "token", False),
        ("1,200 tokens/s/p", 1200.0, "1/second", "token", True),
        ("1200 token/s/gpu", 1200.0, "1/second", "token", True),
    ],
)
def test_speeds_say_what_they_count(
    text: str, value: float, unit: str, what: str, *, per_gpu: bool
) -> None:
    rate = parse_rate(text, where=PLACE)
    assert (rate.quantity.value, rate.quantity.unit) == (value, unit)
    assert (rate.what, rate.per_gpu, rate.remark) == (what, per_gpu, None)


def test_a_rate_and_the_time_of_one_are_reciprocal() -> None:
    rate, period = parse_rate("4it/s", where=PLACE), parse_rate("0.25s/it", where=PLACE)
    assert rate.per_second == period.per_second == 4
    assert rate.seconds_each == period.seconds_each == 0.25
    assert parse_rate("0s/it", where=PLACE).per_second == float("inf")


@pytest.mark.parametrize(
    ("text", "per_second", "what"),
    [
        ("25 ms/step", 40.0, "step"),
        ("2 min/step", 1 / 120, "step"),
        ("540 ms/sample", 1 / 0.54, "sample"),
        ("30 it/min", 0.5, "step"),
        ("90 samples/min", 1.5, "sample"),
    ],
)
def test_a_time_or_a_period_other_than_seconds_is_converted(
    text: str, per_second: float, what: str
) -> None:
    rate = parse_rate(text, where="here")
    assert rate.what == what
    assert rate.per_second == pytest.approx(per_second)
    assert rate.quantity.unit_as_written == text.split()[1]


def test_a_remark_is_kept() -> None:
    rate = parse_rate("0.45iter/s(3h total)", where=PLACE)
    assert (rate.quantity.value, rate.remark, rate.evidence) == (0.45, "3h total", None)


def test_totals_give_a_bare_rate_its_unit() -> None:
    rate = parse_rate("0.95(87543 samples/91974.29 seconds)", where=PLACE)
    assert (rate.what, rate.quantity.unit_as_written) == ("sample", None)
    assert rate.quantity.reason == "the totals: 87543 samples/91974.29 seconds"
    assert rate.evidence is not None
    assert (rate.evidence.count.value, rate.evidence.duration.value) == (87543, 91974.29)
    assert rate.evidence.agrees


def test_totals_that_disagree_are_flagged_and_give_no_unit() -> None:
    text = "1.05(87543 samples/91974.29 seconds)"
    with pytest.raises(UnitError, match="a number alone needs a default unit"):
        parse_rate(text, where=PLACE)
    rate = parse_rate(text, where=PLACE, default_unit="sample/s", reason="the header says so")
    assert rate.evidence is not None
    assert not rate.evidence.agrees
    assert rate.quantity.reason == "the header says so"


@pytest.mark.parametrize(
    "text", ["", "1.98x", "1.0", "s/it", "-1s/it", "nan it/s", "1 km/h", "1.0s/it (a) (b)"]
)
def test_what_is_no_speed_is_refused_by_place(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_rate(text, where=PLACE)
    assert str(caught.value).startswith(f"{PLACE}: found ")


def test_a_default_unit_needs_its_reason() -> None:
    with pytest.raises(UnitError) as caught:
        parse_rate("1.0", where=PLACE, default_unit="s/it")
    assert str(caught.value) == (
        f"{PLACE}: found the default unit 's/it' without a reason, expected one; say where the "
        "source shows it"
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("2.0(10 samples/5 s)", "sample"),
        ("2.0( 10 tokens/5s )", "token"),
        ("2.0(10 steps / 5 seconds)", "step"),
        ("2.0(10 iters/5 sec)", "step"),
    ],
)
def test_totals_in_a_remark_give_a_bare_rate_its_unit(text: str, what: str) -> None:
    rate = parse_rate(text, where="row 1")
    assert (rate.what, rate.per_second, rate.quantity.unit) == (what, 2.0, "1/second")
    assert rate.evidence is not None
    assert rate.evidence.agrees


@pytest.mark.parametrize("remark", ["10 samples/5 s in all", "9 samples/5 s", "in all"])
def test_a_remark_that_is_no_total_or_disagrees_gives_no_unit(remark: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_rate(f"2.0({remark})", where="row 1")
    assert str(caught.value) == (
        f"row 1: found '2.0({remark})', expected a speed such as '1.0s/it', '0.45iter/s', "
        "'0.653 sample/s' or '1.2k tokens/s/gpu': a number alone needs a default unit and its "
        "reason"
    )


@pytest.mark.parametrize(
    ("text", "value", "label", "reading"),
    [
        ("2.1k tokens/s", 2100.0, "ktokens/s", "k token/s"),
        ("1.2万 tokens/s", 12_000.0, "万tokens/s", "万 token/s"),
        ("3M tokens/s", 3e6, "Mtokens/s", "M token/s"),
        ("950 tokens/s", 950.0, "tokens/s", "token/s"),
    ],
)
def test_a_rate_in_thousands_keeps_what_was_written(
    text: str, value: float, label: str, reading: str
) -> None:
    quantity = parse_rate(text, where=PLACE).quantity
    assert (quantity.value, quantity.unit_as_written, quantity.reading) == (value, label, reading)


@pytest.mark.parametrize(
    ("text", "seconds", "what"),
    [
        ("4.8\u79d2/3\u30b9\u30c6\u30c3\u30d7", 1.6, "step"),
        ("4.8 s / 3 steps", 1.6, "step"),
        ("12 s per 100 iterations", 0.12, "step"),
        ("2 min / 1,000 samples", 0.12, "sample"),
    ],
)
def test_a_time_of_several_is_that_of_one_times_as_many(
    text: str, seconds: float, what: str
) -> None:
    rate = parse_rate(text, where=PLACE)
    assert (rate.seconds_each, rate.what, rate.quantity.raw) == (seconds, what, text)
    assert rate.quantity.reason is not None
    assert rate.quantity.reason.endswith(f" {what}s in the source")


def test_a_time_of_several_is_as_exact_as_its_time_divided() -> None:
    rate = parse_rate("4.8 s / 4 steps", where=PLACE)
    assert figure_of(rate.quantity).half_width == pytest.approx(0.05 / 4)
