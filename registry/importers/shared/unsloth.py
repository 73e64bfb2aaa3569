"""The memory that scripts and notebooks after Unsloth's templates print when they have trained.

Their "GB" is 2^30; the peak holds the loading of the model as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from registry.importers.shared.readings import measure_peak
from registry.importers.shared.totals import half_width

if TYPE_CHECKING:
    from registry.importers.shared.draft import Draft

_NUMBER: Final = r"(?P<value>\d{1,15}(?:\.\d{1,15})?)"
_PEAK: Final = re.compile(rf"^Peak reserved memory = {_NUMBER} GB", re.MULTILINE)
_SHARE: Final = re.compile(rf"^Peak reserved memory % of max memory = {_NUMBER} %", re.MULTILINE)
_CAPACITY: Final = re.compile(rf"Max memory[ =:]+{_NUMBER} GB")


def measure_reserved(draft: Draft, text: str) -> None:
    """Add the peak that a text prints; flag one that is another share of the card than it says."""
    peak = _PEAK.search(text)
    if peak is None:
        return
    reason = "torch's max_memory_reserved / 2^30, of the first process; the loading included"
    said = {"raw": f"{peak['value']} GB", "kind": "reserved", "reason": reason}
    value, half = float(peak["value"]), half_width(peak["value"])
    measure_peak(draft, value, half, **said, scope="per_gpu", device_index=0)
    if contradiction := find_contradiction(text):
        draft.flags.add("figures_disagree")
        again = "if another session's, its time is too: run the last cell again and save"
        draft.missing.append(f"{contradiction}; {again}")


def find_contradiction(text: str) -> str | None:
    """Return how the peak is not the share of the card that it prints, or None.

    Whoever opens a template and trains, but does not run its last cell again, saves the figures of
    the template below a training of their own.
    """
    peak, share = _PEAK.search(text), _SHARE.search(text)
    cards = dict.fromkeys(found["value"] for found in _CAPACITY.finditer(text))
    if peak is None or share is None or not cards:
        return None
    if any(_agree(peak["value"], share["value"], card) for card in cards):
        return None
    said = f"the {share['value']} % of {next(iter(cards))} GB that it prints"
    return f"its peak, {peak['value']} GB, is not {said}"


def _agree(peak: str, share: str, card: str) -> bool:
    """Return whether a peak is a share of a card, within the last decimals of the three.

    >>> _agree("6.531", "44.284", "14.748"), _agree("6.531", "44.284", "14.741")
    (True, False)
    """
    expected = 100 * float(peak) / float(card) if float(card) else 0.0
    parts = half_width(peak) / (float(peak) or 1.0) + half_width(card) / (float(card) or 1.0)
    return abs(expected - float(share)) <= expected * parts + half_width(share)
