"""Stand-ins for ``torch.cuda`` and NVML at the interfaces that the recorder calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

GIB = 1 << 30


@dataclass
class Card:
    """One card: what its allocator has handed out and holds, and what NVML says is in use."""

    uuid: str = "GPU-0"
    name: str = "NVIDIA A100-SXM4-80GB"
    total: int = 80 * GIB
    allocated: int = 0
    reserved: int = 0
    used: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    n_ooms: int = 0

    def allocate(self, size: int) -> None:
        """Hand out memory; what is given back stays reserved."""
        self.allocated += size
        self.reserved = max(self.reserved, self.allocated)
        self.used = self.reserved + GIB // 2  # the context
        self.reach()

    def run_out(self, size: int) -> None:
        """Hand out memory until there is no more, and take all of it back, as a caught error does.

        What was given back stays reserved.
        """
        self.allocate(size)
        self.allocate(-size)
        self.n_ooms += 1

    def reach(self) -> None:
        """Raise the peaks to what is held now."""
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.peak_reserved = max(self.peak_reserved, self.reserved)


@dataclass
class Cuda:
    """``torch.cuda``."""

    cards: list[Card]
    device: int = 0
    is_used: bool = True
    n_synchronized: int = 0
    memory: Any = field(default_factory=SimpleNamespace)
    nccl: Any = field(default_factory=lambda: SimpleNamespace(version=lambda: (2, 27, 5)))

    def is_available(self) -> bool:
        """Return whether there is a card."""
        return bool(self.cards)

    def is_initialized(self) -> bool:
        """Return whether the process has used one."""
        return self.is_used

    def device_count(self) -> int:
        """Return the number of cards."""
        return len(self.cards)

    def current_device(self) -> int:
        """Return the card of this process."""
        return self.device

    def synchronize(self) -> None:
        """Wait for the card."""
        self.n_synchronized += 1

    def empty_cache(self) -> None:
        """Give back what the allocators hold for later."""
        for card in self.cards:
            card.reserved = card.allocated
            card.used = card.reserved + GIB // 2

    def get_device_properties(self, device: int) -> Any:
        """Return what a card is."""
        card = self.cards[device]
        uuid = card.uuid.removeprefix("GPU-")  # as torch gives it
        return SimpleNamespace(name=card.name, total_memory=card.total, major=8, minor=0, uuid=uuid)

    def memory_stats(self, device: int) -> dict[str, int]:
        """Return the allocator's counters."""
        card = self.cards[device]
        return {
            "allocated_bytes.all.current": card.allocated,
            "allocated_bytes.all.peak": card.peak_allocated,
            "reserved_bytes.all.current": card.reserved,
            "reserved_bytes.all.peak": card.peak_reserved,
            "num_ooms": card.n_ooms,
        }

    def reset_peak_memory_stats(self, device: int | None = None) -> None:
        """Have the peaks begin anew."""
        for number, card in enumerate(self.cards):
            if device in (None, number):
                card.peak_allocated = card.peak_reserved = 0
                card.reach()


#: What the driver of an H100 keeps for itself (81559 MiB in all, 81080 MiB for processes).
DRIVERS_OWN = 479 << 20


class NvmlError(Exception):
    """What NVML raises."""


@dataclass
class Nvml:
    """``pynvml``."""

    cards: list[Card]
    links: tuple[int, ...] = ()
    is_there: bool = True
    n_failures: int = 0

    NVMLError = NvmlError
    nvmlMemory_v2 = 0x02000028  # noqa: N815
    NVML_NVLINK_MAX_LINKS = 4
    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own names
        """Load the driver's library."""
        if not self.is_there:
            raise NvmlError("Driver Not Loaded")

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        """Return the driver's version, as old releases of pynvml do."""
        return b"580.65.06"

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> Card:  # noqa: N802
        """Return the card of this name."""
        for card in self.cards:
            if card.uuid.encode() == uuid:
                return card
        raise NvmlError("Not Found")

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802
        """Return the card with this number."""
        return self.cards[index]

    def nvmlDeviceGetMemoryInfo(self, card: Card, version: int | None = None) -> Any:  # noqa: N802
        """Return the memory in use, unless the card is to fail for now.

        Without a version, what the driver keeps for itself is in it.
        """
        if self.n_failures:
            self.n_failures -= 1
            raise NvmlError("GPU is lost")
        kept = 0 if version == self.nvmlMemory_v2 else DRIVERS_OWN
        return SimpleNamespace(used=card.used + kept, total=card.total)

    def nvmlDeviceGetNvLinkState(self, card: Card, link: int) -> int:  # noqa: N802
        """Return whether a link is there and on."""
        del card
        if link >= len(self.links):
            raise NvmlError("Not Supported")
        return int(self.links[link] > 0)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, card: Card, link: int) -> int:  # noqa: N802
        """Return what is at a link's other end."""
        del card
        return self.links[link]
