"""Where a device's time went: busy, and each second of idleness with its one cause.

A gap ends with a piece of work, and that was launched by a call of the host, which parts the gap.
Until the call returns the device waits for the host, and after that the work is `queued`. Of the
host's part, what the host would have been early by, had it not stood still in the waits before,
goes to `synchronization`. Of the rest, what lies before the call is `launch_bound` where the host
had only just launched something else, and `host_late` where it had not; what lies in the call is
`launch_bound`, or `slow_launch` where the call is a long one.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hostbench.core.arrays import Floats
from hostbench.idle.intervals import Ints, union
from hostbench.idle.trace import COLLECTIVE, COPY, INSIDE, KERNEL, NONE, Trace
from hostbench.idle.waits import waits_of

HOST_LATE = "host_late"
LAUNCH_BOUND = "launch_bound"
SLOW_LAUNCH = "slow_launch"
SYNCHRONIZATION = "synchronization"
QUEUED = "queued"
OTHER = "other"
COPY_NOT_HIDDEN = "copy_not_hidden"

CAUSES = {
    SYNCHRONIZATION: "synchronization: the host had waited for the device",
    HOST_LATE: "host late: the launch came after the queue was empty",
    LAUNCH_BOUND: "launch-bound: launches back to back, and the device waits for each",
    SLOW_LAUNCH: "slow launch: the launch call itself took long",
    QUEUED: "queued: the work was launched, and had not begun",
    OTHER: "other: the trace lacks the launch",
    COPY_NOT_HIDDEN: "copy not hidden: copies ran, and nothing was computed",
}
"""In words. All but the last add up to the time in which a device did nothing."""

LAUNCH_S = 50e-6
"""What an operation of torch takes the host between two launches, at most: longer, and it did
something else. No launch by itself takes so long either, nor a device that is free to begin."""
QUEUE_DEPTH = 1024
"""Launches that CUDA takes before a launch waits: no host is further ahead of its device."""
_ALLOCATION = "Malloc|Free|HostAlloc|HostRegister|MemCreate|MemMap"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessTime:
    """What the devices of one trace did, and why they idled."""

    trace: Trace
    devices: pd.DataFrame
    """device, rank, file; start_s, of its first activity, and end_s, of its last; busy_s; copy_s
    and collective_s, in which those ran and nothing was computed."""
    work: pd.DataFrame
    """As of the trace, with seconds, and not_hidden_s: those in which nothing was computed."""
    idle: pd.DataFrame
    """Pieces of the gaps: cause, seconds; wait, the row of `waits` that is to blame, or NONE; of a
    late host also loading_s and allocating_s, what it did meanwhile."""
    waits: pd.DataFrame
    """The host's, by number: seconds, idle_s that devices idled for it, in_step, and what
    `waits_of` has."""


def process_time(trace: Trace) -> ProcessTime:
    """Of a trace with work of a device: divides every gap of each."""
    calls, launched = trace.calls, trace.work[trace.work["call"] != NONE]
    kernels = launched[launched["kind"].isin((KERNEL, COLLECTIVE))]
    threads = calls["thread"].iloc[(kernels if len(kernels) else launched)["call"]].unique()
    launches = calls.iloc[np.unique(launched["call"])]
    launches = launches[launches["thread"].isin(threads)].sort_values("start_s", kind="stable")
    waits = waits_of(trace, launches, threads.tolist()).reset_index(drop=True)
    devices, work, pieces = [], [], []
    for device, rows in trace.work.groupby("device"):
        busy, firsts = union(rows)
        gaps = rows.iloc[firsts[1:]].assign(start_s=busy.ends[:-1], end_s=busy.starts[1:])
        pieces.append(_pieces(gaps, calls, launches, waits))
        # In which anything ran that neither copies nor talks to other devices.
        computing, _ = union(rows[rows["kind"].isin((KERNEL, INSIDE))])
        seconds = rows["end_s"] - rows["start_s"]
        hidden_s = computing.within(rows["start_s"], rows["end_s"])
        work.append(rows.assign(seconds=seconds, not_hidden_s=seconds - hidden_s))
        row = {"device": device, "rank": trace.rank, "file": trace.file}
        row |= {"start_s": busy.starts[0], "end_s": busy.ends[-1], "busy_s": busy.length}
        for kind in (COPY, COLLECTIVE):
            alone, _ = union(rows[rows["kind"] == kind])
            row[f"{kind}_s"] = alone.length - computing.within(*alone).sum()
        devices.append(row)
    idle = pd.concat(pieces)
    allocating, _ = union(calls[calls["name"].str.contains(_ALLOCATION)])
    idle_s = idle.groupby("wait")["seconds"].sum()
    return ProcessTime(
        trace=trace,
        devices=pd.DataFrame(devices),
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


def _pieces(
    gaps: pd.DataFrame, calls: pd.DataFrame, launches: pd.DataFrame, waits: pd.DataFrame
) -> pd.DataFrame:
    """Of the gaps of one device, in the order of time: cause, seconds, wait; of a late host also
    start_s and end_s, between which it was late."""
    other, gaps = gaps[gaps["call"] == NONE], gaps[gaps["call"] != NONE]
    start_s, end_s = gaps["start_s"].to_numpy(), gaps["end_s"].to_numpy()
    called_s, returned_s = calls[["start_s", "end_s"]].to_numpy()[gaps["call"]].T
    called_s = np.minimum(called_s, end_s)
    # The call of a copy may last until the copy is done: had it begun before the gap, it does not
    # keep the device waiting.
    is_under_way = (gaps["kind"] == COPY) & (called_s < start_s)
    returned_s = np.where(is_under_way, called_s, returned_s).clip(start_s, end_s)
    launch = launches["start_s"].searchsorted(called_s)
    num_over = np.maximum.accumulate(waits["end_s"].searchsorted(called_s, side="right"))
    rest_s = returned_s - start_s
    charges = _charges(rest_s, launch, num_over, launches, waits)
    np.subtract.at(rest_s, charges["gap"], charges["seconds"])
    in_call_s = np.minimum(rest_s, returned_s - np.maximum(called_s, start_s))
    is_slow = returned_s - called_s > LAUNCH_S
    launched_s = np.append(launches["end_s"].cummax(), -np.inf)[launch - 1]
    waited_s = np.append(waits["end_s"], -np.inf)[num_over - 1]
    is_late = called_s - np.maximum(launched_s, waited_s) > LAUNCH_S
    is_late &= rest_s > in_call_s
    pieces = (
        {"cause": OTHER, "seconds": other["end_s"] - other["start_s"]},
        {"cause": QUEUED, "seconds": end_s - returned_s},
        {"cause": SYNCHRONIZATION, "seconds": charges["seconds"], "wait": charges["wait"]},
        {"cause": np.where(is_slow, SLOW_LAUNCH, LAUNCH_BOUND), "seconds": in_call_s},
        {
            "cause": np.where(is_late, HOST_LATE, LAUNCH_BOUND),
            "seconds": rest_s - in_call_s,
            "start_s": np.where(is_late, start_s, 0.0),
            "end_s": np.where(is_late, called_s, 0.0),
        },
    )
    table = pd.concat(map(pd.DataFrame, pieces), ignore_index=True)
    return table.fillna({"wait": NONE, "start_s": 0.0, "end_s": 0.0}).astype({"wait": int})


def _charges(
    rest_s: Floats, launch: Ints, num_over: Ints, launches: pd.DataFrame, waits: pd.DataFrame
) -> pd.DataFrame:
    """Of each gap what goes to waits before it, the latest first: gap, wait, seconds. A wait takes
    no more blame than it lasted, and none for gaps that lie QUEUE_DEPTH launches behind it."""
    left_s = (waits["end_s"] - waits["start_s"]).tolist()
    launch_behind = launches["start_s"].searchsorted(waits["end_s"]).tolist()
    owing, taken, charges = deque[int](), 0, []
    gaps = zip(rest_s.tolist(), launch.tolist(), num_over.tolist(), strict=True)
    for gap, (uncharged_s, index, over) in enumerate(gaps):
        owing.extend(range(taken, over))
        taken = over
        while owing and index - launch_behind[owing[0]] > QUEUE_DEPTH:
            owing.popleft()
        while owing and uncharged_s > 0:
            wait = owing[-1]
            seconds = min(uncharged_s, left_s[wait])
            charges.append((gap, wait, seconds))
            uncharged_s -= seconds
            left_s[wait] -= seconds
            if not left_s[wait]:
                owing.pop()
    columns = {"gap": int, "wait": int, "seconds": float}
    return pd.DataFrame(charges, columns=[*columns]).astype(columns)
