"""Where the stand-in's allocator puts what, held against c10/cuda/CUDACachingAllocator.cpp by hand:
the figures follow from its constants and its rules."""

import random
from itertools import pairwise

import pytest

from hostbench.core.units import GIB, KIB, MIB
from tests.fakes.fake_cuda.allocator_settings import AllocatorSettings
from tests.fakes.fake_cuda.segments import OutOfMemory, Piece, Segments


def made(text: str = "", total: int = 8 * GIB, limit: int | None = None) -> Segments:
    return Segments(total, AllocatorSettings.of({"PYTORCH_CUDA_ALLOC_CONF": text}), limit=limit)


@pytest.mark.parametrize(
    ("nbytes", "reserved"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 1, 12 * MIB),
        (64 * MIB, 64 * MIB),
    ],
)
def test_a_segment_is_small_large_or_its_own(nbytes: int, reserved: int) -> None:
    memory = made()
    memory.allocate(nbytes)
    assert memory.stats["reserved"] == reserved
    assert memory.stats["active"] == -(-nbytes // 512) * 512 or nbytes > 10 * MIB


def test_blocks_are_cut_from_the_smallest_that_fits_and_merged_again() -> None:
    memory = made()
    first, second, third = (memory.allocate(4 * MIB) for _ in range(3))
    assert (first.address, second.address) == (first.address, first.address + 4 * MIB)
    assert memory.stats["reserved"] == 20 * MIB
    assert memory.stats["inactive_split"] == 8 * MIB
    memory.free(first)
    memory.free(third)
    assert sorted(size for _, size in memory.free_blocks()) == [4 * MIB, 12 * MIB]
    assert memory.allocate(3 * MIB).address == first.address, "the 4MiB are the best fit"
    memory.free(second)
    assert memory.stats["segments"] == 1


def test_what_is_left_of_a_block_is_kept_together_up_to_a_mib() -> None:
    """should_split: in the large pool only what is over 1MiB, in the small one from 512 bytes."""
    memory = made()
    kept = memory.allocate(11 * MIB)
    assert kept.size == 12 * MIB and not kept.is_split
    memory = made()
    memory.free(memory.allocate(64 * MIB))
    assert memory.allocate(63 * MIB).size == 64 * MIB
    small = memory.allocate(2 * MIB // 2 - 512)
    assert small.size == MIB - 512 and small.is_split


def test_a_stream_takes_only_its_own_blocks() -> None:
    memory = made()
    memory.free(memory.allocate(12 * MIB, stream=1))
    memory.allocate(12 * MIB, stream=2)
    assert memory.stats["reserved"] == 24 * MIB
    memory.allocate(12 * MIB, stream=1)
    assert memory.stats["reserved"] == 24 * MIB


def test_only_whole_segments_are_given_back() -> None:
    memory = made()
    used, other = memory.allocate(4 * MIB), memory.allocate(64 * MIB)
    memory.free(other)
    memory.empty_cache()
    assert memory.stats["reserved"] == 20 * MIB
    memory.free(used)
    memory.empty_cache()
    assert memory.stats["reserved"] == memory.stats["inactive_split"] == 0
    assert memory.stats["peak_reserved"] == 84 * MIB
    memory.reset_peaks()
    assert memory.stats["peak_reserved"] == 0


def test_when_there_is_no_more_the_cache_is_given_back_once_and_then_it_fails() -> None:
    memory = made(total=100 * MIB)
    memory.free(memory.allocate(60 * MIB))
    used = memory.allocate(80 * MIB)
    assert memory.stats["num_alloc_retries"] == 1
    with pytest.raises(OutOfMemory):
        memory.allocate(40 * MIB)
    memory.free(used)
    assert memory.allocate(100 * MIB).size == 100 * MIB


def test_fragments_can_make_it_fail_where_there_is_room() -> None:
    """8 of 80MiB are in use, and 48 cannot be had; where a segment grows they can."""

    def fragmented(memory: Segments) -> Segments:
        pieces = [memory.allocate(size * MIB) for size in (8, 8, 4, 8, 8, 4)]
        for one in (*pieces[:2], *pieces[3:5]):
            memory.free(one)
        assert memory.stats["active"] == 8 * MIB and memory.stats["reserved"] == 40 * MIB
        return memory

    with pytest.raises(OutOfMemory):
        fragmented(made(total=80 * MIB)).allocate(48 * MIB)
    grows = fragmented(made("expandable_segments:True", total=80 * MIB))
    assert grows.allocate(40 * MIB).size == 40 * MIB


def test_expandable_segments_are_one_that_grows() -> None:
    memory = made("expandable_segments:True")
    first = memory.allocate(30 * MIB)
    assert memory.stats["reserved"] == 40 * MIB, "in units of 20MiB"
    second = memory.allocate(30 * MIB)
    assert second.address == first.address + 30 * MIB
    assert memory.stats["reserved"] == 60 * MIB
    memory.free(first)
    memory.free(second)
    whole = memory.allocate(60 * MIB)
    assert (whole.address, memory.stats["reserved"]) == (first.address, 60 * MIB)
    assert memory.stats["segments"] == 1 and memory.stats["inactive_split"] == 0
    memory.free(whole)
    memory.empty_cache()
    assert memory.stats["reserved"] == 0


def test_an_expandable_segment_gives_back_the_units_that_are_free_inside() -> None:
    memory = made("expandable_segments:True")
    first, second = memory.allocate(50 * MIB), memory.allocate(10 * MIB)
    memory.free(first)
    memory.empty_cache()
    assert memory.stats["reserved"] == 20 * MIB, "0 to 40MiB are unmapped"
    again = memory.allocate(45 * MIB)
    assert again.address == first.address, "mapped again, and 10MiB of the third unit were there"
    assert memory.stats["reserved"] == 60 * MIB
    memory.free(second)


def test_large_blocks_are_not_split_where_a_size_is_set() -> None:
    """max_split_size_mb: a block of it or more serves only requests of nearly its size."""
    memory = made("max_split_size_mb:32")
    memory.free(memory.allocate(64 * MIB))
    memory.allocate(16 * MIB)
    assert memory.stats["reserved"] == 80 * MIB
    assert memory.allocate(50 * MIB).size == 64 * MIB
    memory = made("max_split_size_mb:32")
    memory.free(memory.allocate(64 * MIB))
    memory.allocate(40 * MIB)
    assert memory.stats["reserved"] == 104 * MIB, "64MiB are 24 too many"


def test_large_blocks_are_given_back_first_where_a_size_is_set() -> None:
    """release_available_cached_blocks: no retry, and the rest of the cache stays."""
    memory = made("max_split_size_mb:32", total=200 * MIB)
    for one in [memory.allocate(size * MIB) for size in (16, 64, 64)]:
        memory.free(one)
    memory.allocate(100 * MIB)
    assert memory.stats["num_alloc_retries"] == 0
    assert [size for _, size in memory.free_blocks()] == [16 * MIB]


@pytest.mark.parametrize(
    ("nbytes", "size"),
    [(1024, 1024), (1200, 1536), (1200 * KIB, 1280 * KIB), (1300 * KIB, 1536 * KIB)],
)
def test_sizes_are_rounded_to_parts_of_powers_of_two(nbytes: int, size: int) -> None:
    """torch's own example: 1200 with 4 divisions is 1280, of 1024, 1280, 1536 and 1792."""
    assert (
        AllocatorSettings.of({"PYTORCH_ALLOC_CONF": "roundup_power2_divisions:4"}).rounded(nbytes)
        == size
    )


def test_what_has_waited_longest_is_collected_where_memory_is_limited() -> None:
    text = "garbage_collection_threshold:0.5"
    memory = made(text, limit=100 * MIB)
    old = memory.allocate(30 * MIB)
    memory.free(old)
    for _ in range(5):
        memory.free(memory.allocate(20 * MIB))
    memory.allocate(40 * MIB)
    assert memory.stats["num_alloc_retries"] == 0
    assert memory.stats["reserved"] <= 70 * MIB
    free = made(text)
    free.free(free.allocate(30 * MIB))
    free.allocate(40 * MIB)
    assert free.stats["reserved"] == 70 * MIB, "without a limit nothing is collected"


def test_cuda_malloc_async_never_fragments() -> None:
    memory = made("backend:cudaMallocAsync")
    pieces = [memory.allocate(4 * MIB) for _ in range(3)]
    assert memory.stats["reserved"] == 12 * MIB
    memory.free(pieces[1])
    memory.allocate(4 * MIB)
    assert memory.stats["reserved"] == memory.stats["peak_active"] == 12 * MIB
    memory.free(pieces[0])
    memory.empty_cache()
    assert memory.stats["reserved"] == 8 * MIB
    with pytest.raises(OutOfMemory):
        memory.allocate(9 * GIB)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("max_split_size_mb:20", "too small"),
        ("roundup_power2_divisions:3", "power of 2"),
        ("pinned_num_register_threads:8", "knows no allocator setting 'pinned_num"),
    ],
)
def test_what_torch_refuses_and_what_is_not_modelled(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AllocatorSettings.of({"PYTORCH_CUDA_ALLOC_CONF": text})


def test_the_older_variable_comes_first_and_none_is_the_default() -> None:
    both = {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF": ""}
    assert AllocatorSettings.of(both) == AllocatorSettings.of({}) == AllocatorSettings()


SETTINGS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.6",
    "backend:cudaMallocAsync",
)


@pytest.mark.parametrize("limit", [None, 600 * MIB])
@pytest.mark.parametrize("text", SETTINGS)
def test_nothing_overlaps_and_nothing_is_lost(text: str, limit: int | None) -> None:
    """Whatever comes: blocks in use lie apart, and used and free ones are what is reserved."""
    memory, rng, used = made(text, limit=limit), random.Random(text), list[Piece]()
    # What is mapped is rounded up only after torch has looked at the limit.
    most = (limit or 8 * GIB) + 20 * MIB * text.startswith("expandable")
    for turn in range(1500):
        if used and rng.random() < 0.5:
            memory.free(used.pop(rng.randrange(len(used))))
        else:
            size = rng.choice((KIB, 300 * KIB, 3 * MIB, 14 * MIB, 70 * MIB))
            try:
                used.append(memory.allocate(rng.randint(size // 2, size), rng.randrange(2)))
            except OutOfMemory:
                assert limit is not None
        if turn % 400 == 399:
            memory.empty_cache()
        assert memory.stats["active"] == sum(one.size for one in used)
        assert memory.stats["active"] <= memory.stats["reserved"] <= most
        if "Async" in text:
            continue
        taken = sorted([*((one.address, one.size) for one in used), *memory.free_blocks()])
        assert sum(size for _, size in taken) == memory.stats["reserved"]
        assert all(a + n <= b for (a, n), (b, _) in pairwise(taken))
    for one in used:
        memory.free(one)
    memory.empty_cache()
    assert memory.stats["reserved"] == memory.stats["inactive_split"] == 0
    assert memory.stats["requested"] == 0
