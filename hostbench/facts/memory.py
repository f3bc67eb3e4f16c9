"""How fast the host copies memory, measured: what copies of the cpu device are held against.

numpy lets go of the GIL while it copies, so threads copy at once. Under half a second.
"""

import math
import mmap
import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
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
        with ThreadPoolExecutor(num_cores) as pool:
            source[:] = target[:] = 1  # a page that was never written is not memory yet
            single = _best_bytes_per_s(pool, source, target, 1)
            together = _best_bytes_per_s(pool, source, target, num_cores)
    except (OSError, ValueError, OverflowError) as error:
        return dict.fromkeys(NAMES, unknown(f"no memory to copy: {error}"))
    except RuntimeError as error:  # no further thread can be started
        return dict.fromkeys(NAMES, unknown(f"cannot be measured: {error}"))
    return {NAMES[0]: known(single), NAMES[1]: known(max(single, together))}


def _best_bytes_per_s(pool: ThreadPoolExecutor, source: Any, target: Any, num: int) -> float:
    """By so many threads at once, in the fastest round: what the memory can do when nobody is in
    the way. A round is from the first one's start to the last one's end."""
    size = len(source) // num
    gate = threading.Barrier(num)

    def copy(part: slice) -> tuple[float, float]:
        gate.wait()
        started_s = time.perf_counter()
        target[part] = source[part]
        return started_s, time.perf_counter()

    parts = [slice(at * size, (at + 1) * size) for at in range(num)]
    best_s, end_s = math.inf, time.perf_counter() + _SECONDS
    while math.isinf(best_s) or time.perf_counter() < end_s:
        try:
            spans = list(pool.map(copy, parts))
        except RuntimeError:
            gate.abort()  # those that wait for a thread that cannot be started
            raise
        best_s = min(best_s, max(end for _, end in spans) - min(start for start, _ in spans))
    return num * size / best_s
