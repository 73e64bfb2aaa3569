"""What a chart draws: its marks, as Vega lays them out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("altair", reason="the extra [plot] is not installed")
vl_convert = pytest.importorskip("vl_convert", reason="the extra [plot] is not installed")

Mark = dict[str, Any]

RUN: Mark = {
    "observation_id": "a1", "source_id": "s", "model_id": "llama-2-7b", "gpu_id": "rtx-3090",
    "outcome": "ok", "evidence": "measured", "method_label": "LoRA", "n_gpus": 1, "seq_len": 512,
    "micro_batch_size": 4, "memory_kind": "device", "gpu_memory_bytes": 24 * 2**30,
    "peak_memory_bytes": 20 * 2**30, "peak_memory_bytes_low": 20 * 2**30,
    "peak_memory_bytes_high": 20 * 2**30, "peak_memory_bytes_per_gpu": 20 * 2**30,
    "tokens_per_second": 1000.0, "samples_per_second": 2.0, "seconds_per_step": 2.0,
}  # fmt: skip
OOM: Mark = {
    **RUN, "observation_id": "a2", "outcome": "oom", "seq_len": 2048, "memory_kind": None,
    "tokens_per_second": None, "samples_per_second": None, "seconds_per_step": None,
    **dict.fromkeys(name for name in RUN if name.startswith("peak_")),
}  # fmt: skip


def collect_marks(chart: Any, kind: str) -> list[Mark]:
    """Return the marks of a kind (symbol, line, rule, text, rect) that a chart draws."""
    return _collect(chart, "mark", kind)


def collect_labels(chart: Any, role: str = "axis-label") -> list[Mark]:
    """Return the labels that are seen on the axes of a chart, or in its legends."""
    return [label for label in _collect(chart, role, "text") if label.get("opacity", 1)]


def _collect(chart: Any, role: str, kind: str) -> list[Mark]:
    scene = vl_convert.vegalite_to_scenegraph(chart.to_dict())["scenegraph"]
    return [item for group in _groups(scene, role, kind) for item in group["items"]]


def _groups(node: Any, role: str, kind: str) -> Iterator[Mark]:
    if node.get("role") == role and node.get("marktype") == kind:
        yield node
    for item in node.get("items", ()):
        yield from _groups(item, role, kind)


def read_words(mark: Mark) -> dict[str, str]:
    """Return what a mark says to a screen reader: title to text."""
    return dict(part.split(": ", 1) for part in mark["description"].split("; "))
