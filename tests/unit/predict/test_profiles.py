"""A user's own profiles are read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import QuestionError
from registry.predict.profiles import (
    parse_flops_profile,
    parse_tensor_core_share,
    read_flops_profile,
    read_tensor_core_share,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILE = """
fwd flops per GPU:                                            6279.86 G
fwd FLOPS per GPU = fwd flops per GPU / fwd latency:          81.9 TFLOPS
fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency):  100.0 TFLOPS
FLOPS per GPU = 3 * fwd flops per GPU / iter latency:         750.5 GFLOPS
"""


def test_the_rate_over_the_whole_step_is_taken_first() -> None:
    profile = parse_flops_profile(PROFILE)
    assert (profile.flops_per_second, profile.over) == (750.5e9, "step")


def test_without_it_the_rate_over_both_passes() -> None:
    shorter = "\n".join(PROFILE.splitlines()[:-1])
    profile = parse_flops_profile(shorter)
    assert (profile.flops_per_second, profile.over) == (100e12, "forward and backward")


def test_a_text_without_rates_is_refused() -> None:
    with pytest.raises(QuestionError) as caught:
        parse_flops_profile("fwd flops per GPU: 6279.86 G")
    assert str(caught.value) == (
        "flops profile: found no line 'FLOPS per GPU'; expected the text that DeepSpeed's "
        "flops_profiler prints or writes to its output_file"
    )


@pytest.mark.parametrize("rate", ["1.2.3 TFLOPS", f"{'9' * 400} TFLOPS", "... FLOPS"])
def test_a_rate_that_is_no_number_is_none(rate: str) -> None:
    with pytest.raises(QuestionError, match="found no line 'FLOPS per GPU'"):
        parse_flops_profile(f"FLOPS per GPU: {rate}")


def test_a_profile_without_end_of_line_is_read_in_time() -> None:
    assert parse_flops_profile("FLOPS per GPU " * 200_000 + PROFILE).over == "step"


def test_the_tensor_cores_share_is_of_kernel_time() -> None:
    events = [
        {"cat": "kernel", "name": "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn", "dur": 30},
        {"cat": "kernel", "name": "vectorized_elementwise_kernel", "dur": 70},
        {"cat": "cpu_op", "name": "aten::mm_16816", "dur": 900},
    ]
    assert parse_tensor_core_share(json.dumps({"traceEvents": events})) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "trace: found no JSON"),
        ("{}", "trace: found no traceEvents"),
        ('{"traceEvents": []}', "trace: found no kernels"),
        ("[" * 100_000, "trace: found no JSON"),
        ('[{"cat": 5, "dur": 1}]', "trace: found no kernels"),
        ('[{"cat": "kernel", "dur": "x"}]', "trace: found dur = 'x' of a kernel"),
        ('[{"cat": "kernel", "dur": NaN}]', "trace: found dur = nan of a kernel"),
        ('[{"cat": "kernel", "dur": -1}]', "trace: found dur = -1 of a kernel"),
    ],
)
def test_what_is_no_trace_is_refused(text: str, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        parse_tensor_core_share(text)


def test_a_name_that_is_no_text_is_no_tensor_core() -> None:
    events = [{"cat": "kernel", "name": None, "dur": 1}]
    assert parse_tensor_core_share(json.dumps(events)) == 0


@pytest.mark.parametrize("read", [read_flops_profile, read_tensor_core_share])
def test_what_never_ends_and_what_is_no_text_are_refused(
    read: Callable[[Path], Any], tmp_path: Path
) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    (compressed := tmp_path / "trace.json.gz").write_bytes(b"\x1f\x8b\x08")
    for path, found in (
        (pipe, "found a pipe"),
        (Path("/dev/zero"), "found a device"),
        (compressed, "found byte 0x8b"),
    ):
        with pytest.raises(QuestionError, match=found):
            read(path)
