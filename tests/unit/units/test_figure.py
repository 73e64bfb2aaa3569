"""Figures as text, for any canonical unit of the contract."""

import pytest

from registry.contract import load_metrics
from registry.errors import UnitError
from registry.units import TIME_OF, format_figure, parse_figure, parse_quantity

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
                "value: found '12 tokens/s/gpu', expected the speed of all GPUs together; "
                "one GPU's share has the scope mean_gpu"
            ),
        ),
        ("step/second", "0s/it", "value: found '0s/it', expected a speed above zero"),
        ("1", "much", "value: found 'much', expected a number such as '0.83' or '83%'"),
        (
            "FLOP/second",
            "120 TFLOP/s each",
            "value: found '120 TFLOP/s each', expected a throughput such as '120 TFLOP/s'",
        ),
        ("1", "83% of it", "value: found '83% of it', expected a number such as '0.83' or '83%'"),
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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 FLOP/s", 5.0),
        ("5 kFLOPS", 5e3),
        ("5 MFLOPs/s", 5e6),
        ("5GFLOP/s", 5e9),
        ("5 TFLOPS", 5e12),
        ("**5 PFLOP/s**", 5e15),
    ],
)
def test_every_prefix_of_a_throughput_is_read(text: str, value: float) -> None:
    figure = parse_figure("FLOP/second", text, where="value")
    assert figure["value"] == value
    assert figure["unit_reported"] == figure["reading"] == text.strip("*5 ")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("0.83", {"value": 0.83, "raw": "0.83", "reading": "ratio"}),
        ("83 %", {"value": 0.83, "raw": "83 %", "unit_reported": "%", "reading": "%"}),
    ],
)
def test_a_ratio_is_a_number_or_a_percentage(text: str, columns: dict[str, object]) -> None:
    assert parse_figure("1", text, where="value") == columns


@pytest.mark.parametrize(
    ("text", "per", "seconds"), [("2.0s/it", "step", 2.0), ("0.5 s/sample", "sample", 0.5)]
)
def test_the_metrics_that_are_the_time_of_one_thing_say_of_what(
    text: str, per: str, seconds: float
) -> None:
    assert TIME_OF == {"step_time": "step", "sample_time": "sample"}
    assert parse_figure("second", text, where="value", per=per)["value"] == seconds


def test_a_time_of_one_thing_is_not_that_of_another() -> None:
    with pytest.raises(UnitError) as raised:
        parse_figure("second", "0.5 s/sample", where="value", per="step")
    assert str(raised.value) == (
        "value: found '0.5 s/sample', expected a speed in steps, not in samples"
    )


def test_a_bare_step_time_may_have_a_speed_as_its_default_unit() -> None:
    quantity = parse_quantity(
        "second", "0.5", where="value", per="step", default_unit="it/s", reason="the header"
    )
    assert (quantity.value, quantity.unit, quantity.low, quantity.high) == (2.0, "second", 2.0, 2.0)
    assert (quantity.reading, quantity.reason) == ("step/s", "the header")


def test_a_bare_step_time_may_have_a_duration_as_its_default_unit() -> None:
    quantity = parse_quantity(
        "second", "2", where="value", per="step", default_unit="min", reason="the header"
    )
    assert quantity.value == 120.0


def test_a_clock_reading_reaches_the_duration() -> None:
    quantity = parse_quantity("second", "18.37", where="value", read_as="mm.ss", reason="the text")
    assert (quantity.value, quantity.reason) == (18 * 60 + 37, "the text")


def test_a_reading_of_a_foreign_label_reaches_the_count() -> None:
    quantity = parse_quantity("parameter", "33.55MB", where="v", read_as="M", reason="the text")
    assert (quantity.value, quantity.reason) == (33_550_000, "the text")


def test_the_rate_of_one_gpu_is_read_where_it_is_expected() -> None:
    quantity = parse_quantity("token/second", "12 tokens/s/gpu", where="value", per_gpu=True)
    assert (quantity.value, quantity.unit) == (12.0, "1/second")


def test_the_capacity_of_the_cards_reaches_the_memory() -> None:
    with pytest.raises(UnitError) as raised:
        parse_quantity("byte", "2GiB", where="value", capacity_bytes=2**30)
    assert str(raised.value) == (
        "value: found '2GiB', read as GiB 2147483648 bytes, expected at most the 1073741824 bytes "
        "of the cards; correct the unit or the cards, or flag the figure as over capacity"
    )


def test_a_figure_over_capacity_is_read_where_it_is_flagged() -> None:
    quantity = parse_quantity(
        "byte", "2GiB", where="value", capacity_bytes=2**32, allow_over_capacity=True
    )
    assert quantity.value == 2**31


def test_a_reason_and_a_lower_bound_are_both_said() -> None:
    quantity = parse_quantity("byte", "144+", where="value", default_unit="GiB", reason="the text")
    assert format_figure(quantity)["reason"] == "the text; a lower bound"


def test_a_throughput_is_counted_in_flop_a_second() -> None:
    assert parse_quantity("FLOP/second", "5 GFLOP/s", where="value").unit == "flop/second"
