"""transfer: what one copy between host and device costs, and whether the call waits for it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hostbench import DEVICES, GIB, KIB, MIB, Device, Prepared, suite, workload

ORDER = 10  # of the families in a report


def setup_cache():
    return suite.measure("transfer")


SIZES = tuple(KIB * 4**power for power in range(11))  # 1KiB to 1GiB
FEW_SIZES = (64 * KIB, MIB, 16 * MIB, 64 * MIB)  # below, at and above the knee
QUICK_SIZES = (4 * KIB, 64 * KIB, MIB, 64 * MIB)  # from where the launch is the limit to the link's
UNCACHED = 512 * MIB  # no cache of a GPU holds it, and the launch is below 1 % of its time
MEMORY = ("pageable", "pinned")  # the first is the baseline, as of each axis
BLOCKING = (True, False)
WARM = {"cache": "warm"}


def _needs(memory: str = "pageable", cache: str = "warm", **_: Any) -> Iterator[str]:
    if memory != "pageable":
        yield "pinned memory"
    if memory == "far_node":
        yield "far NUMA node"
    if cache == "cold":
        yield "allocator caches"


def _expects(
    device: str, blocking: bool, memory: str = "pinned", cache: str = "warm", **_: Any
) -> dict[str, bool]:
    """To the device: a call returns early when it may. Nothing is declared of one that need not
    wait from pageable memory, of which CUDA's documentation says that it may wait; nor where the
    caches are cold, for whether CUDA's allocations wait for the device is nothing to build on. On
    the cpu device a stream is a worker thread, so that a non_blocking copy needs no pinning."""
    is_staged = device == "cuda" and memory == "pageable" and not blocking
    return {} if is_staged or cache == "cold" else {"asynchronous": not blocking}


def _workload(*sizes: int, **options: Any) -> Any:
    """`@workload` with what most declare: `moves`, `needs`, `expects`, the device and the sizes."""
    axes = {"device": DEVICES, "nbytes": sizes, **options.pop("axes", {})}
    usual = {"moves": lambda nbytes, **_: nbytes, "needs": _needs, "expects": _expects}
    return workload(**{**usual, "version": "1", **options, "axes": axes})


def _host_memory(device: Device, nbytes: int, memory: str) -> Any:
    if memory in ("registered", "far_node"):
        return device.registered_buffer(nbytes, far=memory == "far_node")
    return device.host_buffer(nbytes, pinned=memory == "pinned")


def _wrong(device: Device, *pairs: tuple[Any, Any]) -> str | None:
    """None where each target holds what its source does."""
    wrong = sum(not device.same_values(target, source) for target, source in pairs)
    return f"target differs from source ({wrong} of {len(pairs)})" if wrong else None


def _copies(
    device: Device, *pairs: tuple[Any, Any], step: Callable[[], None], **about: Any
) -> Prepared:
    """A step that copies into each target of the pairs its source, which are filled differently."""
    for seed, (target, source) in enumerate(pairs, start=1):
        device.fill_pattern(source, seed=seed)
        device.fill_pattern(target, seed=0)
    return Prepared(step=step, verify=lambda: _wrong(device, *pairs), **about)


def _copy(device: Device, target: Any, source: Any, *, blocking: bool, **about: Any) -> Prepared:
    """One copy between two buffers."""
    step = partial(device.copy, target, source, blocking=blocking)
    return _copies(device, (target, source), step=step, **about)


def _one_way(device: str, nbytes: int, memory: str, blocking: bool) -> bool:
    """At 1GiB waiting or not is one number, and on the cpu device nothing changes any more."""
    changes = nbytes < GIB or (device == "cuda" and not blocking)
    if memory == "far_node":
        return nbytes in FEW_SIZES[2:] and not blocking
    return changes and (memory != "registered" or nbytes in FEW_SIZES)


def _plain_copy(link: str, *far: str, **options: Any) -> Any:
    return _workload(
        *SIZES,
        axes={"memory": (*MEMORY, "registered", *far), "blocking": BLOCKING},
        only=_one_way,
        link=link,
        published=lambda memory, **_: link if memory in ("pinned", "registered") else None,
        **options,
    )


@_plain_copy(
    "host_to_device",
    "far_node",
    quick=lambda nbytes, memory, **_: nbytes in QUICK_SIZES and memory in MEMORY,
)
def host_to_device(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One host-to-device copy into a preallocated buffer. Timed: the copy, not the allocation.

    far_node: from memory of a NUMA node that is not the device's.
    """
    source, target = _host_memory(device, nbytes, memory), device.buffer(nbytes)
    observed = "H2D pageable" if memory == "pageable" else "H2D pinned"
    return _copy(device, target, source, blocking=blocking, copies={observed: nbytes})


@_plain_copy(
    "device_to_host",
    expects=lambda device, blocking, memory, **_: {  # to pageable memory CUDA always waits
        "asynchronous": not blocking and (memory != "pageable" or device == "cpu")
    },
    quick=lambda nbytes, memory, **_: nbytes == QUICK_SIZES[-1] and memory in MEMORY,
)
def device_to_host(device: Device, nbytes: int, memory: str, blocking: bool) -> Prepared:
    """One device-to-host copy into a preallocated buffer. Timed: the copy, not the allocation."""
    target, source = _host_memory(device, nbytes, memory), device.buffer(nbytes)
    observed = "D2H pageable" if memory == "pageable" else "D2H pinned"
    return _copy(device, target, source, blocking=blocking, copies={observed: nbytes})


@_workload(
    MIB, 16 * MIB, axes={"wait": ("none", "event")}, needs=["pinned memory"],
    expects=lambda wait, **_: {"asynchronous": wait == "none", "stale": wait == "none"},
    baseline={"wait": "event"}, link="device_to_host",
)  # fmt: skip
def read_back(device: Device, nbytes: int, wait: str) -> Prepared:
    """A non_blocking copy into pinned memory, and what the host then reads. Timed: copy and wait.

    Read at once, memory holds what was there before, and nothing says so; after an event it holds
    what was copied. Shown behind work of 10 ms on the same stream (the finding `stale`).
    """
    target, source = device.host_buffer(nbytes, pinned=True), device.buffer(nbytes)
    expected, done = device.host_buffer(nbytes, pinned=False), device.event(timing=False)
    device.fill_pattern(expected, seed=1)

    def step() -> None:
        device.copy(target, source, blocking=False)
        if wait == "event":
            done.record()
            done.synchronize()

    def findings() -> dict[str, bool]:
        device.fill_pattern(target, seed=0)
        device.delay(0.01)
        step()
        is_stale = not device.same_values(target, expected)
        device.synchronize()
        return {"stale": is_stale}

    copies = {"D2H pinned": nbytes}
    return _copies(device, (target, source), step=step, copies=copies, findings=findings)


@_workload(
    *FEW_SIZES[1:], axes={"memory": MEMORY}, moves=lambda nbytes, **_: 2 * nbytes,
    rate_of="both directions", expects={}, link="both_ways",
    published=lambda memory, **_: "both_ways" if memory == "pinned" else None,
)  # fmt: skip
def both_ways(device: Device, nbytes: int, memory: str) -> Prepared:
    """A copy each way, on a stream each. Timed: both, from the first call on."""
    sources = _host_memory(device, nbytes, memory), device.buffer(nbytes)
    targets = device.buffer(nbytes), _host_memory(device, nbytes, memory)
    streams, pairs = (device.stream(), device.stream()), [*zip(targets, sources, strict=True)]

    def step() -> None:
        for stream, (target, source) in zip(streams, pairs, strict=True):
            with device.on(stream):
                device.copy(target, source, blocking=False)

    copies = {f"H2D {memory}": nbytes, f"D2H {memory}": nbytes}
    return _copies(device, *pairs, step=step, copies=copies, one_stream=False)


@_workload(
    *FEW_SIZES[2:], axes={"num_devices": (1, 2, 4, 8)}, expects={},
    needs=lambda num_devices, **_: [
        "pinned memory", "tensors of torch", *["second device"] * (num_devices - 1)
    ],
    moves=lambda nbytes, num_devices, **_: num_devices * nbytes,
    crosses=lambda nbytes, **_: nbytes, rate_of="all links together", link="host_to_device",
)  # fmt: skip
def host_to_all(device: Device, nbytes: int, num_devices: int) -> Prepared:
    """A copy from pinned memory to each of several GPUs at once. Timed: until all are there.

    GPUs behind one switch or socket share what it carries.
    """
    import torch

    from hostbench.core.errors import Unavailable

    module, here = torch.get_device_module(device.torch_device), device.torch_device
    if (num := module.device_count()) < num_devices:
        raise Unavailable(f"needs {num_devices} GPUs, this machine has {num}")
    others = [torch.device(here.type, index) for index in range(num) if index != here.index]
    targets = [device.buffer(nbytes)]
    targets += [torch.zeros(nbytes, dtype=torch.uint8, device=o) for o in others[: num_devices - 1]]
    pairs = [(target, device.host_buffer(nbytes, pinned=True)) for target in targets]

    def step() -> None:
        for target, source in pairs:
            target.copy_(source, non_blocking=True)
        for target, _ in pairs[1:]:  # the timer waits for the device itself
            module.synchronize(target.device)

    return _copies(device, *pairs, step=step, one_stream=False)


def _anew(
    device: Device, source: Any, make: Any, cache: str, target: Any = None, **more: Any
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
        return _wrong(device, (keep[0] if target is None else target, source))

    before = drop if cache == "cold" else None
    return Prepared(step=step, verify=verify, before=before, **more)


ANEW = {"cache": ("cold", "warm"), "blocking": BLOCKING}


@_workload(
    *FEW_SIZES, axes=ANEW, needs=lambda cache, **_: [*_needs(cache=cache), "pinned memory"],
    baseline=WARM, link="host_to_device",
)  # fmt: skip
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


@_workload(
    *FEW_SIZES, axes={"memory": MEMORY, **ANEW}, baseline=WARM, link="host_to_device", version="2"
)
def to_device(device: Device, nbytes: int, memory: str, cache: str, blocking: bool) -> Prepared:
    """`tensor.to(device)`. Timed: allocating on the device, the copy, dropping the last one.

    cold: the device's allocator has no cached block.
    """
    source = _host_memory(device, nbytes, memory)
    make = partial(device.move, source, blocking=blocking)
    return _anew(device, source, make, cache=cache, copies={f"H2D {memory}": nbytes})


@_workload(
    *FEW_SIZES, axes=ANEW, only=lambda cache, blocking, **_: cache == "warm" or not blocking,
    baseline=WARM, link="device_to_host", version="2",
)  # fmt: skip
def to_host(device: Device, nbytes: int, cache: str, blocking: bool) -> Prepared:
    """`tensor.to("cpu")`. Timed: allocating on the host, the copy, dropping the last one.

    A blocking one allocates pageable memory, which nothing caches; non_blocking pinned memory.
    """
    source = device.buffer(nbytes)
    return _anew(device, source, device.fetcher(source, blocking=blocking), cache=cache)


MANY = (1000 * 4 * KIB, 1000 * 64 * KIB)


@_workload(
    *MANY,
    axes={"num_tensors": (1, 1000), "memory": MEMORY, "blocking": BLOCKING},
    expects={},  # a thousand calls may fill CUDA's queue, and then wait for it
    link="host_to_device",
)
def many_tensors(
    device: Device, nbytes: int, num_tensors: int, memory: str, blocking: bool
) -> Prepared:
    """The same bytes host to device as one tensor or as many. Timed: all copies, into place."""
    each = nbytes // num_tensors
    pairs = [(device.buffer(each), _host_memory(device, each, memory)) for _ in range(num_tensors)]

    def step() -> None:
        for target, source in pairs:
            device.copy(target, source, blocking=blocking)

    return _copies(device, *pairs, step=step, copies={f"H2D {memory}": nbytes})


@_workload(
    *MANY,
    axes={"num_tensors": (1000,), "memory": MEMORY, "way": ("copy", "foreach", "staging")},
    only=lambda memory, way, **_: way != "staging" or memory == "pageable",
    expects={},
    needs=["memory of its own", "tensors of torch", "pinned memory"],
    link="host_to_device",
)
def many_at_once(device: Device, nbytes: int, num_tensors: int, memory: str, way: str) -> Prepared:
    """A thousand tensors to the device, non_blocking. Timed: all of them, into place.

    One `copy_` each; `torch._foreach_copy_`; or gathered by `torch.cat` in one pinned buffer, whose
    one copy lands where the targets are views.
    """
    import torch

    each = nbytes // num_tensors
    flat = device.buffer(num_tensors * each)
    targets = [*flat.split(each)]
    sources = [_host_memory(device, each, memory) for _ in targets]
    staging = device.host_buffer(len(flat), pinned=True) if way == "staging" else None

    def copy() -> None:
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source, non_blocking=True)

    def foreach() -> None:
        torch._foreach_copy_(targets, sources, non_blocking=True)

    def stage() -> None:
        torch.cat(sources, out=staging)
        flat.copy_(staging, non_blocking=True)

    step = {"copy": copy, "foreach": foreach, "staging": stage}[way]
    copies = {f"H2D {'pinned' if way == 'staging' else memory}": nbytes}
    return _copies(device, *zip(targets, sources, strict=True), step=step, copies=copies)


@_workload(
    *FEW_SIZES, UNCACHED,
    only=lambda device, nbytes: device == "cuda" or nbytes < UNCACHED,
    expects={"asynchronous": True}, needs=["memory of its own"],
    link="device_memory", crosses=lambda nbytes, **_: 2 * nbytes,
)  # fmt: skip
def on_device(device: Device, nbytes: int) -> Prepared:
    """One copy inside the device's memory, which is read and written. Timed: the copy."""
    source, target = device.buffer(nbytes), device.buffer(nbytes)
    return _copy(device, target, source, blocking=False, copies={"D2D": nbytes})


QUEUED = 16  # copies, as nvbandwidth has them


@_workload(
    *FEW_SIZES, UNCACHED, axes={"route": ("peer", "staged", "through_host")}, expects={},
    only=lambda device, nbytes, **_: device == "cuda" or nbytes < UNCACHED,
    depth=lambda nbytes, **_: QUEUED if nbytes == UNCACHED else 1,
    needs=["second device"], baseline={"route": "through_host"},
    link=lambda route, **_: "through_host" if route == "through_host" else "peer",
    published=lambda route, **_: "between_devices" if route == "peer" else None,
)  # fmt: skip
def between_devices(device: Device, nbytes: int, route: Any) -> Prepared:
    """One copy to a second device, by torch or through pinned host memory. Timed: the copy.

    peer: the devices reach each other. staged: they do not, and the driver brings it. Through the
    host it is two blocking copies; the bytes are counted once. Of 512MiB a sixteenth of 16 copies.
    """
    source, target = device.buffer(nbytes), device.second_buffer(nbytes, route)
    expected = device.second_buffer(nbytes, route)  # as `source`, which would come the same way
    device.fill_pattern(source, seed=1)
    if route != "through_host":  # nothing is known of how a driver stages
        step = partial(device.copy, target, source, blocking=True)
        copies = {"P2P": nbytes} if route == "peer" else None
        return _copies(device, (target, expected), step=step, copies=copies)
    between = device.host_buffer(nbytes, pinned=True)

    def through_host() -> None:
        device.copy(between, source, blocking=True)
        device.copy(target, between, blocking=True)

    pair, copies = (target, expected), {"D2H pinned": nbytes, "H2D pinned": nbytes}
    return _copies(device, pair, step=through_host, copies=copies, to_second_device=True)


def _conversion(**options: Any) -> Any:
    return _workload(
        *FEW_SIZES[1:3],
        axes={"direction": ("h2d", "d2h"), "memory": MEMORY, "blocking": BLOCKING}, expects={},
        needs=lambda **axes: [*_needs(**axes), "tensors of torch"],
        link=lambda direction, **_: "host_to_device" if direction == "h2d" else "device_to_host",
        **options,
    )  # fmt: skip


def _ends(device: Device, nbytes: int, direction: str, memory: str, dtype: str) -> tuple[Any, Any]:
    """(target of so many bytes, as `dtype`; source of twice as many, as float32)."""
    import torch

    if direction == "h2d":
        target, source = device.buffer(nbytes), _host_memory(device, 2 * nbytes, memory)
    else:
        target, source = _host_memory(device, nbytes, memory), device.buffer(2 * nbytes)
    return target.view(getattr(torch, dtype)), source.view(torch.float32)


@_conversion()
def strided(device: Device, nbytes: int, direction: str, memory: str, blocking: bool) -> Prepared:
    """Every second float32 of a buffer, copied dense. Timed: gathering and copying.

    torch gathers on the side of the source, on the host into pageable memory.
    """
    target, source = _ends(device, nbytes, direction, memory, "float32")
    return _copy(device, target, source[::2], blocking=blocking)


CAST = _conversion(
    # the link carries half of the bytes where the cast comes before it (Copy.cu)
    crosses=lambda nbytes, direction, blocking, **_: (
        nbytes / 2 if blocking == (direction == "h2d") else nbytes
    )
)


@CAST
def cast(device: Device, nbytes: int, direction: str, memory: str, blocking: bool) -> Prepared:
    """float32 to float16 on the way. Timed: casting and copying.

    nbytes are those of the float32 side. torch casts on the host when the copy blocks, on the
    device when it does not.
    """
    target, source = _ends(device, nbytes // 2, direction, memory, "float16")
    return _copy(device, target, source, blocking=blocking)


@CAST
def cast_bfloat16(
    device: Device, nbytes: int, direction: str, memory: str, blocking: bool
) -> Prepared:
    """float32 to bfloat16 on the way. Timed: as `cast`."""
    target, source = _ends(device, nbytes // 2, direction, memory, "bfloat16")
    return _copy(device, target, source, blocking=blocking)
