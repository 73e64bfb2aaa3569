"""Findings are open until a decision names as many of them as there are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from registry.errors import SourceError
from registry.sources.review import Decision, Finding, Review, format_finding, read_decisions
from registry.sources.review_page import format_review, list_open

if TYPE_CHECKING:
    from pathlib import Path

FINDING = Finding(
    "src", "less memory at a larger batch", "peak_memory", 2, 2, ("ab" * 16,), (0.5, 0.9)
)


def settle(n: int, metric: str = "peak_memory") -> Review:
    decision = Decision(kind=FINDING.kind, metric=metric, n=n, settled="kept", because="so it says")
    return Review((FINDING,), {"src": (decision,)})


def test_a_finding_that_nobody_decided_is_open_and_comes_first() -> None:
    page = format_review(Review((FINDING,), {}))
    opened, settled = page.index("## Open"), page.index("## Settled")
    assert opened < page.index(f"- `src`: {format_finding(FINDING)}") < settled


def test_a_decision_about_as_many_settles_them_with_its_reason() -> None:
    review = settle(2)
    assert list(list_open(review)) == []
    assert "## Open\n\nNothing.\n" in format_review(review)
    assert f"- {format_finding(FINDING)}. Kept: so it says." in format_review(review)


@pytest.mark.parametrize("n", [1, 3])
def test_a_decision_about_fewer_or_more_settles_nothing_and_is_named_itself(n: int) -> None:
    number = f"review.yaml settles {n}, which is not the number found"
    assert [line for _, line in list_open(settle(n))] == [
        format_finding(FINDING),
        f"less memory at a larger batch (peak_memory): {number}",
    ]


def test_a_decision_about_another_metric_settles_nothing() -> None:
    assert settle(2, "memory").open_findings() == [FINDING]


def test_what_was_mended_is_told_and_need_not_be_found() -> None:
    decision = Decision(kind="peak", settled="mended", because="GB was GiB")
    review = Review((), {"src": (decision,)})
    assert list(list_open(review)) == []
    assert "- peak. Mended: GB was GiB." in format_review(review)


def test_a_finding_says_how_many_how_far_and_where() -> None:
    assert format_finding(FINDING) == (
        "less memory at a larger batch (peak_memory): 2 observations, 0.5 to 0.9 times the figure "
        "it is compared with; first abababababab"
    )


def test_a_finding_of_several_pairs_says_of_how_many_observations() -> None:
    found = format_finding(replace(FINDING, n_observations=1))
    assert "(peak_memory): 1 observation, in 2 pairs, 0.5 to 0.9 times" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- {kind: a, settled: kept, because: b}", "[0]: value error, n counts what is kept"),
        ("- {kind: a, n: 2, settled: mended, because: b}", "[0]: value error, n counts what is"),
        ("- {kind: a, n: 1, settled: maybe, because: b}", "[0].settled: input should be 'kept'"),
        ("- {kind: a, n: 1, settled: kept}", "[0].because: field required"),
        ("- {kind: a, n: 1, settled: kept, because: b, who: c}", "[0].who: extra inputs"),
        ("kind: a", ": input should be a valid list"),
    ],
)
def test_a_decision_that_cannot_be_read_is_named_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "sources" / "src" / "review.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SourceError) as caught:
        read_decisions(tmp_path)
    assert f"{path}{said}" in str(caught.value)
