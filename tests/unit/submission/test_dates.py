"""Dates that a calendar has, and that have passed; of what is recorded already none is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from registry.catalogue import Catalogue
from registry.errors import SubmissionError
from registry.submission.prepare import prepare_submission

NOW = datetime.now(UTC)
CATALOGUE = Catalogue(models={"tiny": {"model_id": "tiny"}})
CLOCK = "by this machine's clock it is "


def _problems(
    published_on: str, observed_at: str | None = None, *, is_new: bool = True
) -> list[str]:
    run = {"outcome": "oom", "configuration": {"model_id": "tiny", "method": "lora"}}
    document = {
        "source": {"source_id": "s", "published_on": published_on},
        "observations": [run if observed_at is None else {**run, "observed_at": observed_at}],
    }
    try:
        prepare_submission(document, CATALOGUE, origin="doc", is_new=is_new)
    except SubmissionError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize("published_on", ["2024", "2024-05", "2024-02-29", f"{NOW:%Y-%m-%d}"])
def test_a_day_may_be_as_exact_as_it_is_known(published_on: str) -> None:
    assert _problems(published_on) == []


@pytest.mark.parametrize("published_on", ["2024-13", "2024-00", "2023-02-29", "0000"])
def test_a_day_that_no_calendar_has_is_refused(published_on: str) -> None:
    (problem,) = _problems(published_on)
    assert problem == (
        f"source.published_on: found {published_on!r}; expected a date of the calendar, such as "
        "2024-05-31, 2024-05 or 2024; correct it"
    )
    assert _problems(published_on, is_new=False) == []


def test_what_is_still_to_come_is_refused_and_the_clock_named() -> None:
    soon = (NOW + timedelta(hours=23)).isoformat()
    late = NOW + timedelta(hours=25)
    assert _problems("2024", soon) == []
    published, observed = _problems(f"{NOW + timedelta(days=3):%Y-%m-%d}", late.isoformat())
    assert published.startswith("source.published_on: found ")
    assert f"expected a date that has passed: {CLOCK}" in published
    found = late.isoformat().replace("+00:00", "Z")
    assert observed.startswith(f"observations[0].observed_at: found {found}; expected a time that")
    assert CLOCK in observed
    assert _problems("2024", late.isoformat(), is_new=False) == []
