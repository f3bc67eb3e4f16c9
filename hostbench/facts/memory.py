"""How fast the host copies memory, measured: what copies of the cpu device are held against.

numpy lets go of the GIL while it copies, so threads copy at once. Under half a second.
"""

import mmap
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

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
    import numpy as np  # for a run alone

    nbytes = max(_TOTAL_BYTES, _EACH_BYTES * num_cores)
    if memory_bytes:
        nbytes = min(nbytes, int(memory_bytes * _MAX_SHARE / 2))
    nbytes -= nbytes % mmap.PAGESIZE
    try:
        source, target = (
            np.frombuffer(mmap.mmap(-1, nbytes, flags=_PRIVATE), np.uint8) for _ in range(2)
        )
    except (OSError, ValueError, OverflowError) as error:
        return dict.fromkeys(NAMES, unknown(f"no memory to copy: {error}"))
    try:
        for area in (source, target):  # a page that was never written is not memory yet
            _seconds(num_cores, nbytes, partial(_fill, area))
        single = _best_bytes_per_s(source, target, 1)
        together = single if num_cores == 1 else _best_bytes_per_s(source, target, num_cores)
    except RuntimeError as error:  # no further thread can be started
        return dict.fromkeys(NAMES, unknown(f"cannot be measured: {error}"))
    return {NAMES[0]: known(single), NAMES[1]: known(max(single, together))}


def _fill(area: Any, part: slice) -> None:
    area[part] = 1


def _best_bytes_per_s(source: Any, target: Any, num_threads: int) -> float:
    """The fastest round: what the memory can do when nobody is in the way."""
    nbytes = source.size

    def copy(part: slice) -> None:
        target[part] = source[part]

    best_s = _seconds(num_threads, nbytes, copy)
    end_s = time.perf_counter() + _SECONDS
    while time.perf_counter() < end_s:
        best_s = min(best_s, _seconds(num_threads, nbytes, copy))
    return float(nbytes // num_threads * num_threads / best_s)


def _seconds(num_threads: int, nbytes: int, do: Callable[[slice], None]) -> float:
    """`do` on equal parts of the bytes, one thread each; from the first one's start to the last
    one's end."""
    size = nbytes // num_threads
    gate = threading.Barrier(num_threads)
    spans: list[tuple[float, float]] = []

    def work(place: int) -> None:
        with suppress(threading.BrokenBarrierError):
            gate.wait()
            started_s = time.perf_counter()
            do(slice(place * size, (place + 1) * size))
            spans.append((started_s, time.perf_counter()))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(1, num_threads)]
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
