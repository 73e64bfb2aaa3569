"""What an exception says of a job."""

from __future__ import annotations

import errno

import pytest

from registry.measure.failure import (
    classify_failure,
    find_phase,
    format_head,
    is_out_of_memory,
    shorten,
)

CPU_TEXT = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 629145600 bytes. Error code 12 (Cannot allocate memory)"
)


class OutOfMemoryError(RuntimeError):
    """Named as torch's."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError(CPU_TEXT),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_allocators_say_out_of_memory_in_many_ways(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the plan is out of memory of anyone"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        OSError(errno.ENOENT, "out of memory"),
    ],
)
def test_other_errors_are_no_oom(error: Exception) -> None:
    assert not is_out_of_memory(error)


def test_the_cause_of_an_error_counts() -> None:
    error = RuntimeError("worker failed")
    error.__cause__ = MemoryError()
    assert is_out_of_memory(error)


def test_an_error_that_causes_itself_ends() -> None:
    error = ValueError("x")
    error.__context__ = error
    assert not is_out_of_memory(error)


def test_recomputation_in_the_backward_pass_is_backward() -> None:
    def forward() -> None:
        raise MemoryError

    def backward() -> None:
        forward()

    with pytest.raises(MemoryError) as caught:
        backward()
    assert find_phase(caught.value.__traceback__) == "backward"
    with pytest.raises(MemoryError) as caught:
        forward()
    assert find_phase(caught.value.__traceback__) == "forward"


def test_before_the_first_step_the_phase_is_load() -> None:
    failure = classify_failure(MemoryError(), training=False)
    assert (failure.outcome, failure.phase, failure.detail) == ("oom", "load", "MemoryError")


def test_an_interrupt_is_no_error() -> None:
    assert classify_failure(KeyboardInterrupt(), training=True).outcome == "interrupted"


def test_details_hold_no_absolute_paths_and_no_control_characters() -> None:
    error = RuntimeError("cannot open /home/someone/data/train.jsonl\nat all")
    assert format_head(error) == "RuntimeError: cannot open train.jsonl at all"
    assert shorten("a\x00b\x1b[31m") == "a b [31m"


def test_details_are_cut() -> None:
    assert len(shorten("x" * 1000)) == 300


def test_what_a_users_own_program_says_is_not_kept() -> None:
    def detail(error: Exception) -> str:
        return classify_failure(error, training=True, quoted=False).detail

    assert detail(ValueError("401 for token s3cr3t")) == "ValueError"
    assert detail(RuntimeError("Connection reset by s3cr3t.example")) == (
        "RuntimeError: connection reset"
    )
    text = "CUDA out of memory. Tried to allocate 2.00 GiB"
    assert detail(RuntimeError(text)) == f"RuntimeError: {text}"
