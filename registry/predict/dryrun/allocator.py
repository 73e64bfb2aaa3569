"""The caching allocator of torch.cuda in its default settings, on one stream, in plain Python.

Rules and sizes: PyTorch, ``c10/cuda/CUDACachingAllocator.cpp``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

MIB = 2**20

#: Sizes are multiples of this.
ROUND_BYTES = 512

#: Requests up to here come out of segments of SMALL_SEGMENT_BYTES.
SMALL_REQUEST_BYTES = MIB
SMALL_SEGMENT_BYTES = 2 * MIB

#: Requests below here come out of segments of LARGE_SEGMENT_BYTES; larger ones get a segment of
#: their own, of a multiple of SEGMENT_ROUND_BYTES.
LARGE_REQUEST_BYTES = 10 * MIB
LARGE_SEGMENT_BYTES = 20 * MIB
SEGMENT_ROUND_BYTES = 2 * MIB


@dataclass(eq=False)
class Block:
    """A stretch of a segment; its neighbours are linked in the order of their addresses."""

    address: int
    size: int
    small: bool
    free: bool = True
    before: Block | None = None
    after: Block | None = None


class CachingAllocator:
    """Counts what is allocated and what is reserved as blocks come and go.

    Attributes:
        allocated_bytes: Size of the blocks in use, now; ``peak_allocated_bytes`` at most.
        reserved_bytes: Size of the segments, now; ``peak_reserved_bytes`` at most.
    """

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self.peak_allocated_bytes = 0
        self.reserved_bytes = 0
        self.peak_reserved_bytes = 0
        self._next_address = 0
        self._blocks: dict[int, Block] = {}
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}

    def allocate(self, n_bytes: int) -> Block:
        """Return a block for a request: the smallest free one that holds it, else a new segment."""
        size = round_size(n_bytes)
        block = self._best_fit(size) or self._new_segment(size)
        self._split(block, size)
        block.free = False
        self.allocated_bytes += block.size
        self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)
        return block

    def release(self, block: Block) -> None:
        """Take a block back, joined to its free neighbours. Raises ValueError on a second time."""
        if block.free:
            raise ValueError(f"block at {block.address}: released already; expected one in use")
        self.allocated_bytes -= block.size
        block.free = True
        if block.before is not None and block.before.free:
            self._forget(block.before)
            block = self._join(block.before, block)
        if block.after is not None and block.after.free:
            self._forget(block.after)
            block = self._join(block, block.after)
        insort(self._free[block.small], (block.size, block.address))

    def blocks(self) -> list[Block]:
        """Return all blocks in the order of their addresses."""
        return [self._blocks[address] for address in sorted(self._blocks)]

    def _best_fit(self, size: int) -> Block | None:
        free = self._free[size <= SMALL_REQUEST_BYTES]
        index = bisect_left(free, (size, -1))
        if index == len(free):
            return None
        return self._blocks[free.pop(index)[1]]

    def _new_segment(self, size: int) -> Block:
        block = Block(self._next_address, segment_size(size), size <= SMALL_REQUEST_BYTES)
        # A gap keeps segments apart: blocks of two segments are never joined.
        self._next_address += block.size + ROUND_BYTES
        self._blocks[block.address] = block
        self.reserved_bytes += block.size
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        return block

    def _split(self, block: Block, size: int) -> None:
        rest = block.size - size
        if rest < ROUND_BYTES or (not block.small and rest <= SMALL_REQUEST_BYTES):
            return
        new = Block(block.address + size, rest, block.small, before=block, after=block.after)
        if block.after is not None:
            block.after.before = new
        block.after = new
        block.size = size
        self._blocks[new.address] = new
        insort(self._free[new.small], (new.size, new.address))

    def _forget(self, block: Block) -> None:
        free = self._free[block.small]
        del free[bisect_left(free, (block.size, block.address))]

    def _join(self, left: Block, right: Block) -> Block:
        left.size += right.size
        left.after = right.after
        if right.after is not None:
            right.after.before = left
        del self._blocks[right.address]
        return left


def round_size(n_bytes: int) -> int:
    """Return the size of the block that a request gets.

    >>> round_size(1), round_size(512), round_size(513)
    (512, 512, 1024)
    """
    return max(-(-n_bytes // ROUND_BYTES), 1) * ROUND_BYTES


def segment_size(size: int) -> int:
    """Return the size of the segment that is reserved for a rounded request.

    >>> [segment_size(n * MIB) // MIB for n in (1, 2, 9, 10, 11)]
    [2, 20, 20, 10, 12]
    """
    if size <= SMALL_REQUEST_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < LARGE_REQUEST_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size // SEGMENT_ROUND_BYTES) * SEGMENT_ROUND_BYTES
