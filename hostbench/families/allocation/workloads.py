"""allocation: creating a tensor on the host and moving it, against creating it on the device; what
new memory costs."""

from collections.abc import Iterator

from hostbench.core.case import AxisValue
from hostbench.core.units import KIB, MIB
from hostbench.device.base import CACHES, OWN_MEMORY, PINNED, Buffer, Device, Fill, Memory, Step
from hostbench.measure.measure import Prepared
from hostbench.measure.workload import DEVICES, workload

SIZES = (MIB, 16 * MIB, 64 * MIB)
MIDDLE = 16 * MIB
FILLS = ("empty", "zeros", "randn", "full", "arange")
_BESIDE_ZEROS = ("full", "arange")
"""Fills that write as zeros do, number by number: one size tells them apart."""


def _one_size(nbytes: int, fill: str, **_: AxisValue) -> bool:
    return nbytes == MIDDLE or fill not in _BESIDE_ZEROS


def _quick(device: str, nbytes: int, fill: str, **_: AxisValue) -> bool:
    """The middle size in both places: random numbers, and on the cpu device a cheap fill."""
    return nbytes == MIDDLE and (fill == "randn" or (device == "cpu" and fill == "zeros"))


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
    only=_one_size,
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


@workload(
    axes={
        "device": DEVICES,
        "nbytes": (MIDDLE,),
        "part": (*FILLS[1:], "copy"),
    },
    quick=lambda part, **_: part in ("randn", "copy"),
    host_only=lambda part, **_: part != "copy",
    baseline={"part": "copy"},
    version="1",
)
def part(device: Device, nbytes: int, part: str) -> Prepared:
    """One part of creating on the CPU and moving, alone. Timed: a fill in place or the copy.

    The memory is there; what new memory costs is `memory`.
    """
    source = device.host_buffer(nbytes, pinned=False)
    if part != "copy":
        numbers = device.typed(source, "float32")
        return Prepared(step=lambda: device.fill(numbers, part))  # type: ignore[arg-type]
    target = device.buffer(nbytes)
    device.fill_pattern(source, seed=1)
    device.fill_pattern(target, seed=2)

    def verify() -> str | None:
        return None if device.same_values(target, source) else "target differs from source"

    def step() -> None:
        device.copy(target, source, blocking=True)

    return Prepared(step=step, verify=verify, copies={"H2D pageable": nbytes})


def _needs(memory: str, cache: str, **_: AxisValue) -> Iterator[str]:
    if memory == "pinned":
        yield PINNED
    if memory == "device":
        yield OWN_MEMORY
    if cache == "cold":
        yield CACHES


def _quick_memory(device: str, nbytes: int, memory: str, cache: str) -> bool:
    """Pageable, for the parts of `create`; what a cold cache costs where there is one."""
    wanted = memory == "pageable" or (device == "cuda" and cache == "cold")
    return nbytes == MIDDLE and wanted


@workload(
    axes={
        "device": DEVICES,
        "nbytes": (64 * KIB, *SIZES),
        "memory": ("pageable", "pinned", "device"),
        "cache": ("cold", "warm"),
    },
    only=lambda memory, cache, **_: memory != "pageable" or cache == "warm",
    needs=_needs,
    quick=_quick_memory,
    host_only=lambda cache, **_: cache == "warm",
    baseline={"memory": "pageable", "cache": "warm"},
    version="1",
)
def memory(device: Device, nbytes: int, memory: Memory, cache: str) -> Prepared:
    """New memory, every page of it there. Timed: allocating, dropping the last one.

    cold: the allocators' caches were emptied before. Nothing in torch caches pageable memory; each
    of its pages is touched once.
    """
    keep: list[Buffer] = [None]

    def step() -> None:
        keep[0] = device.new_memory(nbytes, memory)

    def drop() -> None:
        keep[0] = None
        device.drop_caches()

    return Prepared(step=step, before=drop if cache == "cold" else None)
