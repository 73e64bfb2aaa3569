"""What the ``EfficiencyCallback`` of Liger-Kernel's examples adds to the entries of a Trainer.

"MB" is 2^20, of the first process. Times are of the steps alone, without the first ones, which
compile; tokens are those of all processes, padding included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.readings import largest, measure_peak_in_mebibytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.shared.draft import Draft

#: The key that tells an entry of the callback.
TIMED: Final = "avg_step_time_sec"

_PEAKS: Final = {f"total_peak_memory_{kind}_MB": kind for kind in ("allocated", "reserved")}
_TIMES: Final = "of the steps alone, without the first ones"
_TOKENS: Final = f"tokens of all processes, padding too, in the time {_TIMES}"


def measure_efficiency(draft: Draft, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add the time of a step, the tokens per second and the peaks of the last entry."""
    last = next((entry for entry in reversed(entries) if TIMED in entry), None)
    if last is None:
        return
    draft.measure("step_time", last[TIMED], **_mean(last[TIMED], _TIMES))
    rate = last.get("avg_tokens_per_second")
    draft.measure("tokens_per_second", rate, **_mean(rate, _TOKENS))
    for key, kind in _PEAKS.items():
        _measure_peak(draft, largest(entries, key), kind)


def _mean(written: Any, reason: str) -> dict[str, Any]:
    return {"statistic": "mean", "raw": str(written), "reason": reason}


def _measure_peak(draft: Draft, peak: float | None, kind: str) -> None:
    if peak is None:
        return
    measure_peak_in_mebibytes(
        draft,
        peak,
        kind=kind,
        raw=str(peak),
        unit_reported="MB",
        reading="MiB",
        reason="Liger-Kernel divides by 2^20; largest step but the first ones, first process",
    )
