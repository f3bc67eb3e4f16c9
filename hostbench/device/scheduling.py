"""A short time slice for threads that hand work to each other.

Linux's EEVDF scheduler (6.12 and newer) lets a thread ask for a slice; one with a short slice runs
soon after it wakes, also beside threads that compute. Without it each hand-over on a busy machine
waits for somebody's slice to end, 3 to 4 ms.
"""

import ctypes
import os
import platform
import struct

_SYSCALLS = {"x86_64": 314, "aarch64": 274}
"""sched_setattr, by machine."""
_SCHED_ATTR = struct.Struct("=IIQiIQQQII")
_SLICE_NS = 100_000  # the shortest that the kernel takes


def ask_for_short_slices() -> bool:
    """For the calling thread; whether the kernel agreed. Nothing else about it changes."""
    number = _SYSCALLS.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(
        _SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, _SLICE_NS, 0, 0, 0, 0
    )
    failed: int = ctypes.CDLL(None).syscall(number, 0, ctypes.c_char_p(attributes), 0)
    return failed == 0
