"""What is recorded on cards, with stand-ins at the interfaces of ``torch.cuda`` and NVML."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from registry.measure.environment import collect_environment, collect_interconnect
from registry.measure.recording.progress import assemble_files
from registry.measure.recording.session import Session
from registry.measure.trial_settings import RECORD_FOLDER, Options
from tests.unit.measure.recording.cards import GIB, Card, Cuda, Nvml
from tests.unit.measure.recording.test_session import Job, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Install = Callable[..., tuple[Cuda, Nvml]]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that gives this process cards."""
    monkeypatch.delenv(RECORD_FOLDER, raising=False)

    def put(*cards: Card, rank: int | None = None, **nvml: Any) -> tuple[Cuda, Nvml]:
        cuda, library = Cuda(list(cards), device=rank or 0), Nvml(list(cards), **nvml)
        distributed = SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: rank is not None,
            get_rank=lambda: rank,
            get_world_size=lambda: 2,
        )
        torch = SimpleNamespace(
            cuda=cuda,
            version=SimpleNamespace(cuda="13.0", hip=None),
            distributed=distributed,
            __version__="2.13.0",
        )
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
        monkeypatch.setitem(sys.modules, "pynvml", library)
        return cuda, library

    return put


def begin(tmp_path: Path) -> Session:
    options = Options(out=tmp_path / "record.json", device_sample_seconds=0.001)
    session = Session(options)
    session.attach(Job(tmp_path, device="cuda"))
    session.begin_train()
    return session


def step(session: Session, number: int) -> None:
    session.begin_step(number)
    session.count(batch())
    session.end_step(number)


def wait_for_sample(session: Session, expected: int) -> None:
    assert session.failure is None, session.failure
    sampling = session.sampler._thread
    while session.sampler.latest != expected:
        assert sampling is not None
        assert sampling.is_alive()
        time.sleep(0.001)


def observation(session: Session) -> dict[str, Any]:
    assert session.failure is None, session.failure
    assert session.submission is not None
    found = session.submission["observations"][0]
    assert isinstance(found, dict)
    return found


def peaks(session: Session) -> dict[tuple[str, int | None], float]:
    """Return the peaks in GiB by kind and card; None is the total."""
    return {
        (row["kind"], row.get("device_index")): row["value"] / GIB
        for row in observation(session)["measurements"]
        if row["metric"] == "peak_memory" and row["kind"] != "host_rss"
    }


def test_each_card_has_its_own_peaks_of_each_kind(tmp_path: Path, install: Install) -> None:
    first, second = Card("GPU-a"), Card("GPU-b")
    cuda, _ = install(first, second)
    session = begin(tmp_path)
    first.allocate(8 * GIB)
    second.allocate(4 * GIB)
    wait_for_sample(session, 8 * GIB + GIB // 2)
    step(session, 1)
    first.allocate(-2 * GIB)
    step(session, 2)
    session.finish()
    assert peaks(session) == {
        ("allocated", None): 12,
        ("allocated", 0): 8,
        ("allocated", 1): 4,
        ("reserved", None): 12,
        ("reserved", 0): 8,
        ("reserved", 1): 4,
        ("device", None): 13,
        ("device", 0): 8.5,
        ("device", 1): 4.5,
    }
    samples = observation(session)["samples"]
    assert [row["memory_allocated_bytes"] / GIB for row in samples] == [8, 6]
    assert [row["memory_reserved_bytes"] / GIB for row in samples] == [8, 8]
    assert [row["memory_device_bytes"] / GIB for row in samples] == [8.5, 8.5]
    assert cuda.n_synchronized == 2
    assert "registry-device-memory" not in {thread.name for thread in threading.enumerate()}


def test_the_card_is_described(tmp_path: Path, install: Install) -> None:
    install(Card(name="NVIDIA Some Card 24GB", total=24 * GIB))
    session = begin(tmp_path)
    step(session, 1)
    session.finish()
    assert session.submission is not None
    assert session.submission["gpus"] == [
        {
            "gpu_id": "nvidia-some-card-24gb",
            "name": "NVIDIA Some Card 24GB",
            "device_names": ["NVIDIA Some Card 24GB"],
            "memory_bytes": 24 * GIB,
            "compute_capability": "8.0",
            "memory_source": "total memory as torch.cuda reports it",
        }
    ]
    assert observation(session)["configuration"]["gpu_id"] == "nvidia-some-card-24gb"


def test_a_process_of_a_distributed_job_watches_its_own_card(
    tmp_path: Path, install: Install
) -> None:
    other, own = Card("GPU-a"), Card("GPU-b")
    install(other, own, rank=1)
    other.allocate(40 * GIB)  # by another process: this one's allocator knows nothing of it
    other.allocated = other.reserved = other.peak_allocated = other.peak_reserved = 0
    session = begin(tmp_path)
    own.allocate(4 * GIB)
    wait_for_sample(session, 4 * GIB + GIB // 2)
    step(session, 1)
    session.finish_rank()
    assert [row for row in session.peaks.rows() if row[0] != "host_rss"] == [
        ["allocated", 1, 4 * GIB],
        ["device", 1, 4 * GIB + GIB // 2],
        ["reserved", 1, 4 * GIB],
    ]


def test_a_job_may_reset_the_counters(tmp_path: Path, install: Install) -> None:
    card = Card()
    cuda, _ = install(card)
    session = begin(tmp_path)
    card.allocate(8 * GIB)
    card.allocate(-6 * GIB)
    card.reserved = 2 * GIB
    cuda.reset_peak_memory_stats()
    assert card.peak_allocated == 2 * GIB
    step(session, 1)
    session.finish()
    assert peaks(session)["allocated", 0] == 8
    assert peaks(session)["reserved", 0] == 8


def test_a_second_training_has_peaks_of_its_own(tmp_path: Path, install: Install) -> None:
    card = Card()
    install(card)
    session = begin(tmp_path)
    card.allocate(8 * GIB)
    step(session, 1)
    session.finish()
    card.allocate(-8 * GIB)
    card.reserved = 0
    session.attach(Job(tmp_path, device="cuda"))
    session.begin_train()
    card.allocate(2 * GIB)
    step(session, 1)
    session.finish()
    assert peaks(session)["allocated", 0] == 2
    assert peaks(session)["reserved", 0] == 2


def test_without_nvml_the_allocators_peaks_remain(tmp_path: Path, install: Install) -> None:
    card = Card()
    install(card, is_there=False)
    session = begin(tmp_path)
    card.allocate(GIB)
    step(session, 1)
    session.finish()
    assert {kind for kind, _ in peaks(session)} == {"allocated", "reserved"}
    assert "memory_device_bytes" not in observation(session)["samples"][0]


def test_a_card_that_fails_for_a_moment_is_sampled_again(tmp_path: Path, install: Install) -> None:
    card = Card()
    install(card, n_failures=3)
    session = begin(tmp_path)
    card.allocate(GIB)
    wait_for_sample(session, GIB + GIB // 2)
    session.finish()
    assert peaks(session)["device", 0] == 1.5


def test_a_slice_of_a_card_is_found_by_its_own_name(tmp_path: Path, install: Install) -> None:
    card = Card("MIG-1a2b")
    install(card)
    session = begin(tmp_path)
    card.allocate(GIB)
    wait_for_sample(session, GIB + GIB // 2)
    session.finish()
    assert peaks(session)["device", 0] == 1.5


def test_a_process_that_has_not_used_its_card_has_no_figure_of_it(
    tmp_path: Path, install: Install
) -> None:
    cuda, _ = install(Card(), is_there=False)
    cuda.is_used = False
    session = begin(tmp_path)
    step(session, 1)
    session.finish()
    assert peaks(session) == {}
    assert cuda.n_synchronized == 0


class OutOfMemoryError(RuntimeError):
    """Named as torch's own."""


def test_want_of_memory_keeps_what_was_reached(tmp_path: Path, install: Install) -> None:
    card = Card(total=24 * GIB)
    install(card)
    session = begin(tmp_path)
    card.allocate(20 * GIB)
    step(session, 1)
    card.allocate(3 * GIB)
    session.begin_step(2)
    session.fail(OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    found = observation(session)
    assert (found["outcome"], found["failed_step"]) == ("oom", 2)
    assert peaks(session)["allocated", 0] == 23


def test_a_step_that_ran_out_of_memory_and_was_caught_is_the_end(
    tmp_path: Path, install: Install
) -> None:
    card = Card(total=24 * GIB)
    install(card, is_there=False)
    session = begin(tmp_path)
    card.allocate(20 * GIB)
    step(session, 1)
    session.begin_step(2)
    card.run_out(3 * GIB)
    session.finish_rank()
    found = assemble_files(tmp_path.glob("*.jsonl"))[0]["observations"][0]
    assert (found["outcome"], found["failed_step"], found["phase"]) == ("oom", 2, "train")


def test_running_out_of_memory_after_the_last_step_is_no_failure_of_the_training(
    tmp_path: Path, install: Install
) -> None:
    card = Card()
    install(card, is_there=False)
    session = begin(tmp_path)
    step(session, 1)
    card.run_out(40 * GIB)  # an evaluation, say
    session.finish_rank()
    found = assemble_files(tmp_path.glob("*.jsonl"))[0]["observations"][0]
    assert found["outcome"] == "ok"


@pytest.mark.parametrize("n_before", [0, 2])
@pytest.mark.parametrize("n_after", [1, 2])
def test_an_attempt_that_was_given_up_is_not_in_the_peak(
    tmp_path: Path, install: Install, n_before: int, n_after: int
) -> None:
    card = Card()
    install(card, is_there=False)
    session = begin(tmp_path)

    def train(first: int, last: int) -> None:
        for number in range(first, last + 1):
            session.begin_step(number)
            card.allocate(8 * GIB)
            card.allocate(-8 * GIB)
            session.end_step(number)

    train(1, n_before)
    session.begin_step(n_before + 1)
    card.run_out(79 * GIB)
    train(n_before + 1, n_before + n_after)
    session.finish_rank()
    found = assemble_files(tmp_path.glob("*.jsonl"))[0]["observations"][0]
    assert found["outcome"] == "ok"
    assert "recovered_from_oom" in found["flags"]
    peak = {
        row["kind"]: row["value"] / GIB
        for row in found["measurements"]
        if row["metric"] == "peak_memory" and row.get("device_index") == 0
    }
    expected = {"allocated": 8.0} if n_before or n_after > 1 else {}
    expected |= {"reserved": 8.0} if n_before else {}
    assert {kind: peak[kind] for kind in ("allocated", "reserved") if kind in peak} == expected


def test_what_an_earlier_training_left_in_the_cache_is_not_in_the_next_ones_peak(
    tmp_path: Path, install: Install
) -> None:
    card = Card()
    install(card, is_there=False)
    session = begin(tmp_path)
    card.allocate(40 * GIB)
    step(session, 1)
    session.finish()
    card.allocate(-40 * GIB)
    session.attach(Job(tmp_path, device="cuda"))
    session.begin_train()
    card.allocate(2 * GIB)
    step(session, 1)
    session.finish()
    assert peaks(session)["reserved", 0] == 2


def test_the_environment_names_what_drives_the_card(install: Install) -> None:
    install(Card())
    row = collect_environment()
    assert row["cuda_version"] == "13.0"
    assert row["driver_version"] == "580.65.06"
    assert row["nccl_version"] == "2.27.5"


@pytest.mark.parametrize(
    ("links", "expected"),
    [((2, 2), "nvswitch"), ((0, 1), "nvlink"), ((), "pcie"), ((0, 0), "pcie")],
)
def test_the_link_between_cards(install: Install, links: tuple[int, ...], expected: str) -> None:
    install(Card("GPU-a"), Card("GPU-b"), links=links)
    assert collect_interconnect(2) == expected
    assert collect_interconnect(1) == "none"


def test_a_link_that_nobody_tells_is_not_known(install: Install) -> None:
    install(Card("GPU-a"), Card("GPU-b"), is_there=False)
    assert collect_interconnect(2) is None
