"""allocation: creating a tensor on the host and moving it, or on the device; the cost of memory."""

import random
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload

ORDER = 20  # of the families in a report


def setup_cache():
    return suite.measure("allocation")


SIZES = (MIB, 16 * MIB, 64 * MIB)
MIDDLE = 16 * MIB
QUICK_FILLS = ((MIB, "zeros"), (MIDDLE, "zeros"), (MIDDLE, "randn"))


@workload(
    axes={
        "device": DEVICES,
        "nbytes": SIZES,
        "fill": ("empty", "zeros", "randn", "full", "arange"),
        "place": ("cpu_then_move", "direct"),
    },
    # full and arange write as zeros does: one size tells them apart; pages of the host that nobody
    # has written are all the same one, so that moving them is neither a tensor's cost nor memory's
    only=lambda nbytes, fill, place, **_: (
        (nbytes == MIDDLE or fill not in ("full", "arange"))
        and (fill, place) != ("empty", "cpu_then_move")
    ),
    quick=lambda nbytes, fill, **_: (nbytes, fill) in QUICK_FILLS,
    # uninitialized memory on the device enqueues no work
    host_only=lambda fill, **_: fill == "empty",
    version="3",
)
def create(device: Device, nbytes: int, fill: Any, place: str) -> Callable[[], None]:
    """A new float32 tensor on the device. Timed: making it, moving it, dropping the last one."""
    tensors: list[Any] = [None]
    new = device.creator(fill, nbytes, on_host=place == "cpu_then_move")

    def cpu_then_move() -> None:
        tensors[0] = device.move(new())

    def direct() -> None:
        tensors[0] = new()

    return cpu_then_move if place == "cpu_then_move" else direct


@workload(
    axes={
        "device": DEVICES,
        "nbytes": (MIDDLE,),
        "part": ("zeros", "randn", "full", "arange", "copy", "host_memory"),
    },
    quick=lambda device, part, **_: device == "cuda" and part in ("randn", "copy", "host_memory"),
    host_only=lambda part, **_: part != "copy",
    sampling=0.5,
    baseline={"part": "copy"},
    version="1",
)
def part(device: Device, nbytes: int, part: Any) -> Prepared:
    """One part of creating on the CPU and moving. Timed: a fill in place, the copy, or memory.

    Fills and the copy find their memory. host_memory: what malloc gives, each page touched, dropped
    at once as the tensor is that was moved.
    """
    if part == "host_memory":
        new = device.creator("empty", nbytes, on_host=True)
        return Prepared(step=lambda: device.touch(new()))
    if part != "copy":
        numbers = device.creator("empty", nbytes, on_host=True)()
        return Prepared(step=lambda: device.fill(numbers, part))
    source, target = device.host_buffer(nbytes, pinned=False), device.buffer(nbytes)
    device.fill_pattern(source, seed=1)
    device.fill_pattern(target, seed=2)
    return Prepared(
        step=partial(device.copy, target, source, blocking=True),
        verify=lambda: None if device.same_values(target, source) else "target differs from source",
        copies={"H2D pageable": nbytes},
    )


def _needs(memory: str, cache: str, **_: Any) -> list[str]:
    kinds = {"pinned": ["pinned memory"], "device": ["memory of its own"]}.get(memory, [])
    return kinds + ["allocator caches"] * (cache == "cold")


@workload(
    axes={
        "device": DEVICES,
        "nbytes": (64 * KIB, *SIZES),
        "memory": ("pageable", "pinned", "device"),
        "cache": ("cold", "warm"),
    },
    only=lambda memory, cache, **_: memory != "pageable" or cache == "warm",
    needs=_needs,
    # what a cold cache costs, where there is one; and the device's part of `create`
    quick=lambda device, nbytes, memory, cache: (
        (device, nbytes) == ("cuda", MIDDLE) and (memory == "device" or cache == "cold")
    ),
    host_only=lambda cache, **_: cache == "warm",
    sampling=0.5,
    baseline={"cache": "warm"},
    version="2",
)
def memory(device: Device, nbytes: int, memory: Any, cache: str) -> Prepared:
    """New memory, every page of it there. Timed: allocating, dropping the last one.

    cold: the allocators' caches were emptied before. Pageable memory comes from the system, and
    each of its pages is touched once.
    """
    return _allocations(device, nbytes, memory, cache)


def _allocations(
    device: Device, nbytes: int, memory: Any, cache: str, findings: Any = None
) -> Prepared:
    blocks: list[Any] = [None]
    new = device.allocator(nbytes, memory)

    def step() -> None:
        blocks[0] = new()

    def drop() -> None:
        blocks[0] = None
        device.drop_caches()

    return Prepared(step=step, before=drop if cache == "cold" else None, findings=findings)


SETTINGS = {
    "default": "",
    "expandable_segments": "expandable_segments:True",
    "max_split_size": "max_split_size_mb:32",
    "roundup_power2_divisions": "roundup_power2_divisions:8",
    "garbage_collection": "garbage_collection_threshold:0.6",
    "cudaMallocAsync": "backend:cudaMallocAsync",
}
TIGHT = 1.75
"""Times the most that is asked for at once: with the default settings the cache has to be given
back on the way, and every setting gets through."""
NUM_BATCHES = 40  # of the workload `mixed`
PINNED_SETTINGS = {
    "default": "",
    "host_register": "pinned_use_cuda_host_register:True,pinned_num_register_threads:8",
    "background_threads": "pinned_use_background_threads:True",
    "reserved_segment": "pinned_reserve_segment_size_mb:256",
}


def _conf(device: str, setting: str, **_: Any) -> dict[str, str]:
    """Both names: every torch that is supported reads the older; the newer will stay."""
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF") if device == "cuda" else ()
    return dict.fromkeys(names, {**SETTINGS, **PINNED_SETTINGS}[setting])


def demands() -> list[tuple[int, int]]:
    """(number of a tensor, its bytes where it is allocated, less than 0 where it ends): from
    nothing to nothing, the same in every run, and fragmenting.

    Each batch, of varying length, allocates two tensors in each of 6 layers, one in
    proportion to its length and one to the square of it, and frees them in the opposite order, as a
    backward pass does. Of each a smaller tensor stays, as results or a cache do, and of more than
    24 that stayed one goes. So memory that was freed lies between tensors that are still there.
    """
    rng = random.Random(1)
    changes: list[tuple[int, int]] = []
    staying: list[tuple[int, int]] = []

    def allocate(nbytes: int) -> tuple[int, int]:
        """What ends it."""
        changes.append((len(changes), nbytes))
        return len(changes) - 1, -nbytes

    for _ in range(NUM_BATCHES):
        length = round(2 ** rng.uniform(6.0, 10.0))  # from 64 to 1024
        own = []
        for _ in range(6):
            own += [allocate(length * 64 * KIB), allocate(length * length // 2 * 4)]
        staying.append(allocate(length * 8 * KIB))
        changes += reversed(own)
        if len(staying) > 24:
            changes.append(staying.pop(rng.randrange(len(staying))))
    return changes + staying


def peak_bytes() -> int:
    """The most that is asked for at once."""
    return max(accumulate(nbytes for _, nbytes in demands()))


@workload(
    axes={"device": DEVICES, "setting": tuple(SETTINGS), "room": ("free", "tight")},
    only=lambda setting, room, **_: setting != "garbage_collection" or room == "tight",
    needs=["segments of an allocator", "allocator caches"],
    environment=_conf,
    host_only=True,
    version="3",
)
def mixed(device: Device, setting: str, room: str) -> Prepared:
    """A thousand allocations and frees of mixed sizes, from empty caches. Timed: all of them.

    As batches of varying length make them; tight: the process may have 1.75 times what is asked
    for at once.
    """
    empty = partial(device.creator, "empty", on_host=False)
    wanted = [(number, empty(nbytes) if nbytes > 0 else None) for number, nbytes in demands()]
    held: dict[int, Any] = {}
    device.drop_caches()
    if room == "tight":
        device.limit_memory(int(TIGHT * peak_bytes()))

    def step() -> None:
        for number, new in wanted:
            if new:
                held[number] = new()
            else:
                del held[number]

    def findings() -> dict[str, int]:
        device.drop_caches()
        return device.memory_of(step)

    return Prepared(step=step, before=device.drop_caches, findings=findings)


@workload(
    axes={
        "device": DEVICES,
        "nbytes": (65 * MIB,),  # one more than a power of two
        "setting": tuple(PINNED_SETTINGS),
        "cache": ("cold", "warm"),
    },
    needs=["pinned memory", "allocator caches", "segments of an allocator"],
    environment=_conf,
    host_only=lambda cache, **_: cache == "warm",
    sampling=0.5,
    baseline={"cache": "warm"},
    version="1",
)
def pinned(device: Device, nbytes: int, setting: str, cache: str) -> Prepared:
    """New pinned memory under settings of its allocator. Timed: allocating, dropping the last one.

    Unless told otherwise torch rounds up to a power of two (the finding `pinned_bytes`).
    """
    import torch

    module = torch.get_device_module(device.torch_device)

    def findings() -> dict[str, int]:
        if not hasattr(module, "host_memory_stats"):
            return {}
        device.drop_caches()
        name = "allocated_bytes.current"
        before = module.host_memory_stats()[name]
        block = device.allocator(nbytes, "pinned")()
        after = module.host_memory_stats()[name]
        del block
        return {"pinned_bytes": after - before}

    return _allocations(device, nbytes, "pinned", cache, findings)


@workload(
    axes={"device": DEVICES, "num_examples": (1, 4, 16, 64, 256, 1024)},
    only=lambda device, num_examples: device == "cuda" or num_examples <= 256,
    needs=["training steps"],
    quick=lambda device, num_examples: device == "cpu" and num_examples in (16, 256),
    version="1",
)
def batch(device: Device, num_examples: int) -> Prepared:
    """A small training step on a batch: forward, backward, update. Timed: the step."""
    new_step = partial(device.training_step, num_examples)  # its memory: with all it is built of
    return Prepared(step=new_step(), findings=lambda: device.memory_of(lambda: new_step()()))
