"""How fast one thread copies the host's memory, measured: what copies of the cpu device are held
against. Under half a second."""

import math
import mmap
import os
import time
from collections.abc import Mapping

from hostbench.core.units import MIB
from hostbench.facts.record import Fact, Facts, known, number_of, unknown

VARIABLE = "HOSTBENCH_MEMORY_COPY"
"""Set to 0: the fact is unknown, and a command starts that much earlier."""
NAME = "memory_copy_bytes_per_s"

_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_TOTAL_BYTES = 128 * MIB
"""More than any last-level cache that one thread has to itself."""
_MAX_SHARE = 1 / 16
"""Of the memory that this process may use, for source and target together."""
_SECONDS = 0.1
"""Copying; touching the buffers comes on top."""


def with_memory_copy(facts: Facts, environ: Mapping[str, str] | None = None) -> Facts:
    """The same facts, and in the group `host` what was measured now."""
    if (os.environ if environ is None else environ).get(VARIABLE) == "0":
        fact = unknown(f"not measured, as {VARIABLE}=0 asks")
    else:
        limits = [number_of(facts, "host", name) for name in ("memory_bytes", "memory_limit_bytes")]
        fact = memory_copy(min((limit for limit in limits if limit), default=math.inf))
    return {**facts, "host": {**facts.get("host", {}), NAME: fact}}


def memory_copy(memory_bytes: float = math.inf) -> Fact:
    """Bytes copied per second by one thread, in the fastest round: what the memory can do when
    nobody is in the way."""
    import numpy as np  # for a run alone

    nbytes = int(min(_TOTAL_BYTES, memory_bytes * _MAX_SHARE / 2))
    nbytes -= nbytes % mmap.PAGESIZE
    try:
        source, target = (
            np.frombuffer(mmap.mmap(-1, nbytes, flags=_PRIVATE), np.uint8) for _ in range(2)
        )
    except (OSError, ValueError, OverflowError) as error:
        return unknown(f"no memory to copy: {error}")
    source[:] = target[:] = 1  # a page that was never written is not memory yet
    best_s, end_s = math.inf, time.perf_counter() + _SECONDS
    while math.isinf(best_s) or time.perf_counter() < end_s:
        started_s = time.perf_counter()
        target[:] = source
        best_s = min(best_s, time.perf_counter() - started_s)
    return known(nbytes / best_s)
