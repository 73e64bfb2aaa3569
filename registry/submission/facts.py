"""Facts of one observation that the contract's rules are about (``facts`` in ``rules.yaml``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RATES = ("samples_per_second", "tokens_per_second", "steps_per_second")
MEMORY_METRICS = ("peak_memory", "memory")

#: Share of a card's memory above which a peak may be where the card ended: drivers keep the rest.
AT_CAPACITY = 0.97

#: Kinds of memory that live on the card.
DEVICE_KINDS = ("allocated", "reserved", "active", "device", "unknown")

Figure = dict[str, Any]


def collect_facts(
    configuration: Mapping[str, Any],
    observation: Mapping[str, Any],
    measurements: Sequence[Figure],
    gpu_memory_bytes: int | None,
) -> dict[str, Any]:
    """Return the facts of one observation; what is not stated is None."""
    metrics = {figure["metric"] for figure in measurements}
    n_gpus = configuration.get("n_gpus")
    return _Stated(
        {
            **configuration,
            **observation,
            "n_measurements": len(measurements),
            "has_step_time": "step_time" in metrics,
            "has_rate": bool(metrics.intersection(RATES)),
            "peak_memory_bytes_per_gpu": peak_memory_per_gpu(measurements, n_gpus),
            "gpu_memory_bytes": gpu_memory_bytes,
            "peak_over_capacity_flagged": "peak_over_capacity" in observation.get("flags", ()),
            **_bounds(measurements),
            **_kinds(measurements),
            **_devices(measurements),
        }
    )


class _Stated(dict[str, Any]):
    """A mapping in which what is not stated is None."""

    def __missing__(self, key: str) -> None:
        return None


def peak_memory_per_gpu(measurements: Sequence[Figure], n_gpus: int | None) -> float | None:
    """Return the peak memory in bytes of the fullest card, the mean where only the total is known.

    None where no figure says it.
    """
    peaks = [
        (figure["scope"], figure["value"])
        for figure in measurements
        if figure["metric"] == "peak_memory" and figure.get("kind") in DEVICE_KINDS
    ]
    fullest = [value for scope, value in peaks if scope in ("per_gpu", "max_gpu")]
    if fullest:
        return float(max(fullest))
    totals = [value for scope, value in peaks if scope == "total"]
    if not totals or n_gpus is None:
        return None
    return float(max(totals)) / n_gpus


def filled_the_card(
    measurements: Sequence[Figure], n_gpus: int | None, gpu_memory_bytes: int | None
) -> bool:
    """Return whether a peak is at the memory of the card, and no speed shows that training went on.

    A mean over the cards counts too: it is no more than the fullest one.
    """
    has_speed = any(f["metric"].endswith(("_time", "_per_second")) for f in measurements)
    if has_speed or gpu_memory_bytes is None:
        return False
    peaks = [f for f in measurements if f["metric"] == "peak_memory"]
    on_card = [f for f in peaks if f.get("kind") in DEVICE_KINDS]
    shares = [
        f["value"] / (n_gpus or math.inf if f.get("scope", "total") == "total" else 1)
        for f in on_card
    ]
    return max(shares, default=0.0) >= AT_CAPACITY * gpu_memory_bytes


def _bounds(measurements: Sequence[Figure]) -> dict[str, bool]:
    return {
        "low_above_value": any(f.get("low", f["value"]) > f["value"] for f in measurements),
        "value_above_high": any(f.get("high", f["value"]) < f["value"] for f in measurements),
    }


def _kinds(measurements: Sequence[Figure]) -> dict[str, int]:
    memory = [figure for figure in measurements if figure["metric"] in MEMORY_METRICS]
    with_kind = sum(figure.get("kind") is not None for figure in measurements)
    memory_with_kind = sum(figure.get("kind") is not None for figure in memory)
    return {
        "n_memory_without_kind": len(memory) - memory_with_kind,
        "n_kind_without_memory": with_kind - memory_with_kind,
    }


def _devices(measurements: Sequence[Figure]) -> dict[str, int | None]:
    per_gpu = [figure for figure in measurements if figure["scope"] == "per_gpu"]
    indices = [f["device_index"] for f in measurements if f.get("device_index") is not None]
    return {
        "n_per_gpu_without_index": sum(figure.get("device_index") is None for figure in per_gpu),
        "max_device_index": max(indices, default=None),
    }


def format_fact(value: Any) -> str:
    """Return a fact as a message shows it: whole figures without a point, truth in lower case."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
