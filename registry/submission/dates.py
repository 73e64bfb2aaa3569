"""Dates of new documents: days that there are, and none that are still to come."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from registry.errors import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Clocks differ, and a day that is given without a time may have begun elsewhere.
_SLACK = timedelta(days=1)


def check_dates(plain: dict[str, Any]) -> Iterator[str]:
    """Yield a date of publication that no calendar has, and what is said to happen later than now.

    The columns' own rules hold at any time; these hold while a document is added.
    """
    now = datetime.now(UTC)
    latest = now + _SLACK
    clock = f"by this machine's clock it is {now:%Y-%m-%d}; correct the date, or the clock"
    published = plain.get("source", {}).get("published_on")
    if published is not None:
        place = f"source.published_on: found {excerpt(published)}; expected"
        try:
            day = date.fromisoformat(f"{published}-01-01"[:10])
        except ValueError:
            yield f"{place} a date of the calendar, such as 2024-05-31, 2024-05 or 2024; correct it"
        else:
            if day > latest.date():
                yield f"{place} a date that has passed: {clock}"
    for index, observation in enumerate(plain.get("observations", ())):
        observed = observation.get("observed_at")
        if observed is not None and datetime.fromisoformat(observed) > latest:
            yield (
                f"observations[{index}].observed_at: found {observed}; expected a time that has "
                f"passed: {clock}"
            )
