from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import UnitError
from registry.units import format_duration, parse_duration
from registry.units.duration import clock_readings

PLACE = "table 1, row 4, column '训练时长'"


@pytest.mark.parametrize(
    ("text", "seconds", "reading"),
    [
        ("7.01min", 420.6, "min"),
        ("1.62 min", 97.2, "min"),
        ("5h35min", 20100.0, "h min"),
        ("115.5s", 115.5, "s"),
        ("0.4215s", 0.4215, "s"),
        ("3:35:20", 12920.0, "h:mm:ss"),
        ("07:01", 421.0, "mm:ss"),
        ("4 days, 7:19:52", 371992.0, "h:mm:ss"),
        ("1 day, 0:00:01", 86401.0, "h:mm:ss"),
        ("2小时5分钟", 7500.0, "h min"),
        ("2 ч 5 мин", 7500.0, "h min"),
        ("2時間5分", 7500.0, "h min"),
        ("2시간 5분", 7500.0, "h min"),
        ("2 Std. 5 Min.", 7500.0, "h min"),
        ("12.5 Sek.", 12.5, "s"),
        ("2 heures 5 minutes", 7500.0, "h min"),
        ("3 Tage", 259200.0, "day"),
        ("23h 15m", 83700.0, "h min"),
        ("1h05", 3900.0, "h:mm"),
        ("15h10", 54600.0, "h:mm"),
        ("3 hrs", 10800.0, "h"),
        ("1.5 hr", 5400.0, "h"),
        ("2 days", 172800.0, "day"),
        ("91974.29 Sec", 91974.29, "s"),
        ("250ms", 0.25, "ms"),
        ("38 minutes 5 seconds", 2285.0, "min s"),
        ("1 hour and 2 minutes", 3720.0, "h min"),
        ("**115.5s**", 115.5, "s"),
    ],
)
def test_durations_are_read_in_seconds(text: str, seconds: float, reading: str) -> None:
    quantity = parse_duration(text, where=PLACE)
    assert (quantity.value, quantity.reading, quantity.unit) == (seconds, reading, "second")
    assert quantity.raw == text
    assert quantity.low == quantity.value == quantity.high


def test_a_dot_is_a_colon_only_when_the_mapping_says_so() -> None:
    quantity = parse_duration("18.37", where=PLACE, read_as="mm.ss", reason="neighbours are mm:ss")
    assert (quantity.value, quantity.reason) == (18 * 60 + 37, "neighbours are mm:ss")
    with pytest.raises(UnitError, match="a number alone needs a default unit"):
        parse_duration("18.37", where=PLACE)


def test_a_mapping_touches_no_text_that_speaks_for_itself() -> None:
    quantity = parse_duration("10:36", where=PLACE, read_as="mm.ss", reason="neighbours are mm:ss")
    assert (quantity.value, quantity.reason) == (636, None)


def test_hours_and_minutes_can_be_stated() -> None:
    assert parse_duration("07:01", where=PLACE, read_as="h:mm", reason="header").value == 25260


@pytest.mark.parametrize(
    ("text", "unit", "seconds"),
    [
        ("2:30", "h", 9000),
        ("120:30", "hours", 433800),
        ("2:30:15", "h", 9015),
        ("1 day, 2:30:00", "day", 95400),
        ("2:30", "min", 150),
        ("2:30", "s", 150),
    ],
)
def test_a_clock_is_read_in_the_unit_of_its_column(text: str, unit: str, seconds: int) -> None:
    found = parse_duration(text, where=PLACE, default_unit=unit, reason="header")
    assert found.value == seconds


@pytest.mark.parametrize(
    ("text", "unit", "readings"),
    [
        ("1:12", "day", "`read_as: mm:ss` or `read_as: h:mm` or `read_as: d:hh`"),
        ("1:12:30", "day", "`read_as: h:mm:ss` or `read_as: d:hh:mm`"),
        ("2:30.5", "h", "`read_as: mm:ss`"),
        ("2:30", "ms", "`read_as: mm:ss` or `read_as: h:mm` or `read_as: d:hh`"),
    ],
)
def test_a_clock_that_its_unit_leaves_open_is_refused(text: str, unit: str, readings: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text, where=PLACE, default_unit=unit, reason="header")
    assert str(caught.value) == (
        f"{PLACE}: found {text!r}, expected to be told what the fields of a clock are where the "
        f"unit is {unit}; state {readings}, and the `reason`"
    )


@pytest.mark.parametrize(
    ("text", "read_as", "seconds"),
    [
        ("1:12", "d:hh", 129_600),
        ("1:12:30", "d:hh:mm", 131_400),
        ("1:12:30:05", "d:hh:mm:ss", 131_405),
        ("1:12:30", "h:mm:ss", 4_350),
        ("2:30.5", "mm:ss", 150.5),
    ],
)
def test_the_fields_of_a_clock_can_be_stated(text: str, read_as: str, seconds: float) -> None:
    found = parse_duration(text, where=PLACE, default_unit="day", read_as=read_as, reason="header")
    assert (found.value, found.reading) == (seconds, read_as)


def test_a_field_of_a_day_of_24_hours_is_refused() -> None:
    with pytest.raises(UnitError, match="read as d:hh, with hh below 24"):
        parse_duration("1:24", where=PLACE, read_as="d:hh", reason="header")


def test_a_bare_number_takes_the_stated_unit() -> None:
    quantity = parse_duration("11.73", where=PLACE, default_unit="min", reason="other tables: min")
    assert (quantity.value, quantity.unit_as_written) == (703.8, None)
    assert quantity.reason == "other tables: min"


@pytest.mark.parametrize(
    "text",
    [
        "1.98x",
        "",
        "s",
        "-5s",
        "nan",
        "inf",
        "07:61",
        "61:00",
        "1:60:00",
        "1:2:3",
        "5",
        "5 lightyears",
        "1.5h 3min",
        "5min 3h",
        "3h 3h",
        "1 day, 24:00:00",
        "1 day, 05:10",
        "5 min,",
        "1e400s",
        "OOM",
    ],
)
def test_what_is_no_duration_is_refused_by_place(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text, where=PLACE)
    assert str(caught.value).startswith(f"{PLACE}: found ")


def test_an_unclear_duration_says_what_is_expected() -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration("s", where=PLACE)
    assert str(caught.value) == (
        f"{PLACE}: found 's', expected a duration such as '7.01min', '5h35min', '3:35:20' or "
        "'07:01'"
    )


def test_minutes_behind_an_h_are_below_sixty() -> None:
    with pytest.raises(UnitError, match="minutes below 60"):
        parse_duration("1h60", where=PLACE)


@pytest.mark.parametrize("text", ["1h5", "1h005", "1.5h05", "h05"])
def test_an_h_between_other_numbers_is_no_clock(text: str) -> None:
    with pytest.raises(UnitError, match="expected"):
        parse_duration(text, where=PLACE)


@pytest.mark.parametrize(
    "options",
    [
        {"read_as": "mm.ss"},
        {"default_unit": "min"},
        {"read_as": "ss.mm", "reason": "none such"},
        {"default_unit": "fortnight", "reason": "none such"},
    ],
)
def test_a_bad_mapping_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(UnitError):
        parse_duration("18.37", where=PLACE, **options)


def test_a_field_of_sixty_seconds_is_refused_under_a_stated_reading() -> None:
    with pytest.raises(UnitError, match="below 60"):
        parse_duration("18.60", where=PLACE, read_as="mm.ss", reason="neighbours are mm:ss")


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 59))
def test_clock_and_words_agree(hours: int, minutes: int, seconds: int) -> None:
    clock = parse_duration(f"{hours % 10**5}:{minutes:02}:{seconds:02}", where=PLACE)
    words = parse_duration(f"{hours % 10**5}h{minutes}min{seconds}s", where=PLACE)
    assert clock == words


@given(st.decimals(min_value=0, max_value=10**6, places=3))
def test_seconds_are_the_nearest_float(number: object) -> None:
    quantity = parse_duration(f"{number}min", where=PLACE)
    assert quantity.value == float(Fraction(str(number)) * 60)


@given(st.floats(1e-6, 1e8))
def test_what_is_formatted_for_people_parses_to_nearly_the_same(seconds: float) -> None:
    text = format_duration(seconds)
    assert parse_duration(text, where=PLACE).value == pytest.approx(seconds, rel=0.025)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.999, "1 min"),
        (61, "1 min 1 s"),
        (3599.9, "1 h"),
        (371992, "4 days 7 h"),
        (1.25, "1.25 s"),
        (86399, "1 day"),
    ],
)
def test_durations_are_said_in_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_an_unknown_clock_reading_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration("18.37", where="row 1", read_as="mm,ss", reason="the text")
    assert str(caught.value) == (
        "row 1: found unit 'mm,ss', expected a unit of clock reading (mm.ss, mm:ss, h:mm, h:mm:ss, "
        "d:hh, d:hh:mm, d:hh:mm:ss); did you mean 'mm:ss'?"
    )


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_a_reading_without_a_reason_is_refused(reason: str | None) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration("18.37", where="row 1", read_as="mm.ss", reason=reason)
    assert str(caught.value) == (
        "row 1: found the reading 'mm.ss' without a reason, expected one; say where the source "
        "shows it"
    )


@pytest.mark.parametrize(
    ("text", "label", "reading"),
    [
        ("4 days, 7:19:52", "days", "h:mm:ss"),
        ("7:19:52", None, "h:mm:ss"),
        ("19:52", None, "mm:ss"),
        ("5h35min", "h min", "h min"),
    ],
)
def test_a_duration_keeps_the_labels_that_were_written(
    text: str, label: str | None, reading: str
) -> None:
    duration = parse_duration(text, where="row 1")
    assert (duration.unit_as_written, duration.reading, duration.reason) == (label, reading, None)


def test_an_unknown_label_is_named_with_the_known_units() -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration("3x", where="row 1")
    assert str(caught.value) == (
        "row 1: found unit 'x', expected a unit of duration (day, h, min, s, ms, us)"
    )


def test_a_single_capital_is_no_minute() -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration("3M", where="row 1")
    assert str(caught.value).startswith("row 1: found unit 'M', expected a unit of duration")


@pytest.mark.parametrize("text", ["1:60", "1:60:00", "1:00:60"])
def test_a_clock_of_sixty_is_refused(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text, where=PLACE)
    assert str(caught.value) == (
        f"{PLACE}: found {text!r}, expected a clock time with minutes and seconds below 60"
    )


@pytest.mark.parametrize(
    ("text", "read_as", "field", "limit"),
    [("1:60", "mm:ss", "ss", 60), ("1:60", "h:mm", "mm", 60), ("1:24", "d:hh", "hh", 24)],
)
def test_a_field_that_is_full_is_refused_by_name(
    text: str, read_as: str, field: str, limit: int
) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text, where=PLACE, read_as=read_as, reason="the header says so")
    assert str(caught.value).endswith(
        f"expected a clock time read as {read_as}, with {field} below {limit}"
    )


def test_two_fields_in_a_column_of_hours_are_hours_and_minutes() -> None:
    quantity = parse_duration("1:30", where=PLACE, default_unit="h", reason="header")
    assert (quantity.value, quantity.reading, quantity.reason) == (5400, "h:mm", "header")


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("1:12", ["mm:ss", "h:mm", "d:hh"]),
        ("1:12:13", ["h:mm:ss", "d:hh:mm"]),
        ("1:2:3:04", ["d:hh:mm:ss"]),
        ("7.01", []),
        ("7 min", []),
    ],
)
def test_readings_of_a_clock_are_those_with_its_colons(text: str, readings: list[str]) -> None:
    assert clock_readings(text) == readings
