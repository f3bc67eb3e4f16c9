"""Where a device's time went: busy, and each second of idleness with its one cause.

A gap ends with a piece of work, and that was launched by a call of the host, which parts the gap.
Until the call returns the device waits for the host, and after that the work is `queued`. Of the
host's part, what the host would have been early by, had it not stood still in the waits before,
goes to `synchronization`. Of the rest, what lies before the call is `launch_bound` where the host
had only just launched something else, and `host_late` where it had not; what lies in the call is
`launch_bound`, or `slow_launch` where the call is a long one.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hostbench.idle.host import Host
from hostbench.idle.intervals import Intervals, spanned, union
from hostbench.idle.trace import COPY, INSIDE, KERNEL, NONE, Trace

HOST_LATE = "host_late"
LAUNCH_BOUND = "launch_bound"
SLOW_LAUNCH = "slow_launch"
SYNCHRONIZATION = "synchronization"
QUEUED = "queued"
OTHER = "other"
COPY_NOT_HIDDEN = "copy_not_hidden"

IDLE_CAUSES = {
    SYNCHRONIZATION: "synchronization: the host had waited for the device",
    HOST_LATE: "host late: the launch came after the queue was empty",
    LAUNCH_BOUND: "launch-bound: launches back to back, and the device waits for each",
    SLOW_LAUNCH: "slow launch: the launch call itself took long",
    QUEUED: "queued: the work was launched, and had not begun",
    OTHER: "other: the trace lacks the launch",
}
"""In words. These add up to the time in which a device did nothing."""

LAUNCH_S = 50e-6
"""What an operation of torch takes the host between two launches, at most: longer, and it did
something else. No launch by itself takes so long either, nor a device that is free to begin."""
QUEUE_DEPTH = 1024
"""Launches that CUDA takes before a launch waits: no host is further ahead of its device."""


@dataclass(slots=True)
class _Owed:
    """Of a wait that is over: the seconds not yet used up."""

    wait: int
    launch: int
    """The index of the first launch behind it."""
    seconds: float


class DeviceTime:
    """One device of one trace, from its first activity to the end of its last."""

    def __init__(self, trace: Trace, host: Host, work: pd.DataFrame) -> None:
        """`work`: the rows of `trace.work` that are the device's."""
        self.work = work
        self.device = int(work["device"].iloc[0])
        self.busy, firsts = union(work["start_s"], work["end_s"])
        self.start_s = float(self.busy.starts[0])
        self.span_s = float(self.busy.ends[-1] - self.busy.starts[0])
        # In which anything ran that neither copies nor talks to other devices.
        self.computing = spanned(work[work["kind"].isin((KERNEL, INSIDE))])
        self.idle_s = dict.fromkeys(IDLE_CAUSES, 0.0)
        # Of what was queued, in pieces of more than LAUNCH_S: something held the work up.
        self.long_queued_s = 0.0
        # The idleness that each wait of the host caused.
        self.wait_idle_s = np.zeros(len(host.waits))
        self._calls = list(zip(trace.calls["start_s"], trace.calls["end_s"], strict=True))
        self._launch_starts = host.launches["start_s"].tolist()
        self._launch_ends = host.launches["end_s"].cummax().tolist()
        self._waits = list(zip(host.waits["start_s"], host.waits["end_s"], strict=True))
        self._num_over = 0
        self._owed = deque[_Owed]()
        self._late: list[tuple[float, float]] = []
        next_work = work.iloc[firsts[1:]]
        ends, starts = self.busy.ends[:-1].tolist(), self.busy.starts[1:].tolist()
        is_copy = next_work["kind"] == COPY
        for gap in zip(ends, starts, next_work["call"], is_copy, strict=True):
            self._add(*gap)

    def late_in_s(self, spans: Intervals) -> float:
        """Of the gaps of which a late host has a part, what these cover before the launch."""
        starts, ends = np.array(self._late).reshape(-1, 2).T
        return float(spans.within(starts, ends).sum())

    @property
    def idle_fraction(self) -> float:
        idle_s = self.span_s - self.busy.length
        return max(0.0, idle_s / self.span_s) if self.span_s else 0.0

    def copies(self) -> pd.DataFrame:
        """With the seconds of each, and those in which nothing was computed."""
        rows = self.work[self.work["kind"] == COPY]
        seconds = rows["end_s"] - rows["start_s"]
        hidden_s = self.computing.within(rows["start_s"].to_numpy(), rows["end_s"].to_numpy())
        return rows.assign(seconds=seconds, not_hidden_s=seconds - hidden_s)

    def not_hidden_s(self, kind: str) -> float:
        """In which work of this kind ran, and nothing was computed."""
        spans = spanned(self.work[self.work["kind"] == kind])
        return spans.length - float(self.computing.within(*spans).sum())

    def _add(self, start_s: float, end_s: float, call: int, is_copy: bool) -> None:
        """A gap, and the call that launched the work that ended it. The call of a copy may last
        until the copy is done: had it begun before the gap, it does not keep the device waiting."""
        if call == NONE:
            self.idle_s[OTHER] += end_s - start_s
            return
        called_s, returned_s = self._calls[call]
        called_s = min(called_s, end_s)
        if is_copy and called_s < start_s:
            returned_s = called_s
        returned_s = min(max(returned_s, start_s), end_s)
        self.idle_s[QUEUED] += end_s - returned_s
        if end_s - returned_s > LAUNCH_S:
            self.long_queued_s += end_s - returned_s
        index = bisect_left(self._launch_starts, called_s)
        self._settle(called_s, index)
        rest_s = self._use_up(returned_s - start_s)
        in_call_s = min(rest_s, returned_s - max(called_s, start_s))
        is_slow = returned_s - called_s > LAUNCH_S
        self.idle_s[SLOW_LAUNCH if is_slow else LAUNCH_BOUND] += in_call_s
        rest_s -= in_call_s
        if rest_s > 0:
            is_late = called_s - self._last_s(index) > LAUNCH_S
            self.idle_s[HOST_LATE if is_late else LAUNCH_BOUND] += rest_s
            if is_late:
                self._late.append((start_s, called_s))

    def _last_s(self, index: int) -> float:
        """When the launch before, or the wait before, was over."""
        launched_s = self._launch_ends[index - 1] if index else -np.inf
        waited_s = self._waits[self._num_over - 1][1] if self._num_over else -np.inf
        return max(launched_s, waited_s)

    def _settle(self, called_s: float, index: int) -> None:
        """Take in the waits that are over, and forget those that lie too far back."""
        while self._num_over < len(self._waits) and self._waits[self._num_over][1] <= called_s:
            start_s, end_s = self._waits[self._num_over]
            launch = bisect_left(self._launch_starts, end_s)
            self._owed.append(_Owed(self._num_over, launch, end_s - start_s))
            self._num_over += 1
        while self._owed and index - self._owed[0].launch > QUEUE_DEPTH:
            self._owed.popleft()

    def _use_up(self, gap_s: float) -> float:
        """Charge the gap to waits, the latest first; what is left of it."""
        while self._owed and gap_s > 0:
            latest = self._owed[-1]
            used_s = min(gap_s, latest.seconds)
            self.idle_s[SYNCHRONIZATION] += used_s
            self.wait_idle_s[latest.wait] += used_s
            latest.seconds -= used_s
            gap_s -= used_s
            if latest.seconds <= 0:
                self._owed.pop()
        return gap_s
