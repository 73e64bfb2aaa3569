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
#: How far the peak may lie from its share of the card, which is rounded.
_SLACK: Final = 0.01


def measure_reserved(draft: Draft, text: str) -> None:
    """Add the peak that a text prints; flag one that is another share of the card than it says."""
    peak, share, card = _PEAK.search(text), _SHARE.search(text), _CAPACITY.search(text)
    if peak is None:
        return
    value = float(peak["value"])
    reason = "torch's max_memory_reserved / 2^30, of the first process; the loading included"
    said = {"raw": f"{peak['value']} GB", "kind": "reserved", "reason": reason}
    measure_peak(draft, value, half_width(peak["value"]), **said, scope="per_gpu", device_index=0)
    if share is None or card is None:
        return
    expected = float(share["value"]) / 100 * float(card["value"])
    if abs(expected - value) > _SLACK * expected:
        draft.flags.add("figures_disagree")
        draft.missing.append("its peak is not the share of the card that it prints: another run's?")
