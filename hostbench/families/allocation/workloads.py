"""allocation: creating a tensor on the host and moving it, against creating it on the device."""

from hostbench.core.case import AxisValue
from hostbench.core.units import MIB
from hostbench.device.base import Buffer, Device, Fill, Step
from hostbench.measure.workload import DEVICES, workload

SIZES = (MIB, 16 * MIB, 64 * MIB)
FILLS = ("empty", "zeros", "randn")


def _quick(nbytes: int, **_: AxisValue) -> bool:
    """The middle size: all three fills, both places."""
    return nbytes == 16 * MIB


def _host_only(fill: str, place: str, **_: AxisValue) -> bool:
    """Uninitialized memory on the device enqueues no work."""
    return fill == "empty" and place == "direct"


@workload(
    axes={
        "device": DEVICES,
        "nbytes": SIZES,
        "fill": FILLS,
        "place": ("cpu_then_move", "direct"),
    },
    quick=_quick,
    host_only=_host_only,
    baseline={"place": "cpu_then_move"},
    version="1",
)
def create(device: Device, nbytes: int, fill: Fill, place: str) -> Step:
    """A new float32 tensor on the device. Timed: making it, moving it, dropping the last one."""
    keep: list[Buffer] = [None]

    def cpu_then_move() -> None:
        keep[0] = device.move(device.create(fill, nbytes, on_host=True))

    def direct() -> None:
        keep[0] = device.create(fill, nbytes, on_host=False)

    return {"cpu_then_move": cpu_then_move, "direct": direct}[place]
