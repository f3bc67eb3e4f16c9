"""Building blocks of the family transfer: checked copies, and buffers that are made anew."""

from collections.abc import Callable
from typing import Any

from hostbench.device.base import Buffer, Device
from hostbench.measure.measure import Prepared


def host_memory(device: Device, nbytes: int, memory: str) -> Buffer:
    """Touched host memory: `pageable`, `pinned` or `registered`."""
    if memory == "registered":
        return device.registered_buffer(nbytes)
    return device.host_buffer(nbytes, pinned=memory == "pinned")


def kind(way: str, memory: str) -> str:
    """What `Device.observe` calls a copy from or to that memory: `H2D pinned`."""
    return f"{way} {'pageable' if memory == 'pageable' else 'pinned'}"


def arrived(device: Device, target: Buffer, source: Buffer) -> Callable[[], str | None]:
    """The check of a copy, for `Prepared.verify`."""
    return lambda: None if device.same_values(target, source) else "target differs from source"


def checked_copy(
    device: Device, target: Buffer, source: Buffer, *, blocking: bool, **about: Any
) -> Prepared:
    """One copy between two preallocated buffers that are filled differently."""
    device.fill_pattern(source, seed=1)
    device.fill_pattern(target, seed=2)

    def step() -> None:
        device.copy(target, source, blocking=blocking)

    return Prepared(step=step, verify=arrived(device, target, source), **about)


def made_anew(
    device: Device,
    source: Buffer,
    make: Callable[[], Buffer],
    *,
    cache: str,
    target: Buffer | None = None,
    **about: Any,
) -> Prepared:
    """A step that makes a buffer and drops the one before; `cold` drops the caches before each
    reading. What arrived is looked for in `target`, or else in the buffer made last."""
    device.fill_pattern(source, seed=1)
    keep: list[Buffer] = [None]

    def step() -> None:
        keep[0] = make()

    def drop() -> None:
        keep[0] = None
        device.drop_caches()

    def verify() -> str | None:
        return arrived(device, keep[0] if target is None else target, source)()

    if cache == "cold":
        drop()  # refused at once where there are no caches
    return Prepared(step=step, verify=verify, before=drop if cache == "cold" else None, **about)
