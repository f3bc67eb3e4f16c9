"""Ranks on the simulated device: exact, in one process, without torch. For pictures of time alone.

Every rank has a device of its own, does the same and comes to each collective at the same moment:
so one of them is run, and stands for all. A collective is enqueued on a stream of its own behind
the current one, which waits for it, as nccl's is; the host does not. It takes the time of a ring:
2 (n - 1) times a latency and an n-th of the buffer at the rate between devices.
"""

from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from hostbench.core.case import Case
from hostbench.core.lanes import Lane
from hostbench.core.records import Measurement
from hostbench.device.activity import COLLECTIVE
from hostbench.device.base import Device
from hostbench.device.traced import CallLog, Traced
from hostbench.measure.measure import Settings, measure
from hostbench.measure.trace import trace
from hostbench.measure.workload import Workload, prepare
from hostbench.ranks.membership import join

if TYPE_CHECKING:
    from hostbench.device.simulated import SimulatedBuffer, SimulatedDevice

_FABRIC = "fabric"
"""The engine of collectives."""


def trace_ranks(
    opened: Device, work: Workload, case: Case, settings: Settings
) -> tuple[Measurement, tuple[Lane, ...]]:
    """A case measured, and one reading of all its ranks lane by lane. `opened` is simulated."""
    num_ranks, log = work.num_ranks(case) or 1, CallLog(opened.now)
    group = SimulatedGroup(cast("SimulatedDevice", opened), num_ranks)
    join(cast(Any, Traced(group, log)))
    device = cast(Device, Traced(opened, log))
    prepared = prepare(work, device, case)
    found, lanes = measure(device, prepared, settings), trace(device, prepared)
    ranks = range(num_ranks)
    return found, tuple(replace(lane, place=f"rank {rank}") for rank in ranks for lane in lanes)


class SimulatedGroup:
    """What `ranks.group.TorchGroup` is to a workload."""

    def __init__(self, device: "SimulatedDevice", num_ranks: int) -> None:
        self.rank, self.num_ranks = 0, num_ranks
        self._device = device
        self._stream = device.stream()

    def fill_share(self, buffer: "SimulatedBuffer") -> None:
        self._device.synchronize()
        now_s = self._device.now()
        buffer.contents.write(now_s, now_s, now_s, ("sum", 0))

    def wrong_sum(self, buffer: "SimulatedBuffer", times: int = 1) -> str | None:
        """A buffer holds how often it was summed."""
        token = buffer.contents.token(self._device.now())
        return None if token == ("sum", times) else f"it holds {token}, not {times} sums"

    def all_reduce(self, buffer: "SimulatedBuffer") -> None:
        device = self._device
        arrived, done = device.event(), device.event()
        arrived.record()
        self._stream.wait(arrived)
        with device.on(self._stream):
            start_s, end_s = device.enqueue(
                _FABRIC, self._seconds(buffer.nbytes), what=COLLECTIVE, nbytes=buffer.nbytes
            )
            done.record()
        token = buffer.contents.token(start_s)
        summed = ("sum", token[1] + 1) if isinstance(token, tuple) else ("torn", start_s)
        buffer.contents.write(device.now(), start_s, end_s, summed)
        device.current.wait(done)

    def barrier(self) -> None:
        self.synchronize()

    def synchronize(self) -> None:
        self._device.synchronize()

    def _seconds(self, nbytes: int) -> float:
        link, num = self._device.link, self.num_ranks
        return 2 * (num - 1) * (link.latency_s + nbytes / num / link.peer_bytes_per_s)
