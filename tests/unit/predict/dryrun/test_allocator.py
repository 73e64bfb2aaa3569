from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.predict.dryrun.allocator import (
    MIB,
    ROUND_BYTES,
    Block,
    CachingAllocator,
    round_size,
    segment_size,
)

#: Sizes around every limit of the allocator, and anything between.
SIZES = st.one_of(
    st.integers(1, 4 * ROUND_BYTES),
    st.integers(MIB - ROUND_BYTES, MIB + ROUND_BYTES),
    st.integers(9 * MIB, 11 * MIB),
    st.integers(1, 64 * MIB),
)
#: A size to allocate, or which of the live blocks to release.
MOVES = st.lists(st.one_of(SIZES, st.integers(-50, -1)), max_size=60)


def test_a_byte_takes_512_bytes_of_a_segment_of_2_mib() -> None:
    allocator = CachingAllocator()
    allocator.allocate(1)
    assert allocator.allocated_bytes == 512
    assert allocator.reserved_bytes == 2 * MIB


def test_requests_up_to_1_mib_share_a_small_segment() -> None:
    allocator = CachingAllocator()
    allocator.allocate(MIB)
    allocator.allocate(MIB)
    assert allocator.reserved_bytes == 2 * MIB
    allocator.allocate(1)
    assert allocator.reserved_bytes == 4 * MIB


def test_one_byte_more_than_1_mib_takes_a_segment_of_20_mib() -> None:
    allocator = CachingAllocator()
    block = allocator.allocate(MIB + 1)
    assert block.size == MIB + 512
    assert allocator.reserved_bytes == 20 * MIB


def test_10_mib_and_more_are_reserved_in_steps_of_2_mib() -> None:
    allocator = CachingAllocator()
    block = allocator.allocate(10 * MIB + 1)
    assert allocator.reserved_bytes == 12 * MIB
    assert block.size == 10 * MIB + 512
    assert [part.size for part in allocator.blocks()] == [10 * MIB + 512, 2 * MIB - 512]


def test_a_rest_of_1_mib_stays_with_its_large_block() -> None:
    allocator = CachingAllocator()
    block = allocator.allocate(11 * MIB)
    assert block.size == 12 * MIB
    assert allocator.allocated_bytes == 12 * MIB


def test_the_smallest_free_block_that_holds_a_request_is_taken() -> None:
    allocator = CachingAllocator()
    large = allocator.allocate(40 * MIB)
    small = allocator.allocate(30 * MIB)
    allocator.release(large)
    allocator.release(small)
    assert allocator.allocate(29 * MIB) is small
    assert allocator.reserved_bytes == 70 * MIB


def test_neighbours_that_are_free_become_one_block_again() -> None:
    allocator = CachingAllocator()
    parts = [allocator.allocate(4 * MIB) for _ in range(5)]
    assert allocator.reserved_bytes == 20 * MIB
    for index in (0, 2, 4, 1, 3):
        allocator.release(parts[index])
    assert [block.size for block in allocator.blocks()] == [20 * MIB]
    allocator.allocate(20 * MIB)
    assert allocator.reserved_bytes == 20 * MIB


def test_a_hole_too_small_for_a_request_is_fragmentation() -> None:
    allocator = CachingAllocator()
    first = allocator.allocate(12 * MIB)
    allocator.allocate(12 * MIB)
    allocator.release(first)
    allocator.allocate(14 * MIB)
    assert allocator.allocated_bytes == 26 * MIB
    assert allocator.reserved_bytes == 38 * MIB


def test_small_requests_never_take_from_large_segments() -> None:
    allocator = CachingAllocator()
    allocator.release(allocator.allocate(20 * MIB))
    allocator.allocate(1)
    assert allocator.reserved_bytes == 22 * MIB


def test_peaks_stay_when_memory_is_released() -> None:
    allocator = CachingAllocator()
    allocator.release(allocator.allocate(20 * MIB))
    assert allocator.allocated_bytes == 0
    assert allocator.peak_allocated_bytes == 20 * MIB
    assert allocator.peak_reserved_bytes == 20 * MIB


def test_a_block_is_released_once() -> None:
    allocator = CachingAllocator()
    block = allocator.allocate(1)
    allocator.release(block)
    with pytest.raises(ValueError, match=r"^block at 0: released already; expected one in use$"):
        allocator.release(block)


@given(st.integers(1, 2**40))
def test_sizes_are_rounded_up_to_the_next_512_bytes(n_bytes: int) -> None:
    size = round_size(n_bytes)
    assert size % 512 == 0
    assert n_bytes <= size < n_bytes + 512
    assert segment_size(size) >= size


@given(MOVES)
def test_reserved_holds_allocated_and_splitting_conserves_bytes(moves: list[int]) -> None:
    allocator = CachingAllocator()
    live = play(allocator, moves)
    blocks = allocator.blocks()
    assert sum(block.size for block in live) == allocator.allocated_bytes
    assert sum(block.size for block in blocks if not block.free) == allocator.allocated_bytes
    assert sum(block.size for block in blocks) == allocator.reserved_bytes
    assert allocator.peak_allocated_bytes <= allocator.peak_reserved_bytes
    for one, other in pairwise(blocks):
        assert one.address + one.size <= other.address
        assert not (one.after is other and one.free and other.free)


@given(MOVES)
def test_what_was_released_serves_the_same_moves_again(moves: list[int]) -> None:
    allocator = CachingAllocator()
    for _ in range(2):
        for block in play(allocator, moves):
            allocator.release(block)
    once = CachingAllocator()
    play(once, moves)
    assert allocator.allocated_bytes == 0
    assert allocator.peak_allocated_bytes >= once.peak_allocated_bytes
    assert all(block.free and block.before is None for block in allocator.blocks())


@given(SIZES)
def test_a_freed_block_is_reused_by_a_request_of_its_size(n_bytes: int) -> None:
    allocator = CachingAllocator()
    allocator.release(allocator.allocate(n_bytes))
    reserved = allocator.reserved_bytes
    allocator.allocate(n_bytes)
    assert allocator.reserved_bytes == reserved


def play(allocator: CachingAllocator, moves: list[int]) -> list[Block]:
    live: list[Block] = []
    for move in moves:
        if move > 0:
            live.append(allocator.allocate(move))
        elif live:
            allocator.release(live.pop(move % len(live)))
    return live
