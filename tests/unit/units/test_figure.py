"""Figures as text, for any canonical unit of the contract."""

import pytest

from registry.contract import load_metrics
from registry.errors import UnitError
from registry.units import parse_figure

EXAMPLES = {
    "byte": ("36.6 GiB", 39298950758),
    "second": ("5h35min", 20100.0),
    "sample/second": ("0.653 sample/s", 0.653),
    "token/second": ("1200 tokens/s", 1200.0),
    "step/second": ("2.5s/it", 0.4),
    "parameter": ("4.19M", 4190000),
    "step": ("1,000", 1000),
    "token": ("1.5k", 1500),
    "sample": ("48.8k", 48800),
    "1": ("83%", 0.83),
    "FLOP/second": ("120 TFLOP/s", 120e12),
}


@pytest.mark.parametrize("unit", sorted({metric.unit for metric in load_metrics().values()}))
def test_every_canonical_unit_is_read(unit: str) -> None:
    text, value = EXAMPLES[unit]
    figure = parse_figure(unit, text, where="value")
    assert (figure["value"], figure["raw"]) == (value, text)


def test_a_figure_keeps_raw_text_unit_reading_and_the_other_reading_as_bound() -> None:
    assert parse_figure("byte", "36.6G", where="value") == {
        "value": 36600000000,
        "high": 39298950758,
        "raw": "36.6G",
        "unit_reported": "G",
        "reading": "GB",
    }


def test_bounds_equal_to_the_value_are_left_out() -> None:
    assert parse_figure("byte", "1GiB", where="value") == {
        "value": 2**30,
        "raw": "1GiB",
        "unit_reported": "GiB",
        "reading": "GiB",
    }


def test_a_lower_bound_says_so() -> None:
    assert parse_figure("byte", "144 GiB+", where="value")["reason"] == "a lower bound"


@pytest.mark.parametrize(("text", "seconds"), [("2.0s/it", 2.0), ("0.5it/s", 2.0), ("2s", 2.0)])
def test_a_step_time_may_be_written_as_a_speed(text: str, seconds: float) -> None:
    assert parse_figure("second", text, where="value", per="step")["value"] == seconds


def test_a_total_time_may_not_be_written_as_a_speed() -> None:
    with pytest.raises(UnitError) as raised:
        parse_figure("second", "2.0s/it", where="value")
    assert str(raised.value).startswith("value: found '2.0s/it', expected a duration")


@pytest.mark.parametrize(
    ("unit", "text", "message"),
    [
        (
            "sample/second",
            "12 tokens/s",
            "value: found '12 tokens/s', expected a speed in samples, not in tokens",
        ),
        (
            "token/second",
            "12 tokens/s/gpu",
            (
                "value: found '12 tokens/s/gpu', expected the speed of all GPUs together, "
                "not one GPU's share"
            ),
        ),
        ("step/second", "0s/it", "value: found '0s/it', expected a speed above zero"),
        ("1", "much", "value: found 'much', expected a number such as '0.83' or '83%'"),
        (
            "FLOP/second",
            "120",
            "value: found '120', expected a throughput such as '120 TFLOP/s'",
        ),
    ],
)
def test_a_text_of_another_meaning_is_refused(unit: str, text: str, message: str) -> None:
    with pytest.raises(UnitError) as raised:
        parse_figure(unit, text, where="value")
    assert str(raised.value) == message
