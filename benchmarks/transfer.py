"""transfer: what one copy between host and device costs, and whether the call waits for it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hostbench import DEVICES, GIB, KIB, MIB, Device, Prepared, suite, workload

ORDER = 10  # of the families in a report


def setup_cache():
    return suite.measure("transfer")


SIZES = tuple(KIB * 4**power for power in range(11))  # 1KiB to 1GiB
FEW_SIZES = (64 * KIB, MIB, 16 * MIB, 64 * MIB)
"""For everything but the plain copies: below, at and above the knee."""
QUICK_SIZES = (4 * KIB, 64 * KIB, MIB, 64 * MIB)
"""The curve of the quick profile, from where the launch is the limit to where the link is."""
UNCACHED = 512 * MIB
"""Inside a GPU's memory: no cache holds it, and the launch is below a hundredth of its time."""
LONG = 16 * MIB
"""From here on a copy is long beside the enqueueing of the next one."""
MEMORY = ("pageable", "pinned")
BLOCKING = (True, False)
CACHE = ("cold", "warm")
SYNC_PAGEABLE = {"memory": "pageable", "blocking": True}
"""What a program does that was written without a thought for the device."""


def _needs(memory: str = "pageable", cache: str = "warm", **_: Any) -> Iterator[str]:
    """Registered memory is pinned by another way."""
    if memory != "pageable":
        yield "pinned memory"
    if cache == "cold":
        yield "allocator caches"


def _expects(
    device: str,
    blocking: bool,
    memory: str = "pinned",
    cache: str = "warm",
    num_tensors: int = 1,
    direction: str = "h2d",
    **_: Any,
) -> dict[str, bool]:
    """A call returns early when it may and can: on CUDA not where it blocks, nor to pageable
    memory. Nothing is declared from pageable memory, of which CUDA's documentation says that it may
    wait; nor where the caches are cold, for whether CUDA's allocations wait for the device is
    nothing to build on; nor of a thousand calls, which may fill CUDA's queue, and then wait for it.

    On the cpu device a stream is a worker thread, so a non-blocking copy needs no pinning.
    """
    is_staged = device == "cuda" and memory == "pageable" and direction == "h2d"
    if (is_staged and not blocking) or cache == "cold" or num_tensors > 1:
        return {}
    return {"asynchronous": not blocking and (memory != "pageable" or device == "cpu")}


def _host_memory(device: Device, nbytes: int, memory: str) -> Any:
    if memory == "registered":
        return device.registered_buffer(nbytes)
    return device.host_buffer(nbytes, pinned=memory == "pinned")


def _wrong(device: Device, target: Any, source: Any) -> str | None:
    return None if device.same_values(target, source) else "target differs from source"


def _copy(device: Device, target: Any, source: Any, *, blocking: bool, **about: Any) -> Prepared:
    """One copy between two buffers that are filled differently."""
    device.fill_pattern(source, seed=1)
    device.fill_pattern(target, seed=2)

    def step() -> None:
        device.copy(target, source, blocking=blocking)

    return Prepared(step=step, verify=lambda: _wrong(device, target, source), **about)


def _one_way(device: str, nbytes: int, memory: str, blocking: bool) -> bool:
    """At 1GiB waiting or not is one number, and on the cpu device nothing changes any more."""
    changes = nbytes < GIB or (device == "cuda" and not blocking)
    return changes and (memory != "registered" or nbytes in FEW_SIZES)


@workload(
    axes={
        "device": DEVICES,
        "nbytes": SIZES,
        "memory": (*MEMORY, "registered"),
        "blocking": BLOCKING,
    },
    only=_one_way,
    moves=lambda nbytes, **_: nbytes,
    expects=_expects,
    needs=_needs,
    quick=lambda nbytes, memory, **_: nbytes in QUICK_SIZES and memory != "registered",
    baseline=SYNC_PAGEABLE,
    link="host_to_device",
    published=lambda memory, **_: "host_to_device" if memory != "pageable" else None,
    version="1",
)
def host_to_device(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One host-to-device copy into a preallocated buffer. Timed: the copy, not the allocation."""
    source, target = _host_memory(device, nbytes, memory), device.buffer(nbytes)
    observed = "H2D pageable" if memory == "pageable" else "H2D pinned"
    return _copy(device, target, source, blocking=blocking, copies={observed: nbytes})


@workload(
    axes={
        "device": DEVICES,
        "nbytes": SIZES,
        "memory": (*MEMORY, "registered"),
        "blocking": BLOCKING,
    },
    only=_one_way,
    moves=lambda nbytes, **_: nbytes,
    expects=partial(_expects, direction="d2h"),
    needs=_needs,
    quick=lambda nbytes, memory, **_: nbytes == QUICK_SIZES[-1] and memory != "registered",
    baseline=SYNC_PAGEABLE,
    link="device_to_host",
    published=lambda memory, **_: "device_to_host" if memory != "pageable" else None,
    version="1",
)
def device_to_host(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One device-to-host copy into a preallocated buffer. Timed: the copy, not the allocation."""
    target, source = _host_memory(device, nbytes, memory), device.buffer(nbytes)
    observed = "D2H pageable" if memory == "pageable" else "D2H pinned"
    return _copy(device, target, source, blocking=blocking, copies={observed: nbytes})


def _at_once(device: str, nbytes: int, memory: str) -> dict[str, bool]:
    """A GPU, or a slice of one, with a single copy engine takes turns."""
    if device == "cpu":
        return {"both_at_once": True} if nbytes >= LONG else {}
    return {"both_at_once": False} if memory == "pageable" else {}


@workload(
    axes={"device": DEVICES, "nbytes": (MIB, 16 * MIB, 64 * MIB), "memory": MEMORY},
    moves=lambda nbytes, **_: 2 * nbytes,
    rate_of="both directions",
    expects=_at_once,
    needs=_needs,
    link="both_ways",
    published=lambda memory, **_: "both_ways" if memory == "pinned" else None,
    version="1",
)
def both_ways(device: Device, nbytes: int, memory: str) -> Prepared:
    """A copy each way, on a stream each. Timed: both, from the first call on.

    The bytes are those of both.
    """
    sources = _host_memory(device, nbytes, memory), device.buffer(nbytes)
    targets = device.buffer(nbytes), _host_memory(device, nbytes, memory)
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

    copies = {f"H2D {memory}": nbytes, f"D2H {memory}": nbytes}
    return Prepared(step=step, verify=verify, copies=copies, one_stream=False)


def _anew(
    device: Device,
    source: Any,
    make: Callable[[], Any],
    *,
    cache: str,
    target: Any = None,
    copies: dict[str, int] | None = None,
) -> Prepared:
    """A step that makes a buffer and drops the one before; `cold` drops the caches before each
    sample. What arrived is looked for in `target`, or else in the buffer made last."""
    device.fill_pattern(source, seed=1)
    keep: list[Any] = [None]

    def step() -> None:
        keep[0] = make()

    def drop() -> None:
        keep[0] = None
        device.drop_caches()

    def verify() -> str | None:
        return _wrong(device, keep[0] if target is None else target, source)

    if cache == "cold":
        drop()  # refused at once where there are no caches
    before = drop if cache == "cold" else None
    return Prepared(step=step, verify=verify, before=before, copies=copies)


@workload(
    axes={"device": DEVICES, "nbytes": FEW_SIZES, "cache": CACHE, "blocking": BLOCKING},
    moves=lambda nbytes, **_: nbytes,
    expects=_expects,
    needs=lambda cache, **_: [*_needs(cache=cache), "pinned memory"],
    baseline={"cache": "warm", "blocking": True},
    link="host_to_device",
    version="1",
)
def pin_and_copy(device: Device, nbytes: int, cache: str, blocking: bool) -> Prepared:
    """`pin_memory()` on the fly, then a host-to-device copy into place. Timed: both.

    cold: the pages are locked anew; warm: the pinned allocator's cache has a block.
    """
    source, target = device.host_buffer(nbytes, pinned=False), device.buffer(nbytes)

    def make() -> Any:
        staged = device.pin(source)
        device.copy(target, staged, blocking=blocking)
        return staged

    copies = {"H2D pinned": nbytes}
    return _anew(device, source, make, cache=cache, target=target, copies=copies)


@workload(
    axes={
        "device": DEVICES,
        "nbytes": FEW_SIZES,
        "memory": MEMORY,
        "cache": CACHE,
        "blocking": BLOCKING,
    },
    moves=lambda nbytes, **_: nbytes,
    expects=_expects,
    needs=_needs,
    baseline={**SYNC_PAGEABLE, "cache": "warm"},
    link="host_to_device",
    version="1",
)
def to_device(device: Device, nbytes: int, memory: str, cache: str, blocking: bool) -> Prepared:
    """`tensor.to(device)`. Timed: allocating on the device, the copy, dropping the last one.

    cold: the device's allocator has no cached block.
    """
    source = _host_memory(device, nbytes, memory)

    def make() -> Any:
        return device.move(source, blocking=blocking)

    return _anew(device, source, make, cache=cache, copies={f"H2D {memory}": nbytes})


def _from_pageable(device: str, blocking: bool, **axes: Any) -> dict[str, bool]:
    """Pinned memory is allocated for a copy that does not block, where there is any."""
    expected = _expects(device=device, blocking=blocking, **axes)
    return {**expected, "pageable": blocking or device == "cpu"}


@workload(
    axes={"device": DEVICES, "nbytes": FEW_SIZES, "cache": CACHE, "blocking": BLOCKING},
    only=lambda cache, blocking, **_: cache == "warm" or not blocking,
    moves=lambda nbytes, **_: nbytes,
    expects=_from_pageable,
    needs=_needs,
    baseline={"cache": "warm", "blocking": True},
    link="device_to_host",
    version="1",
)
def to_host(device: Device, nbytes: int, cache: str, blocking: bool) -> Prepared:
    """`tensor.to("cpu")`. Timed: allocating on the host, the copy, dropping the last one.

    A blocking one allocates pageable memory, which nothing caches; non_blocking pinned memory.
    """
    source = device.buffer(nbytes)
    return _anew(device, source, device.fetcher(source, blocking=blocking), cache=cache)


@workload(
    axes={
        "device": DEVICES,
        "nbytes": (1000 * 4 * KIB, 1000 * 64 * KIB),
        "num_tensors": (1, 1000),
        "memory": MEMORY,
        "blocking": BLOCKING,
    },
    moves=lambda nbytes, **_: nbytes,
    expects=_expects,
    needs=_needs,
    baseline={**SYNC_PAGEABLE, "num_tensors": 1},
    link="host_to_device",
    version="1",
)
def many_tensors(
    device: Device, nbytes: int, num_tensors: int, memory: str, blocking: bool
) -> Prepared:
    """The same bytes host to device as one tensor or as many. Timed: all copies, into place."""
    each = nbytes // num_tensors
    pairs = [(device.buffer(each), _host_memory(device, each, memory)) for _ in range(num_tensors)]
    for seed, (target, source) in enumerate(pairs):
        device.fill_pattern(source, seed=seed + 1)
        device.fill_pattern(target, seed=0)

    def step() -> None:
        for target, source in pairs:
            device.copy(target, source, blocking=blocking)

    def verify() -> str | None:
        wrong = sum(not device.same_values(target, source) for target, source in pairs)
        return f"{wrong} of {num_tensors} tensors differ from their source" if wrong else None

    return Prepared(step=step, verify=verify, copies={f"H2D {memory}": nbytes})


@workload(
    axes={"device": DEVICES, "nbytes": (*FEW_SIZES, UNCACHED)},
    only=lambda device, nbytes: device == "cuda" or nbytes < UNCACHED,
    moves=lambda nbytes, **_: nbytes,
    expects=lambda **_: {"asynchronous": True},
    needs=lambda **_: ["memory of its own"],
    link="device_memory",
    crosses=lambda nbytes, **_: 2 * nbytes,
    version="1",
)
def on_device(device: Device, nbytes: int) -> Prepared:
    """One copy inside the device's memory, which is read and written. Timed: the copy."""
    source, target = device.buffer(nbytes), device.target_buffer(nbytes, "here")
    return _copy(device, target, source, blocking=False, copies={"D2D": nbytes})


QUEUED = 16  # copies, as nvbandwidth has them


@workload(
    axes={
        "device": DEVICES,
        "nbytes": (*FEW_SIZES, UNCACHED),
        "route": ("peer", "staged", "through_host"),
    },
    only=lambda device, nbytes, **_: device == "cuda" or nbytes < UNCACHED,
    moves=lambda nbytes, **_: nbytes,
    depth=lambda nbytes, **_: QUEUED if nbytes == UNCACHED else 1,
    needs=lambda **_: ["second device"],
    baseline={"route": "through_host"},
    link=lambda route, **_: "through_host" if route == "through_host" else "peer",
    published=lambda route, **_: "between_devices" if route == "peer" else None,
    version="1",
)
def between_devices(device: Device, nbytes: int, route: Any) -> Prepared:
    """One copy to a second device, by torch or through pinned host memory. Timed: the copy.

    peer: the devices reach each other. staged: they do not, and the driver brings it. Through the
    host it is two blocking copies; the bytes are counted once. Of 512MiB a sixteenth of 16 copies.
    """
    source, target = device.buffer(nbytes), device.target_buffer(nbytes, route)
    if route != "through_host":  # nothing is known of how a driver stages
        copies = {"P2P": nbytes} if route == "peer" else None
        return _copy(device, target, source, blocking=True, copies=copies)
    between = device.host_buffer(nbytes, pinned=True)
    device.fill_pattern(source, seed=1)

    def step() -> None:
        device.copy(between, source, blocking=True)
        device.copy(target, between, blocking=True)

    return Prepared(
        step=step,
        verify=lambda: _wrong(device, target, source),
        copies={"D2H pinned": nbytes, "H2D pinned": nbytes},
        to_second_device=True,
    )


CONVERSIONS: dict[str, tuple[Any, ...]] = {
    "device": DEVICES,
    "nbytes": (MIB, 16 * MIB),
    "direction": ("h2d", "d2h"),
    "memory": MEMORY,
    "blocking": BLOCKING,
}


def _link(direction: str, **_: Any) -> str:
    return "host_to_device" if direction == "h2d" else "device_to_host"


def _ends(device: Device, nbytes: int, direction: str, memory: str) -> tuple[Any, Any]:
    """(source of twice the bytes, target of all the bytes)."""
    if direction == "h2d":
        return _host_memory(device, 2 * nbytes, memory), device.buffer(nbytes)
    return device.buffer(2 * nbytes), _host_memory(device, nbytes, memory)


def _gathered(direction: str, memory: str, **axes: Any) -> dict[str, bool]:
    """What the host gathers is pageable, whatever its source was."""
    gathered = "pageable" if direction == "h2d" else memory
    return {**_expects(memory=gathered, **axes), "pageable": gathered == "pageable"}


@workload(
    axes=CONVERSIONS,
    moves=lambda nbytes, **_: nbytes,
    expects=_gathered,
    needs=_needs,
    baseline=SYNC_PAGEABLE,
    link=_link,
    version="1",
)
def strided(device: Device, nbytes: int, direction: str, memory: str, blocking: bool) -> Prepared:
    """Every second float32 of a buffer, copied dense. Timed: gathering and copying.

    torch gathers on the side of the source, on the host into pageable memory.
    """
    wide, target = _ends(device, nbytes, direction, memory)
    source = device.every_second(device.typed(wide, "float32"))
    return _copy(device, device.typed(target, "float32"), source, blocking=blocking)


def _cast(blocking: bool, memory: str, **axes: Any) -> dict[str, bool]:
    """A copy that blocks is cast on the host, into or from pageable memory."""
    expected = _expects(blocking=blocking, memory=memory, **axes)
    return {**expected, "pageable": blocking or memory == "pageable"}


def _crosses(nbytes: int, direction: str, blocking: bool, **_: Any) -> float:
    """The link carries half of the bytes where the cast comes before it (Copy.cu)."""
    return nbytes / 2 if blocking == (direction == "h2d") else nbytes


@workload(
    axes=CONVERSIONS,
    moves=lambda nbytes, **_: nbytes,
    expects=_cast,
    needs=_needs,
    baseline=SYNC_PAGEABLE,
    link=_link,
    crosses=_crosses,
    version="1",
)
def cast(device: Device, nbytes: int, direction: str, memory: str, blocking: bool) -> Prepared:
    """float32 to float16 on the way. Timed: casting and copying.

    nbytes are those of the float32 side. torch casts on the host when the copy blocks, on the
    device when it does not.
    """
    wide, target = _ends(device, nbytes // 2, direction, memory)
    source, target = device.typed(wide, "float32"), device.typed(target, "float16")
    return _copy(device, target, source, blocking=blocking)
