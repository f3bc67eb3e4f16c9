"""How fast the host copies memory, measured: what copies of the cpu device are held against.

`ctypes.memmove` lets go of the GIL, so threads copy at once. No torch, under half a second.
"""

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from hostbench.core.units import MIB
from hostbench.facts.record import Facts, Group, known, number_of, unknown

VARIABLE = "HOSTBENCH_MEMORY_COPY"
"""Set to 0: the two facts are unknown, and a command starts that much earlier."""

NAMES = ("memory_copy_bytes_per_s", "memory_copy_all_cores_bytes_per_s")

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_TOTAL_BYTES = 128 * MIB
_EACH_BYTES = 16 * MIB
"""Per thread at least: more than its part of any last-level cache."""
_MAX_SHARE = 1 / 16
"""Of the memory that this process may use, for source and target together."""
_SECONDS = 0.1
"""Copying, for each of the two figures; touching the buffers comes on top."""


def with_memory_copy(facts: Facts, environ: Mapping[str, str] | None = None) -> Facts:
    """The same facts, and in the group `host` what was measured now."""
    environ = os.environ if environ is None else environ
    host = facts.get("host", {})
    if environ.get(VARIABLE) == "0":
        skipped = unknown(f"not measured, as {VARIABLE}=0 asks")
        return {**facts, "host": {**host, **dict.fromkeys(NAMES, skipped)}}
    cores = int(number_of(facts, "host", "num_usable_cores") or 1)
    limits = [number_of(facts, "host", name) for name in ("memory_bytes", "memory_limit_bytes")]
    memory = min((limit for limit in limits if limit), default=None)
    return {**facts, "host": {**host, **memory_copy_facts(cores, memory)}}


def memory_copy_facts(num_cores: int, memory_bytes: float | None = None) -> Group:
    """Bytes copied per second by one thread, and by one thread on each core together."""
    nbytes = max(_TOTAL_BYTES, _EACH_BYTES * num_cores)
    if memory_bytes:
        nbytes = min(nbytes, int(memory_bytes * _MAX_SHARE / 2))
    nbytes -= nbytes % mmap.PAGESIZE
    try:
        areas = [mmap.mmap(-1, nbytes, flags=_PRIVATE) for _ in range(2)]
    except (OSError, ValueError, OverflowError) as error:
        return dict.fromkeys(NAMES, unknown(f"no memory to copy: {error}"))
    try:
        return _measured(areas, num_cores)
    finally:
        for area in areas:
            area.close()


def _measured(areas: list[mmap.mmap], num_cores: int) -> Group:
    copier = _Copier(areas)
    try:
        copier.touch(num_cores)
        one = copier.best_bytes_per_s(1)
        together = one if num_cores == 1 else copier.best_bytes_per_s(num_cores)
    except RuntimeError as error:  # no further thread can be started
        return dict.fromkeys(NAMES, unknown(f"cannot be measured: {error}"))
    finally:
        copier.release()
    return {NAMES[0]: known(one), NAMES[1]: known(max(one, together))}


def _fill(address: int, at: int, size: int) -> None:
    ctypes.memset(address + at, 1, size)


class _Copier:
    """Copies one mapped area to the other in equal parts, one thread each."""

    def __init__(self, areas: list[mmap.mmap]) -> None:
        self._views = [(ctypes.c_char * len(area)).from_buffer(area) for area in areas]
        self._nbytes = len(areas[0])
        self._source, self._target = map(ctypes.addressof, self._views)

    def release(self) -> None:
        """Lets go of the areas, so that they can be closed."""
        self._views.clear()

    def touch(self, num_threads: int) -> None:
        """Write every page: one that was never written is not memory yet."""
        for address in (self._source, self._target):
            self._seconds(num_threads, partial(_fill, address))

    def best_bytes_per_s(self, num_threads: int) -> float:
        """The fastest round: what the memory can do when nobody is in the way."""

        def copy(at: int, size: int) -> None:
            ctypes.memmove(self._target + at, self._source + at, size)

        best_s = self._seconds(num_threads, copy)
        end_s = time.perf_counter() + _SECONDS
        while time.perf_counter() < end_s:
            best_s = min(best_s, self._seconds(num_threads, copy))
        return self._nbytes // num_threads * num_threads / best_s

    def _seconds(self, num_threads: int, do: Callable[[int, int], object]) -> float:
        """`do(offset, size)` on each part; from the first thread's start to the last one's end."""
        size = self._nbytes // num_threads
        gate = threading.Barrier(num_threads)
        spans: list[tuple[float, float]] = []

        def work(part: int) -> None:
            with suppress(threading.BrokenBarrierError):
                gate.wait()
                started_s = time.perf_counter()
                do(part * size, size)
                spans.append((started_s, time.perf_counter()))

        threads = [threading.Thread(target=work, args=(part,)) for part in range(1, num_threads)]
        try:
            for thread in threads:
                thread.start()
        except RuntimeError:
            gate.abort()  # those that wait for the missing one
            raise
        work(0)
        for thread in threads:
            thread.join()
        return max(end for _, end in spans) - min(start for start, _ in spans)
