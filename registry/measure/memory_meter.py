"""Peak memory by kind: what the allocator handed out and held, what the device and host show."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from registry.measure.recording.loaded import cuda, cuda_in_use

_STATUS = Path("/proc/self/status")

#: Writing this to clear_refs makes the kernel forget a process's peak resident size (proc(5)).
_RESET_PEAK = "5"


#: What of a process's status is read: resident now, resident at the peak, private as mapped.
_FIELDS = {name: f"\n{name}:".encode() for name in ("VmRSS", "VmHWM", "VmData")}
_STATUS_BYTES = 1 << 16


def read_host_memory() -> dict[str, int]:
    """Return bytes of this process: resident now (``VmRSS``) and at the peak (``VmHWM``).

    ``VmData`` is what it has mapped for itself alone, touched or not. Empty where the system has no
    /proc.
    """
    try:
        descriptor = os.open(_STATUS, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return {}
    try:  # in every step: a file object, and splitting its lines, take four times as long
        status = os.read(descriptor, _STATUS_BYTES)
    finally:
        os.close(descriptor)
    found = {name: status.find(key) + len(key) for name, key in _FIELDS.items() if key in status}
    return {name: int(status[at : status.index(b"kB", at)]) * 1024 for name, at in found.items()}


def count_oom_kills() -> int:
    """Return how often the kernel has killed for want of memory since it started."""
    return int(find_in_proc("vmstat", r"^oom_kill (\d+)$") or 0)


def find_in_proc(name: str, pattern: str) -> str | None:
    """Return what the pattern's group matches in a file of /proc; None where it is not there."""
    with suppress(OSError):
        text = Path("/proc", name).read_text(encoding="utf-8", errors="replace")
        found = re.search(pattern, text, re.MULTILINE)
        return found[1] if found else None
    return None


def reset_host_peak() -> bool:
    """Make the kernel forget this process's peak resident size; return whether it did."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def return_freed_memory() -> None:
    """Have the C library (malloc_trim(3)) and CUDA's allocator give back what was freed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    module = cuda_in_use()
    if module is not None:
        module.empty_cache()


#: Kinds of memory that hold what an allocator keeps for later, and all kinds on devices.
_WITH_CACHE = ("reserved", "device")
_ON_DEVICES = ("allocated", *_WITH_CACHE)


class Peaks:
    """Running maxima in bytes per kind and device of this process.

    They are kept here because CUDA's own peak counters are reset by other code during a job.
    """

    def __init__(self) -> None:
        self.bytes: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()
        self.rank = 0
        #: How often the allocators have run out of memory since the process began.
        self.n_ooms = 0
        self._of_steps: dict[tuple[str, int], int] = {}
        self._is_cached = False

    def observe(self, kind: str, device: int, value: int) -> None:
        """Raise a maximum."""
        with self._lock:
            if self._is_cached and kind in _WITH_CACHE:
                return
            key = (kind, device)
            self.bytes[key] = max(self.bytes.get(key, 0), value)

    def keep(self) -> None:
        """Keep the maxima as those of the steps until now."""
        self._of_steps = dict(self.bytes)

    def go_back(self) -> None:
        """Go back to what was kept: what came since then is no part of the training."""
        with self._lock:
            self.bytes = dict(self._of_steps)

    def leave_out_attempt(self) -> None:
        """Go back to what was kept: a step since then ran out of memory and was given up.

        What it held stays in the allocator's cache, so that from now on only what is handed out
        says anything of other steps.
        """
        self._is_cached = True
        reset_host_peak()
        _reset_counters()
        with self._lock:
            for key in [key for key in self.bytes if key[0] in _ON_DEVICES]:
                del self.bytes[key]
            self.bytes = self._of_steps | self.bytes

    def observe_allocator(self) -> dict[str, int]:
        """Read the allocator's peaks of all devices; return what the fullest holds now."""
        module = cuda_in_use()
        if module is None:
            return {}
        now: dict[str, int] = {}
        n_ooms = 0
        for device in range(module.device_count()):
            stats = module.memory_stats(device)
            n_ooms += stats.get("num_ooms", 0)
            for kind in ("allocated", "reserved"):
                peak = stats.get(f"{kind}_bytes.all.peak", 0)
                if peak:
                    self.observe(kind, device, peak)
                current = stats.get(f"{kind}_bytes.all.current", 0)
                now[kind] = max(now.get(kind, 0), current)
        self.n_ooms = n_ooms
        return now

    def observe_host(self) -> int | None:
        """Read the peak of the resident bytes; return what is resident now."""
        memory = read_host_memory()
        highest = memory.get("VmHWM", memory.get("VmRSS"))
        if highest is not None:
            self.observe("host_rss", self.rank, highest)
        return memory.get("VmRSS")

    def restart(self) -> None:
        """Forget all maxima, the process's own counters included."""
        reset_host_peak()
        _reset_counters()
        with self._lock:
            self.bytes.clear()
            self._of_steps.clear()

    def rows(self) -> list[list[Any]]:
        """Return the maxima as rows of kind, device and bytes.

        Samples of a device that are all below what the allocator held there missed the peak.
        """
        with self._lock:
            found = dict(self.bytes)
        return [
            [kind, device, value]
            for (kind, device), value in sorted(found.items())
            if kind != "device" or value >= found.get(("reserved", device), 0)
        ]


def _reset_counters() -> None:
    """Have CUDA's own peaks of all devices begin anew, where this process has used one."""
    module = cuda_in_use()
    if module is not None:
        for device in range(module.device_count()):
            module.reset_peak_memory_stats(device)


def guard_resets(peaks: Peaks) -> None:
    """Have CUDA's peaks read before any code resets them."""
    module = cuda()
    if module is None:
        return
    original = module.reset_peak_memory_stats
    observers = getattr(original, "registry_observers", None)
    if observers is not None:
        observers.append(peaks)
        return
    watching = [peaks]

    def reset_peak_memory_stats(*arguments: Any, **named: Any) -> Any:
        for each in watching:
            with suppress(Exception):  # never in the way of the job
                each.observe_allocator()
        return original(*arguments, **named)

    reset_peak_memory_stats.registry_observers = watching  # type: ignore[attr-defined]
    module.reset_peak_memory_stats = reset_peak_memory_stats
    if hasattr(module, "memory"):
        module.memory.reset_peak_memory_stats = reset_peak_memory_stats


class DeviceSampler:
    """A thread that samples the memory in use on the devices of this process, as nvidia-smi does.

    NVML's first call counts what the driver keeps for itself as in use (480 MiB of an H100); its
    second one does not.
    """

    def __init__(self, peaks: Peaks, seconds: float) -> None:
        self.latest: int | None = None
        self._peaks = peaks
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample where there is a device and NVML can be reached."""
        handles = nvml_handles()
        if not handles or self._thread is not None:
            return
        self._thread = threading.Thread(
            target=self._run, args=(handles,), name="registry-device-memory", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def _run(self, handles: dict[int, Any]) -> None:
        nvml = import_module("pynvml")
        while not self._stop.is_set():
            with suppress(nvml.NVMLError):
                used = {
                    device: int(nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2).used)
                    for device, handle in handles.items()
                }
                self.latest = max(used.values())
                for device, value in used.items():
                    self._peaks.observe("device", device, value)
            self._stop.wait(self._seconds)


def nvml_handles() -> dict[int, Any]:
    """Return NVML's handle of each device that this process trains on, by torch's index."""
    module = cuda()
    if module is None:
        return {}
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no NVML, whatever the reason: the other kinds remain
        return {}
    own = devices_of_process(module)
    handles = {}
    for device in own:
        with suppress(Exception):  # a device NVML does not show, such as a slice of one
            uuid = str(module.get_device_properties(device).uuid)
            name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            handles[device] = nvml.nvmlDeviceGetHandleByUUID(name.encode())
    return handles


def devices_of_process(module: Any) -> list[int]:
    """Return the devices this process may use: one in a distributed job, else all visible ones."""
    torch_distributed = import_module("torch.distributed")
    if torch_distributed.is_available() and torch_distributed.is_initialized():
        return [int(module.current_device())]
    return list(range(module.device_count()))
