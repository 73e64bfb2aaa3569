"""Peaks of memory, kept whoever resets the counters."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from registry.measure import memory_meter
from registry.measure.memory_meter import Peaks, guard_resets, read_host_memory, reset_host_peak
from registry.measure.recording import loaded

if TYPE_CHECKING:
    import pytest


class FakeCuda:
    """One device with an allocator's counters."""

    def __init__(self) -> None:
        self.current = 0
        self.peak = 0
        self.memory = SimpleNamespace()

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def memory_stats(self, device: int) -> dict[str, int]:
        assert device == 0
        return {"allocated_bytes.all.peak": self.peak, "allocated_bytes.all.current": self.current}

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        del device
        self.peak = self.current

    def allocate(self, size: int) -> None:
        self.current += size
        self.peak = max(self.peak, self.current)


def test_a_peak_survives_a_reset_by_other_code(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    monkeypatch.setattr(loaded, "loaded", {"torch": SimpleNamespace(cuda=fake)}.get)
    peaks = Peaks()
    guard_resets(peaks)
    fake.allocate(1000)
    fake.allocate(-900)
    fake.reset_peak_memory_stats()
    assert fake.peak == 100
    peaks.observe_allocator()
    assert peaks.rows() == [["allocated", 0, 1000]]


def test_two_recorders_share_one_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    monkeypatch.setattr(loaded, "loaded", {"torch": SimpleNamespace(cuda=fake)}.get)
    first, second = Peaks(), Peaks()
    guard_resets(first)
    guard = fake.reset_peak_memory_stats
    guard_resets(second)
    assert fake.reset_peak_memory_stats is guard
    fake.allocate(10)
    fake.reset_peak_memory_stats()
    assert first.rows() == second.rows() == [["allocated", 0, 10]]


def test_samples_that_missed_the_peak_are_no_peak() -> None:
    peaks = Peaks()
    peaks.observe("reserved", 0, 500)
    peaks.observe("device", 0, 400)
    peaks.observe("reserved", 1, 300)
    peaks.observe("device", 1, 350)
    assert peaks.rows() == [["device", 1, 350], ["reserved", 0, 500], ["reserved", 1, 300]]


def test_the_resident_peak_is_the_kernels() -> None:
    status = Path("/proc/self/status").read_text()
    before = read_host_memory()
    assert abs(before["VmHWM"] - _kibibytes(status, "VmHWM") * 1024) <= 4 << 20
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert read_host_memory()["VmHWM"] >= before["VmRSS"] + (60 << 20)
    del block
    assert reset_host_peak()
    after = read_host_memory()
    assert after["VmHWM"] - after["VmRSS"] < 8 << 20


def _kibibytes(status: str, name: str) -> int:
    line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


def test_a_system_without_proc_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_meter, "_STATUS", Path("/nonexistent/status"))
    assert read_host_memory() == {}
    assert Peaks().observe_host() is None
