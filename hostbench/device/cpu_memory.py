"""How much memory work takes at its peak, by what torch's CPU allocator reports to the profiler."""

from typing import Any

from torch.autograd import profiler

from hostbench.device.base import Step

_profiler: Any = profiler


def peak_of(work: Step) -> int:
    """Bytes beyond what is there before; of what this thread allocates and frees meanwhile.

    By autograd's profiler: torch.profiler imports half of torch as it starts.
    """
    with _profiler.profile(profile_memory=True) as profile:
        work()
    events = [e for e in profile.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda entry: entry.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return peak
