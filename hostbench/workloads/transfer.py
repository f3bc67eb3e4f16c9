"""transfer: what one copy between host and device costs, and whether the call waits for it."""

from hostbench.case import AxisValue
from hostbench.device.protocol import Buffer, Device
from hostbench.measure import Prepared
from hostbench.units import KIB, MIB
from hostbench.workload import DEVICES, workload

SIZES = (64 * KIB, MIB, 16 * MIB, 256 * MIB)
MEMORY = ("pageable", "pinned")
AXES: dict[str, tuple[AxisValue, ...]] = {
    "device": DEVICES,
    "nbytes": SIZES,
    "memory": MEMORY,
    "blocking": (True, False),
}


def _moves(nbytes: int, **_: AxisValue) -> int:
    return nbytes


def _quick(nbytes: int, **_: AxisValue) -> bool:
    """Every habit at the largest size, where the link and not the launch is the limit."""
    return nbytes == SIZES[-1]


def _expects(device: str, memory: str, blocking: bool, **_: AxisValue) -> dict[str, bool]:
    """A call returns early when it may and can: never from pageable memory on CUDA.

    On the cpu device a stream is a worker thread, so a non-blocking copy needs no pinning.
    """
    return {"asynchronous": not blocking and (memory == "pinned" or device == "cpu")}


def _checked_copy(device: Device, target: Buffer, source: Buffer, blocking: bool) -> Prepared:
    device.fill_pattern(source, seed=1)
    device.fill_pattern(target, seed=2)

    def step() -> None:
        device.copy(target, source, blocking=blocking)

    def verify() -> str | None:
        return None if device.same_bytes(target, source) else "target differs from source"

    return Prepared(step=step, verify=verify)


@workload(axes=AXES, moves=_moves, expects=_expects, quick=_quick, version="1")
def host_to_device(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One host-to-device copy into a preallocated buffer. Timed: the copy, not the allocation."""
    source = device.host_buffer(nbytes, pinned=memory == "pinned")
    return _checked_copy(device, device.buffer(nbytes), source, blocking)


@workload(axes=AXES, moves=_moves, expects=_expects, quick=_quick, version="1")
def device_to_host(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One device-to-host copy into a preallocated buffer. Timed: the copy, not the allocation."""
    target = device.host_buffer(nbytes, pinned=memory == "pinned")
    return _checked_copy(device, target, device.buffer(nbytes), blocking)
