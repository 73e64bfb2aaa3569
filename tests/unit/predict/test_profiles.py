"""A user's own profiles are read."""

from __future__ import annotations

import json

import pytest

from registry.errors import QuestionError
from registry.predict.profiles import parse_flops_profile, parse_tensor_core_share

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
    ],
)
def test_what_is_no_trace_is_refused(text: str, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        parse_tensor_core_share(text)
