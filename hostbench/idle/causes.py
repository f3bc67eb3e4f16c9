"""Where a device's time went: busy, and each second of idleness with its one cause.

A gap ends with a piece of work, and that was launched by a call of the host, which parts the gap.
Until the call returns the device waits for the host, and after that the work is `queued`. Of the
host's part, what the host would have been early by, had it not stood still in the waits before,
goes to `synchronization`. Of the rest, what lies before the call is `launch_bound` where the host
had only just launched something else, and `host_late` where it had not; what lies in the call is
`launch_bound`, or `slow_launch` where the call is a long one.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from hostbench.idle.intervals import union
from hostbench.idle.trace import COLLECTIVE, COPY, INSIDE, KERNEL, NONE, Trace
from hostbench.idle.waits import waits_of

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
_ALLOCATION = "Malloc|Free|HostAlloc|HostRegister|MemCreate|MemMap"


class DeviceTime(NamedTuple):
    """One device, from its first activity to the end of its last."""

    device: int
    start_s: float
    end_s: float
    busy_s: float
    copy_s: float
    """In which copies ran, and nothing was computed."""
    collective_s: float
    """In which collectives ran, and nothing was computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTime:
    """What the devices of one trace did, and why they idled."""

    trace: Trace
    devices: Sequence[DeviceTime]
    work: pd.DataFrame
    """As of the trace, with seconds, and not_hidden_s: those in which nothing was computed."""
    idle: pd.DataFrame
    """Pieces of the gaps: cause, seconds; wait, the row of `waits` that is to blame, or NONE; of a
    late host also loading_s and allocating_s, what it did meanwhile."""
    waits: pd.DataFrame
    """The host's, by number: seconds, idle_s that devices idled for it, in_step, and what
    `waits_of` has."""


class IdlePiece(NamedTuple):
    cause: str
    seconds: float
    wait: int = NONE
    start_s: float = 0.0
    end_s: float = 0.0
    """Of a late host: between what it was late."""


def process_time(trace: Trace) -> ProcessTime:
    """Of a trace with work of a device: divides every gap of each."""
    calls, launched = trace.calls, trace.work[trace.work["call"] != NONE]
    kernels = launched[launched["kind"].isin((KERNEL, COLLECTIVE))]
    threads = (
        calls["thread"].iloc[(kernels if len(kernels) else launched)["call"]].unique().tolist()
    )
    launches = calls.iloc[np.unique(launched["call"])]
    launches = launches[launches["thread"].isin(threads)].sort_values("start_s", kind="stable")
    waits = waits_of(trace, launches, threads).reset_index(drop=True)
    devices, work, pieces = list[DeviceTime](), [], list[IdlePiece]()
    for _, rows in trace.work.groupby("device"):
        busy, firsts = union(rows)
        gaps = rows.iloc[firsts[1:]].assign(start_s=busy.ends[:-1], end_s=busy.starts[1:])
        pieces += _Gaps(calls, launches, waits).divide(gaps)
        # In which anything ran that neither copies nor talks to other devices.
        computing, _ = union(rows[rows["kind"].isin((KERNEL, INSIDE))])
        seconds = rows["end_s"] - rows["start_s"]
        hidden_s = computing.within(rows["start_s"], rows["end_s"])
        work.append(rows.assign(seconds=seconds, not_hidden_s=seconds - hidden_s))
        alone_s = (
            alone.length - float(computing.within(*alone).sum())
            for alone in (union(rows[rows["kind"] == kind])[0] for kind in (COPY, COLLECTIVE))
        )
        span = (float(busy.starts[0]), float(busy.ends[-1]), busy.length)
        devices.append(DeviceTime(int(rows["device"].iloc[0]), *span, *alone_s))
    idle = pd.DataFrame(pieces, columns=list(IdlePiece._fields))
    allocating, _ = union(calls[calls["name"].str.contains(_ALLOCATION)])
    idle_s = idle.groupby("wait")["seconds"].sum()
    return ProcessTime(
        trace=trace,
        devices=devices,
        work=pd.concat(work),
        idle=idle.assign(
            loading_s=trace.loads.within(idle["start_s"], idle["end_s"]),
            allocating_s=allocating.within(idle["start_s"], idle["end_s"]),
        ),
        waits=waits.assign(
            seconds=waits["end_s"] - waits["start_s"],
            idle_s=idle_s.reindex(waits.index, fill_value=0.0),
            in_step=trace.steps.index_of(waits["start_s"]) >= 0,
        ),
    )


class _Gaps:
    """The gaps of one device, in the order of time."""

    def __init__(self, calls: pd.DataFrame, launches: pd.DataFrame, waits: pd.DataFrame) -> None:
        self._calls = list(zip(calls["start_s"], calls["end_s"], strict=True))
        self._launch_starts = launches["start_s"].tolist()
        self._launch_ends = launches["end_s"].cummax().tolist()
        self._waits = list(zip(waits["start_s"], waits["end_s"], strict=True))
        self._num_over = 0
        self._owed: list[tuple[int, int, float]] = []
        """Of waits that are over: which, the first launch behind it, seconds not yet used up."""

    def divide(self, gaps: pd.DataFrame) -> Iterator[IdlePiece]:
        is_copy = gaps["kind"] == COPY
        for start_s, end_s, call, copies in zip(
            gaps["start_s"], gaps["end_s"], gaps["call"], is_copy, strict=True
        ):
            if call == NONE:
                yield IdlePiece(OTHER, end_s - start_s)
            else:
                yield from self._pieces(start_s, end_s, self._calls[call], copies)

    def _pieces(
        self, start_s: float, end_s: float, call: tuple[float, float], is_copy: bool
    ) -> Iterator[IdlePiece]:
        """Of one gap. The call of a copy may last until the copy is done: had it begun before the
        gap, it does not keep the device waiting."""
        called_s, returned_s = min(call[0], end_s), call[1]
        if is_copy and called_s < start_s:
            returned_s = called_s
        returned_s = min(max(returned_s, start_s), end_s)
        yield IdlePiece(QUEUED, end_s - returned_s)
        index = bisect_left(self._launch_starts, called_s)
        self._settle(called_s, index)
        rest_s = returned_s - start_s
        while self._owed and rest_s > 0:  # charged to waits, the latest first
            wait, launch, owed_s = self._owed.pop()
            used_s = min(rest_s, owed_s)
            yield IdlePiece(SYNCHRONIZATION, used_s, wait)
            rest_s -= used_s
            if owed_s > used_s:
                self._owed.append((wait, launch, owed_s - used_s))
        in_call_s = min(rest_s, returned_s - max(called_s, start_s))
        if in_call_s > 0:
            is_slow = returned_s - called_s > LAUNCH_S
            yield IdlePiece(SLOW_LAUNCH if is_slow else LAUNCH_BOUND, in_call_s)
        if rest_s <= in_call_s:
            return
        launched_s = self._launch_ends[index - 1] if index else -np.inf
        waited_s = self._waits[self._num_over - 1][1] if self._num_over else -np.inf
        if called_s - max(launched_s, waited_s) > LAUNCH_S:
            yield IdlePiece(HOST_LATE, rest_s - in_call_s, NONE, start_s, called_s)
        else:
            yield IdlePiece(LAUNCH_BOUND, rest_s - in_call_s)

    def _settle(self, called_s: float, index: int) -> None:
        """Take in the waits that are over, and forget those that lie too far back."""
        while self._num_over < len(self._waits) and self._waits[self._num_over][1] <= called_s:
            start_s, end_s = self._waits[self._num_over]
            launch = bisect_left(self._launch_starts, end_s)
            self._owed.append((self._num_over, launch, end_s - start_s))
            self._num_over += 1
        while self._owed and index - self._owed[0][1] > QUEUE_DEPTH:
            del self._owed[0]
