"""Utilization from a user's own profile: DeepSpeed's flops profiler, PyTorch's profiler."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from registry.errors import QuestionError

_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
#: Lines of DeepSpeed's profile by the time they are divided by, the entire step first.
_RATES = (("iter latency", "step"), ("fwd+bwd latency", "forward and backward"))
_RATE = re.compile(r"FLOPS per GPU[^:\n]*:\s*([0-9.]+)\s*([KMGTP]?)(?:FLOPS|FLOP/s)", re.IGNORECASE)


@dataclass(frozen=True)
class FlopsProfile:
    """Measured FLOP/s of one device, and over what they were measured."""

    flops_per_second: float
    over: str


def parse_flops_profile(text: str) -> FlopsProfile:
    """Return what DeepSpeed's flops profiler measured: over the step, else as much as it has.

    Raises QuestionError where the text has no ``FLOPS per GPU``.

    >>> parse_flops_profile("fwd FLOPS per GPU = fwd flops per GPU / fwd latency:  81.9 TFLOPS")
    FlopsProfile(flops_per_second=81900000000000.0, over='forward')
    """
    lines = [(line, _RATE.search(line)) for line in text.splitlines()]
    found = [(line, match) for line, match in lines if match]
    for words, over in (*_RATES, ("", "forward")):
        for line, match in found:
            if words in line:
                value = float(match[1]) * _SCALES[match[2].upper()]
                return FlopsProfile(value, over)
    raise QuestionError(
        "flops profile: found no line 'FLOPS per GPU'; expected the text that DeepSpeed's "
        "flops_profiler prints or writes to its output_file"
    )


#: Parts of the names of kernels that run on tensor cores: shapes of their instructions (m16n8k16
#: and the like), and the libraries that are built on them.
_TENSOR_CORE = re.compile(
    r"884|1688|16816|16832|hmma|imma|i8816|xmma|gmma|tensorop|flash_fwd|flash_bwd|fmha",
    re.IGNORECASE,
)


def parse_tensor_core_share(text: str) -> float:
    """Return the share of kernel time on tensor cores in a trace of PyTorch's profiler.

    ``text`` is the JSON of ``export_chrome_trace``. Raises QuestionError where it has no kernels.
    """
    kernels = [event for event in _events(text) if event.get("cat", "").lower() == "kernel"]
    total = sum(float(event.get("dur", 0)) for event in kernels)
    if total <= 0:
        raise QuestionError(
            "trace: found no kernels; expected the JSON that torch.profiler exports from a run "
            "with ProfilerActivity.CUDA"
        )
    used = (float(e.get("dur", 0)) for e in kernels if _TENSOR_CORE.search(e.get("name", "")))
    return sum(used) / total


def _events(text: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise QuestionError(
            f"trace: found no JSON ({error}); expected what torch.profiler exports"
        ) from error
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise QuestionError(
            "trace: found no traceEvents; expected the JSON that torch.profiler exports"
        )
    return [event for event in events if isinstance(event, dict)]
