"""Utilization from a user's own profile: DeepSpeed's flops profiler, PyTorch's profiler."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError, excerpt
from registry.reading import ReadingError, read_text

if TYPE_CHECKING:
    from pathlib import Path

_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
#: Lines of DeepSpeed's profile by the time they are divided by, the entire step first.
_RATES = (("iter latency", "step"), ("fwd+bwd latency", "forward and backward"))
_RATE = re.compile(
    r"FLOPS per GPU[^:\n]*:\s*([0-9]{1,18}(?:\.[0-9]*)?)\s*([KMGTP]?)(?:FLOPS|FLOP/s)",
    re.IGNORECASE,
)
#: Longest line of DeepSpeed's profile that is looked at: it prints shorter ones.
_LONGEST_LINE = 2000

#: Largest profile and trace that are read, in bytes, and longest kernel in microseconds.
_LARGEST_PROFILE = 64 * 2**20
_LARGEST_TRACE = 2**30
_LONGEST_KERNEL = 10**15


def read_flops_profile(path: Path) -> FlopsProfile:
    """Return what DeepSpeed's flops profiler wrote to a file; raise QuestionError."""
    return parse_flops_profile(_read(path, _LARGEST_PROFILE, "a flops profile"))


def read_tensor_core_share(path: Path) -> float:
    """Return the share of kernel time on tensor cores in a trace's file; raise QuestionError."""
    return parse_tensor_core_share(_read(path, _LARGEST_TRACE, "a trace"))


def _read(path: Path, limit: int, what: str) -> str:
    try:
        return read_text(path, limit=limit, what=what)
    except ReadingError as error:
        raise QuestionError(str(error)) from None


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
    short = (line for line in text.splitlines() if len(line) <= _LONGEST_LINE)
    lines = [(line, _RATE.search(line)) for line in short]
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
    kernels = [event for event in _events(text) if str(event.get("cat")).lower() == "kernel"]
    total = sum(map(_duration, kernels))
    if total <= 0:
        raise QuestionError(
            "trace: found no kernels; expected the JSON that torch.profiler exports from a run "
            "with ProfilerActivity.CUDA"
        )
    used = (_duration(event) for event in kernels if _TENSOR_CORE.search(str(event.get("name"))))
    return sum(used) / total


def _duration(event: dict[str, Any]) -> float:
    duration = event.get("dur", 0)
    if type(duration) not in (int, float) or not 0 <= duration <= _LONGEST_KERNEL:
        raise QuestionError(
            f"trace: found dur = {excerpt(duration)} of a kernel; expected microseconds, as "
            "torch.profiler exports them"
        )
    return float(duration)


def _events(text: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QuestionError(
            f"trace: found no JSON ({error}); expected what torch.profiler exports"
        ) from error
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise QuestionError(
            "trace: found no traceEvents; expected the JSON that torch.profiler exports"
        )
    return [event for event in events if isinstance(event, dict)]
