"""The rows that pictures are drawn from."""

from __future__ import annotations

import pytest

from registry.charts.rows import order_releases


@pytest.mark.parametrize(
    ("releases", "called"),
    [
        (["peft 0.9, torch 2.1", "peft 0.10, torch 2.1"], ["peft 0.9", "peft 0.10"]),
        (["peft 0.9, torch 2.1", "peft 0.9, torch 2.2"], ["torch 2.1", "torch 2.2"]),
        (["peft 0.9, torch 2.1", "peft 0.9, torch 2.1"], ["peft 0.9, torch 2.1"] * 2),
        (["peft 0.9"], ["peft 0.9"]),
        ([None], []),
    ],
)
def test_a_release_is_called_by_what_tells_it_from_the_others(
    releases: list[str | None], called: list[str]
) -> None:
    rows = [{"release": name, "observed_at": None} for name in releases]
    ordered = order_releases(rows)
    assert [row["release"] for row in ordered] == called
    assert [row["release_order"] for row in ordered] == [
        list(dict.fromkeys(called)).index(name) for name in called
    ]
