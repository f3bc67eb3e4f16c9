"""transfer: what one copy between host and device costs, and whether the call waits for it."""

from collections.abc import Callable
from typing import Any

from hostbench import DEVICES, GIB, KIB, MIB, Device, Prepared, suite, workload
from hostbench.core.case import AxisValue
from hostbench.device.base import (
    OWN_MEMORY,
    PINNED,
    SECOND_DEVICE,
    Buffer,
    Where,
    memory_and_cache,
)
from hostbench.families.transfer import expected as expectations
from hostbench.families.transfer.copies import arrived, checked_copy, host_memory, kind, made_anew
from hostbench.limits.links import LinkName

ORDER = 10
"""Where the family stands in a report."""


def setup_cache() -> dict[str, Any]:
    return suite.measure("transfer")


SIZES = tuple(KIB * 4**power for power in range(11))
"""1KiB to 1GiB."""
FEW_SIZES = (64 * KIB, MIB, 16 * MIB, 64 * MIB)
"""For everything but the plain copies: below, at and above the knee."""
UNCACHED = 512 * MIB
"""Inside a GPU's memory: no cache holds it, and the launch is below a hundredth of its time."""
QUICK_SIZES = (4 * KIB, 64 * KIB, MIB, 64 * MIB)
"""The curve of the quick profile, from where the launch is the limit to where the link is."""
TOTALS = (1000 * 4 * KIB, 1000 * 64 * KIB)
"""Bytes of a thousand small tensors."""
MEMORY = ("pageable", "pinned")
BLOCKING = (True, False)
SYNC_PAGEABLE = {"memory": "pageable", "blocking": True}
"""What a program does that was written without a thought for the device."""
CACHE = ("cold", "warm")
AXES: dict[str, tuple[AxisValue, ...]] = {
    "device": DEVICES,
    "nbytes": SIZES,
    "memory": (*MEMORY, "registered"),
    "blocking": BLOCKING,
}


def _moves(nbytes: int, **_: AxisValue) -> int:
    return nbytes


def _twice(nbytes: int, **_: AxisValue) -> int:
    return 2 * nbytes


def _plain(device: str, nbytes: int, memory: str, blocking: bool, **_: AxisValue) -> bool:
    """At 1GiB waiting or not is one number, and on the cpu device nothing changes any more;
    registered memory is pinned memory by another way."""
    huge = nbytes < GIB or (device == "cuda" and not blocking)
    return huge and (memory != "registered" or nbytes in FEW_SIZES)


def _locked(memory: str, name: str) -> str | None:
    """Others publish copies from and to page-locked memory."""
    return None if memory == "pageable" else name


def _direction(direction: str, **_: AxisValue) -> LinkName:
    return "host_to_device" if direction == "h2d" else "device_to_host"


def _cast_crosses(nbytes: int, direction: str, blocking: bool, **_: AxisValue) -> float:
    """torch casts on the CPU when the copy blocks, on the GPU when it does not (Copy.cu): the link
    carries half of the bytes where the cast comes before it."""
    return nbytes / 2 if blocking == (direction == "h2d") else nbytes


def _quick(nbytes: int, memory: str, **_: AxisValue) -> bool:
    return nbytes in QUICK_SIZES and memory != "registered"


def _quick_back(nbytes: int, memory: str, **_: AxisValue) -> bool:
    return nbytes == QUICK_SIZES[-1] and memory != "registered"


def _one_way(link: LinkName, quick: Callable[..., bool]) -> Any:
    """What the plain copies of both directions declare."""
    return workload(
        axes=AXES,
        moves=_moves,
        expects=expectations.plain,
        only=_plain,
        quick=quick,
        needs=memory_and_cache,
        baseline=SYNC_PAGEABLE,
        link=link,
        published=lambda memory, **_: _locked(memory, link),
        nvbandwidth={f"{link}_memcpy_ce": {"memory": "pinned", "blocking": False}},
        version="1",
    )


@_one_way("host_to_device", _quick)
def host_to_device(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One host-to-device copy into a preallocated buffer. Timed: the copy, not the allocation."""
    source = host_memory(device, nbytes, memory)
    target = device.buffer(nbytes)
    return checked_copy(
        device, target, source, blocking=blocking, copies={kind("H2D", memory): nbytes}
    )


@_one_way("device_to_host", _quick_back)
def device_to_host(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One device-to-host copy into a preallocated buffer. Timed: the copy, not the allocation."""
    target = host_memory(device, nbytes, memory)
    source = device.buffer(nbytes)
    return checked_copy(
        device, target, source, blocking=blocking, copies={kind("D2H", memory): nbytes}
    )


@workload(
    axes={"device": DEVICES, "nbytes": (MIB, 16 * MIB, 64 * MIB), "memory": MEMORY},
    moves=_twice,
    rate_of="both directions",
    expects=expectations.both_ways,
    needs=memory_and_cache,
    link="both_ways",
    published=lambda memory, **_: _locked(memory, "both_ways"),
    version="1",
)
def both_ways(device: Device, nbytes: int, memory: str) -> Prepared:
    """A copy each way, on a stream each. Timed: both, from the first call on.

    The bytes are those of both.
    """
    sources = host_memory(device, nbytes, memory), device.buffer(nbytes)
    targets = device.buffer(nbytes), host_memory(device, nbytes, memory)
    streams = device.stream(), device.stream()
    for seed, (target, source) in enumerate(zip(targets, sources, strict=True)):
        device.fill_pattern(source, seed=seed)
        device.fill_pattern(target, seed=2)

    def step() -> None:
        for stream, target, source in zip(streams, targets, sources, strict=True):
            with device.on(stream):
                device.copy(target, source, blocking=False)

    def verify() -> str | None:
        wrong = [
            way
            for way, target, source in zip(("H2D", "D2H"), targets, sources, strict=True)
            if not device.same_values(target, source)
        ]
        return f"target differs from source: {', '.join(wrong)}" if wrong else None

    copies = {kind("H2D", memory): nbytes, kind("D2H", memory): nbytes}
    return Prepared(step=step, verify=verify, copies=copies, one_stream=False)


@workload(
    axes={"device": DEVICES, "nbytes": FEW_SIZES, "cache": CACHE, "blocking": BLOCKING},
    moves=_moves,
    expects=expectations.plain,
    needs=lambda cache, **_: (*memory_and_cache(cache=cache), PINNED),
    baseline={"cache": "warm", "blocking": True},
    link="host_to_device",
    version="1",
)
def pin_and_copy(device: Device, nbytes: int, cache: str, blocking: bool) -> Prepared:
    """`pin_memory()` on the fly, then a host-to-device copy into place. Timed: both.

    cold: the pages are locked anew; warm: the pinned allocator's cache has a block.
    """
    source, target = device.host_buffer(nbytes, pinned=False), device.buffer(nbytes)

    def make() -> Buffer:
        staged = device.pin(source)
        device.copy(target, staged, blocking=blocking)
        return staged

    copies = {"H2D pinned": nbytes}
    return made_anew(device, source, make, cache=cache, target=target, copies=copies)


@workload(
    axes={
        "device": DEVICES,
        "nbytes": FEW_SIZES,
        "memory": MEMORY,
        "cache": CACHE,
        "blocking": BLOCKING,
    },
    moves=_moves,
    expects=expectations.plain,
    needs=memory_and_cache,
    baseline={**SYNC_PAGEABLE, "cache": "warm"},
    link="host_to_device",
    version="1",
)
def to_device(device: Device, nbytes: int, memory: str, cache: str, blocking: bool) -> Prepared:
    """`tensor.to(device)`. Timed: allocating on the device, the copy, dropping the last one.

    cold: the device's allocator has no cached block.
    """
    source = host_memory(device, nbytes, memory)
    copies = {kind("H2D", memory): nbytes}

    def make() -> Buffer:
        return device.move(source, blocking=blocking)

    return made_anew(device, source, make, cache=cache, copies=copies)


def _has_cache(cache: str, blocking: bool, **_: AxisValue) -> bool:
    """A blocking `.to("cpu")` allocates pageable memory, which nothing caches."""
    return cache == "warm" or not blocking


@workload(
    axes={"device": DEVICES, "nbytes": FEW_SIZES, "cache": CACHE, "blocking": BLOCKING},
    moves=_moves,
    expects=expectations.to_host,
    only=_has_cache,
    needs=memory_and_cache,
    baseline={"cache": "warm", "blocking": True},
    link="device_to_host",
    version="1",
)
def to_host(device: Device, nbytes: int, cache: str, blocking: bool) -> Prepared:
    """`tensor.to("cpu")`. Timed: allocating on the host, the copy, dropping the last one.

    non_blocking allocates pinned memory, and only that is cached.
    """
    source = device.buffer(nbytes)

    def make() -> Buffer:
        return device.fetch(source, blocking=blocking)

    return made_anew(device, source, make, cache=cache)


@workload(
    axes={
        "device": DEVICES,
        "nbytes": TOTALS,
        "num_tensors": (1, 1000),
        "memory": MEMORY,
        "blocking": BLOCKING,
    },
    moves=_moves,
    expects=expectations.plain,
    needs=memory_and_cache,
    baseline={**SYNC_PAGEABLE, "num_tensors": 1},
    link="host_to_device",
    version="1",
)
def many_tensors(
    device: Device, nbytes: int, num_tensors: int, memory: str, blocking: bool
) -> Prepared:
    """The same bytes host to device as one tensor or as many. Timed: all copies, into place."""
    each = nbytes // num_tensors
    pairs = [(device.buffer(each), host_memory(device, each, memory)) for _ in range(num_tensors)]
    for seed, (target, source) in enumerate(pairs):
        device.fill_pattern(source, seed=seed + 1)
        device.fill_pattern(target, seed=0)

    def step() -> None:
        for target, source in pairs:
            device.copy(target, source, blocking=blocking)

    def verify() -> str | None:
        wrong = sum(not device.same_values(target, source) for target, source in pairs)
        return f"{wrong} of {num_tensors} tensors differ from their source" if wrong else None

    return Prepared(step=step, verify=verify, copies={kind("H2D", memory): nbytes})


@workload(
    axes={"device": DEVICES, "nbytes": (*FEW_SIZES, UNCACHED)},
    moves=_moves,
    only=lambda device, nbytes: device == "cuda" or nbytes < UNCACHED,
    expects=lambda **_: {"asynchronous": True},
    needs=lambda **_: (OWN_MEMORY,),
    link="device_memory",
    crosses=lambda nbytes, **_: 2 * nbytes,
    nvbandwidth={"device_local_copy": {}},
    version="1",
)
def on_device(device: Device, nbytes: int) -> Prepared:
    """One copy inside the device's memory, which is read and written. Timed: the copy."""
    source, target = device.buffer(nbytes), device.target_buffer(nbytes, "here")
    return checked_copy(device, target, source, blocking=False, copies={"D2D": nbytes})


@workload(
    axes={"device": DEVICES, "nbytes": FEW_SIZES, "route": ("peer", "through_host")},
    moves=_moves,
    needs=lambda **_: (SECOND_DEVICE,),
    baseline={"route": "through_host"},
    link=lambda route, **_: route,
    published=lambda route, **_: "between_devices" if route == "peer" else None,
    nvbandwidth={"device_to_device_memcpy_write_ce": {"route": "peer"}},
    version="1",
)
def between_devices(device: Device, nbytes: int, route: Where) -> Prepared:
    """One copy to a second device, directly or through pinned host memory. Timed: the copy.

    Through the host it is two blocking copies; the bytes are counted once.
    """
    source, target = device.buffer(nbytes), device.target_buffer(nbytes, route)
    if route == "peer":
        return checked_copy(device, target, source, blocking=True, copies={"P2P": nbytes})
    between = device.host_buffer(nbytes, pinned=True)
    device.fill_pattern(source, seed=1)

    def step() -> None:
        device.copy(between, source, blocking=True)
        device.copy(target, between, blocking=True)

    copies = {"D2H pinned": nbytes, "H2D pinned": nbytes}
    arrives = arrived(device, target, source)
    return Prepared(step=step, verify=arrives, copies=copies, into_second=True)


CONVERSIONS: dict[str, tuple[AxisValue, ...]] = {
    "device": DEVICES,
    "nbytes": (MIB, 16 * MIB),
    "direction": ("h2d", "d2h"),
    "memory": MEMORY,
    "blocking": BLOCKING,
}


def _ends(device: Device, nbytes: int, direction: str, memory: str) -> tuple[Buffer, Buffer]:
    """(source of twice the bytes, target of all the bytes) for a conversion on the way."""
    if direction == "h2d":
        return host_memory(device, 2 * nbytes, memory), device.buffer(nbytes)
    return device.buffer(2 * nbytes), host_memory(device, nbytes, memory)


@workload(
    axes=CONVERSIONS,
    moves=_moves,
    expects=expectations.strided,
    needs=memory_and_cache,
    baseline=SYNC_PAGEABLE,
    link=_direction,
    version="1",
)
def strided(device: Device, nbytes: int, direction: str, memory: str, blocking: bool) -> Prepared:
    """Every second float32 of a buffer, copied dense. Timed: gathering and copying.

    torch gathers on the side of the source, on the host into pageable memory.
    """
    wide, target = _ends(device, nbytes, direction, memory)
    source = device.every_second(device.typed(wide, "float32"))
    target = device.typed(target, "float32")
    return checked_copy(device, target, source, blocking=blocking)


@workload(
    axes=CONVERSIONS,
    moves=_moves,
    expects=expectations.cast,
    needs=memory_and_cache,
    baseline=SYNC_PAGEABLE,
    link=_direction,
    crosses=_cast_crosses,
    version="1",
)
def cast(device: Device, nbytes: int, direction: str, memory: str, blocking: bool) -> Prepared:
    """float32 to float16 on the way. Timed: casting and copying.

    nbytes are those of the float32 side. torch casts on the host when the copy blocks, on the
    device when it does not.
    """
    wide, target = _ends(device, nbytes // 2, direction, memory)
    source, target = device.typed(wide, "float32"), device.typed(target, "float16")
    return checked_copy(device, target, source, blocking=blocking)
