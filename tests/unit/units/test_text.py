from __future__ import annotations

import pytest

from registry.units import format_duration, format_memory


@pytest.mark.parametrize(
    ("memory_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (2**20, "1 MiB"),
        (2**30 - 1, "1024 MiB"),
        (2**30, "1 GiB"),
        (3 * 2**29, "1.5 GiB"),
        (2**40, "1 TiB"),
        (100 * 2**40, "100 TiB"),
        (12345 * 2**40 + 2**38, "12345 TiB"),
        (-(2**30), "-1 GiB"),
        (36_600_000_000, "34.09 GiB"),
    ],
)
def test_memory_is_shown_in_the_largest_binary_unit(memory_bytes: int, text: str) -> None:
    assert format_memory(memory_bytes) == text


@pytest.mark.parametrize(
    ("memory_bytes", "text"),
    [
        (999, "999 B"),
        (1000, "1 KB"),
        (1_000_000, "1 MB"),
        (1_500_000_000, "1.5 GB"),
        (2_000_000_000_000, "2 TB"),
    ],
)
def test_memory_is_shown_in_decimal_units_where_asked(memory_bytes: int, text: str) -> None:
    assert format_memory(memory_bytes, system="decimal") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0001234567, "0.1235 ms"),
        (0.4215, "421.5 ms"),
        (0.999, "999 ms"),
        (1, "1 s"),
        (1.5, "1.5 s"),
        (12.3456, "12.35 s"),
        (59.99, "59.99 s"),
        (59.995, "1 min"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3569.4, "59 min 29 s"),
        (3569.6, "59 min 30 s"),
        (3570, "59 min 30 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h"),
        (3600, "1 h"),
        (20100, "5 h 35 min"),
        (84601, "23 h 30 min"),
        (86369, "23 h 59 min"),
        (86371, "1 day"),
        (86400, "1 day"),
        (90000, "1 day 1 h"),
        (172800, "2 days"),
        (183600, "2 days 3 h"),
        (7200, "2 h"),
        (120, "2 min"),
    ],
)
def test_durations_are_shown_in_their_two_leading_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
