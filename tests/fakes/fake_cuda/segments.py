"""Where torch's caching allocator puts what: segments, blocks, splitting, and its statistics.

The main lines of c10/cuda/CUDACachingAllocator.cpp (torch 2.6 to 2.13) with one device's bytes and
no memory behind them: two pools, best fit within a stream, blocks split and merged, segments given
back when there is no more, `expandable_segments`, and the settings of PYTORCH_CUDA_ALLOC_CONF that
`AllocatorSettings` names. Addresses are numbers. It knows no torch and no time.

Not modelled: pools of CUDA graphs, users' own pools, peers, callbacks when memory runs out.
cudaMallocAsync is one pool that never fragments and keeps what it once had: CUDA's own rules are
not public.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hostbench.core.units import MIB
from tests.fakes.fake_cuda.allocator_settings import (
    LARGE_SEGMENT,
    MIN_BLOCK,
    NO_LIMIT,
    AllocatorSettings,
)

SMALL, SMALL_SEGMENT, MIN_LARGE, ROUND_LARGE = MIB, 2 * MIB, 10 * MIB, 2 * MIB
"""kSmallSize, kSmallBuffer, kMinLargeAlloc, kRoundLarge."""
_APART = LARGE_SEGMENT << 24
"""Between the addresses of two segments."""

Stats = Counter[str]
"""Bytes as `reserved`, `active`, `inactive_split`, `requested`, and the same after `peak_`; numbers
of `segments`, `num_alloc_retries`, `num_device_alloc`, `num_device_free`."""


class OutOfMemory(Exception):
    """Neither the device nor the cache has it."""


@dataclass(eq=False, slots=True)
class Piece:
    """A block: a stretch of a segment, in use or free."""

    pool: "_Pool"
    stream: int
    size: int
    address: int
    expandable: bool = False
    is_mapped: bool = True
    is_used: bool = False
    before: "Piece | None" = None
    after: "Piece | None" = None
    requested: int = 0
    age_base: int = 0

    @property
    def key(self) -> tuple[int, int, int]:
        return self.stream, self.size, self.address

    @property
    def is_split(self) -> bool:
        return self.before is not None or self.after is not None


@dataclass(eq=False, slots=True)
class _Pool:
    """Free blocks of small or of large requests, by stream, size and address."""

    is_small: bool
    free: list[Piece] = field(default_factory=list)
    unmapped: list[Piece] = field(default_factory=list)
    """Of expandable segments: addresses without memory."""
    num_asked: int = 0

    def add(self, piece: Piece) -> None:
        piece.age_base = self.num_asked
        insort(self.free, piece, key=lambda one: one.key)

    def first(self, stream: int, size: int) -> int:
        """The place of the smallest free block of the stream that holds so much; that of another's
        or the end where there is none."""
        return bisect_left(self.free, (stream, size, 0), key=lambda one: one.key)

    def age(self, piece: Piece) -> int:
        return self.num_asked - piece.age_base


@dataclass(eq=False, slots=True)
class Segments:
    """The allocator of one device. `total` is the device's memory, `limit` what
    set_per_process_memory_fraction leaves of it."""

    total: int
    settings: AllocatorSettings = field(default_factory=AllocatorSettings)
    stats: Stats = field(default_factory=Stats)
    limit: int | None = None
    _small: _Pool = field(default_factory=lambda: _Pool(is_small=True))
    _large: _Pool = field(default_factory=lambda: _Pool(is_small=False))
    _num_segments: int = 0

    def allocate(self, nbytes: int, stream: int = 0) -> Piece:
        """Raises OutOfMemory."""
        size = self.settings.rounded(nbytes)
        pool = self._small if size <= SMALL else self._large
        if self.settings.backend != "native":
            return self._from_one_pool(pool, size, nbytes)
        piece = self._cached(pool, stream, size)
        if piece is None:
            if self._collects:
                self._collect()
            piece = (
                self._new(pool, stream, size)
                or (self._give_back_some(pool, stream, size) and self._new(pool, stream, size))
                or self._after_giving_back_all(pool, stream, size)
            )
        if not piece:
            raise OutOfMemory
        return self._taken(piece, size, nbytes)

    def free(self, piece: Piece) -> None:
        """free_block"""
        self._count("active", -piece.size)
        self._count("requested", -piece.requested)
        piece.is_used = False
        if self.settings.backend != "native":
            return
        for other in (piece.before, piece.after):
            if (merged := self._merge(piece, other)) and not piece.expandable:
                self._count("inactive_split", -merged)
        piece.pool.add(piece)
        if piece.is_split and not piece.expandable:
            self._count("inactive_split", piece.size)

    def empty_cache(self) -> None:
        """release_cached_blocks: segments that are free as a whole."""
        if self.settings.backend != "native":
            self._count("reserved", self.stats["active"] - self.stats["reserved"])
        for pool in (self._large, self._small):
            for piece in [*pool.free]:
                if piece.expandable:
                    self._unmap(piece)
                elif not piece.is_split:
                    self._release(piece)

    def reset_peaks(self) -> None:
        for name in ("reserved", "active", "inactive_split", "requested"):
            self.stats[f"peak_{name}"] = self.stats[name]

    def free_blocks(self) -> Iterator[tuple[int, int]]:
        """(address, bytes) of what is cached, for tests."""
        yield from ((one.address, one.size) for p in (self._small, self._large) for one in p.free)

    # ---- from the cache ---------------------------------------------------------------------

    def _cached(self, pool: _Pool, stream: int, size: int) -> Piece | None:
        """get_free_block"""
        pool.num_asked += self._collects
        place = pool.first(stream, size)
        if place == len(pool.free) or pool.free[place].stream != stream:
            return None
        if self.settings.expandable_segments:
            place = _least_room(pool.free, place)
        found, most = pool.free[place], self.settings.max_split_size
        if size < most <= found.size or (size >= most and found.size >= size + LARGE_SEGMENT):
            return None
        return pool.free.pop(place)

    def _taken(self, piece: Piece, size: int, requested: int) -> Piece:
        """alloc_found_block"""
        was_split, rest = piece.is_split, piece.size - size
        splits = (
            rest >= MIN_BLOCK
            if piece.pool.is_small or self.settings.expandable_segments
            else size < self.settings.max_split_size and rest > SMALL
        )
        if splits:
            after = Piece(piece.pool, piece.stream, rest, piece.address + size, piece.expandable)
            _link(after, piece.after)
            _link(piece, after)
            piece.size = size
            piece.pool.add(after)
        if not piece.expandable:
            if was_split:
                self._count("inactive_split", -piece.size)
            elif splits:
                self._count("inactive_split", rest)
        piece.is_used, piece.requested = True, requested
        self._count("active", piece.size)
        self._count("requested", requested)
        return piece

    def _merge(self, piece: Piece, other: Piece | None) -> int:
        """try_merge_blocks: the bytes that `piece` has gained."""
        if other is None or other.is_used or other.is_mapped != piece.is_mapped:
            return 0
        if other is piece.before:
            piece.address = other.address
            _link(other.before, piece)
        else:
            _link(piece, other.after)
        (piece.pool.free if other.is_mapped else piece.pool.unmapped).remove(other)
        piece.size += other.size
        return other.size

    # ---- from the device ----------------------------------------------------------------------

    def _new(self, pool: _Pool, stream: int, size: int) -> Piece | None:
        """alloc_block"""
        whole = SMALL_SEGMENT if size <= SMALL else LARGE_SEGMENT
        if size >= MIN_LARGE:
            whole = -(-size // ROUND_LARGE) * ROUND_LARGE
        if not self._has(whole, self.limit):
            return None
        if self.settings.expandable_segments:
            return self._expanded(pool, stream, size)
        if not self._has(whole, self.total):
            return None
        self._num_segments += 1
        self.stats["segments"] += 1
        self.stats["num_device_alloc"] += 1
        self._count("reserved", whole)
        return Piece(pool, stream, whole, self._num_segments * _APART)

    def _has(self, nbytes: int, most: int | None) -> bool:
        return most is None or self.stats["reserved"] + nbytes <= most

    def _after_giving_back_all(self, pool: _Pool, stream: int, size: int) -> Piece | None:
        self.empty_cache()
        self.stats["num_alloc_retries"] += 1
        return self._new(pool, stream, size)

    def _give_back_some(self, pool: _Pool, stream: int, size: int) -> bool:
        """release_available_cached_blocks: whether that may be enough."""
        most = self.settings.max_split_size
        if most == NO_LIMIT:
            return False
        wanted = max(size, most)
        place = pool.first(stream, wanted)
        if place < len(pool.free) and pool.free[place].stream == stream:
            self._release(pool.free[place])
            return True
        released = 0
        for piece in reversed(pool.free[:place]):
            if released >= wanted or piece.size < most or piece.stream != stream:
                break
            released += piece.size
            self._release(piece)
        return released >= wanted

    @property
    def _collects(self) -> bool:
        """Only where the process may not have all memory: nothing else asks the threshold."""
        return self.limit is not None and self.settings.garbage_collection_threshold > 0

    def _collect(self) -> None:
        """garbage_collect_cached_blocks: those that have waited longest, until it is under the
        threshold."""
        most = int(self.settings.garbage_collection_threshold * (self.limit or 0))
        wanted = self.stats["reserved"] - most
        pool, freed = self._large, True
        while wanted > 0 and freed:
            whole = [one for one in pool.free if not one.is_split and not one.expandable]
            mean = sum(map(pool.age, whole)) / len(whole) if whole else 0.0
            old = [one for one in whole if pool.age(one) >= mean]
            wanted -= sum(one.size for one in old)
            freed = bool(old)
            for piece in old:
                self._release(piece)

    def _release(self, piece: Piece) -> None:
        """cudaFree of a whole segment. An expandable one is unmapped."""
        if piece.expandable:
            return self._unmap(piece)
        piece.pool.free.remove(piece)
        self.stats["segments"] -= 1
        self.stats["num_device_free"] += 1
        self._count("reserved", -piece.size)

    # ---- expandable segments ------------------------------------------------------------------

    def _expanded(self, pool: _Pool, stream: int, size: int) -> Piece | None:
        """try_allocate_expandable_block"""
        piece = self._room(pool, stream, size)
        if not piece.is_mapped and not self._map(piece, min(piece.size, size)):
            return None
        while piece.size < size:
            after = piece.after
            assert after is not None
            if not self._map(after, min(size - piece.size, after.size)):
                return None
            piece = after
        pool.free.remove(piece)
        return piece

    def _room(self, pool: _Pool, stream: int, size: int) -> Piece:
        """find_expandable_block: free and unmapped addresses in a row, the first that hold so
        much; else those of a new segment, which may grow to the device's memory and an eighth."""
        for piece in sorted(pool.unmapped, key=lambda one: one.key):
            if piece.stream == stream:
                start = piece.before if _is_free(piece.before) else piece
                assert start is not None
                if _in_a_row(start) >= size:
                    return start
        self._num_segments += 1
        self.stats["segments"] += 1
        unit = _unit(pool)
        whole = -(-(self.total + self.total // 8) // unit) * unit
        made = Piece(pool, stream, whole, self._num_segments * _APART, True, is_mapped=False)
        pool.unmapped.append(made)
        return made

    def _map(self, piece: Piece, nbytes: int) -> bool:
        """map_block: memory behind its first bytes, in whole units."""
        unit, pool = _unit(piece.pool), piece.pool
        nbytes = min(-(-nbytes // unit) * unit, piece.size)
        if not self._has(nbytes, self.total):
            return False
        pool.unmapped.remove(piece)
        if nbytes < piece.size:
            rest = Piece(
                pool, piece.stream, piece.size - nbytes, piece.address + nbytes, True, False
            )
            _link(rest, piece.after)
            _link(piece, rest)
            pool.unmapped.append(rest)
            piece.size = nbytes
        piece.is_mapped = True
        self.stats["num_device_alloc"] += 1
        self._count("reserved", nbytes)
        for other in (piece.before, piece.after):
            self._merge(piece, other)
        pool.add(piece)
        return True

    def _unmap(self, piece: Piece) -> None:
        """unmap_block: the whole units inside a free block."""
        unit, pool = _unit(piece.pool), piece.pool
        start = -(-piece.address // unit) * unit
        stop = (piece.address + piece.size) // unit * unit
        if start >= stop:
            return
        pool.free.remove(piece)
        ends = ((piece.address, start), (stop, piece.address + piece.size))
        made = [Piece(pool, piece.stream, b - a, a, True) if b > a else None for a, b in ends]
        first, last = made
        if first is not None:
            _link(piece.before, first)
            _link(first, piece)
        if last is not None:
            _link(last, piece.after)
            _link(piece, last)
        for one in filter(None, made):
            pool.add(one)
        piece.address, piece.size, piece.is_mapped = start, stop - start, False
        self.stats["num_device_free"] += 1
        self._count("reserved", start - stop)
        for other in (piece.before, piece.after):
            self._merge(piece, other)
        pool.unmapped.append(piece)

    # ---- cudaMallocAsync ----------------------------------------------------------------------

    def _from_one_pool(self, pool: _Pool, size: int, requested: int) -> Piece:
        wanted = self.stats["active"] + size
        more = max(0, wanted - self.stats["reserved"])
        if wanted > min(self.total, self.limit or self.total):
            raise OutOfMemory
        self.stats["num_device_alloc"] += more > 0
        self._count("reserved", more)
        self._count("active", size)
        self._count("requested", requested)
        return Piece(pool, 0, size, 0, is_used=True, requested=requested)

    def _count(self, name: str, nbytes: int) -> None:
        self.stats[name] += nbytes
        self.stats[f"peak_{name}"] = max(self.stats[name], self.stats[f"peak_{name}"])


def _unit(pool: _Pool) -> int:
    """What an expandable segment grows by."""
    return SMALL_SEGMENT if pool.is_small else LARGE_SEGMENT


def _link(left: Piece | None, right: Piece | None) -> None:
    if left is not None:
        left.after = right
    if right is not None:
        right.before = left


def _is_free(piece: Piece | None) -> bool:
    return piece is not None and not piece.is_used


def _in_a_row(piece: Piece | None) -> int:
    """Bytes of free and unmapped addresses from here on."""
    nbytes = 0
    while piece is not None and not piece.is_used:
        nbytes += piece.size
        piece = piece.after
    return nbytes


def _least_room(free: list[Piece], place: int) -> int:
    """Of the blocks that fit the first after which less could still be mapped: for the best fit
    counts what a block can grow to."""

    def grown(piece: Piece) -> int:
        after = piece.after
        return piece.size + (after.size if after is not None and not after.is_mapped else 0)

    while (
        free[place].expandable
        and place + 1 < len(free)
        and free[place + 1].stream == free[place].stream
        and grown(free[place + 1]) < grown(free[place])
    ):
        place += 1
    return place
