"""loading: torch's DataLoader and the loop that it feeds.

The dataset is map-style. An item is an image of 224 x 224 x 3 bytes (of 96 x 96 x 3 on the cpu
device) and costs 100 us of CPU time on average: of every 8 batches the items of one cost 450 us,
the others' 50 us, as some images are larger. The compute takes 62.5 us of the device for each item.
Around one base point (4 workers, prefetch_factor 2, batches of 16) one thing varies at a time.
"""

from typing import Any

from hostbench import DEVICES, Device, Prepared, suite, workload

ORDER = 35  # of the families in a report


def setup_cache():
    return suite.measure("loading")


NUM_BATCHES = 8  # of a reading and of an epoch, as in hostbench.families.loading.loops
BATCH_SIZE = 16
ITEM_BYTES = {"cuda": 224 * 224 * 3, "cpu": 96 * 96 * 3}
BASE: dict[str, Any] = {
    "num_workers": 4,
    "way": "non_blocking",
    "prefetch_factor": 2,
    "batch_size": BATCH_SIZE,
}


def _differs(device: str, **axes: Any) -> dict[str, Any]:
    """What is not as at the base point."""
    memory = "pinned" if device == "cuda" else "pageable"
    base = {**BASE, "memory": memory, "item_bytes": ITEM_BYTES[device]}
    return {axis: axes[axis] for axis in base if axes[axis] != base[axis]}


def _only(**axes: Any) -> bool:
    """One thing at a time; memory and way are one thing. What is on the device already has nothing
    that loads it."""
    differs = _differs(**axes)
    if "item_bytes" in differs:
        return False
    if axes["way"] == "on_device":
        nothing = {"num_workers": 0, "memory": "pageable", "prefetch_factor": 2}
        return nothing.items() <= axes.items()
    return len(differs) < 2 or differs.keys() == {"memory", "way"}


def _quick(device: str, **axes: Any) -> bool:
    """Of each question that has room; a run says which ones it has left out."""
    wanted: list[dict[str, Any]] = [{}, {"num_workers": 0}]
    if device == "cuda":
        wanted += [{"batch_size": 1}, {"memory": "pageable"}, {"way": "side_stream"}]
    else:  # these say why they are skipped
        wanted += [{"memory": "pinned"}, {"memory": "pinned", "way": "side_stream"}]
    return _differs(device, **axes) in wanted


@workload(
    axes={
        "device": DEVICES,
        "num_workers": (0, 1, 2, 4, 8),
        "memory": ("pageable", "pinned"),
        "way": ("on_device", "blocking", "non_blocking", "side_stream"),
        "prefetch_factor": (1, 2, 4),
        "batch_size": (1, 4, 16, 64),
        "item_bytes": (96 * 96 * 3, 224 * 224 * 3),
    },
    only=_only,
    moves=lambda way, batch_size, item_bytes, **_: (way != "on_device") * batch_size * item_bytes,
    rate_of="the batches that the loop takes",
    depth=NUM_BATCHES,
    needs=lambda memory, **_: ["pinned memory"] if memory == "pinned" else [],
    quick=_quick,
    baseline=BASE,
    version="2",
)
def loop(
    device: Device,
    num_workers: int,
    memory: str,
    way: str,
    prefetch_factor: int,
    batch_size: int,
    item_bytes: int,
) -> Prepared:
    """A batch of a DataLoader, brought to the device and computed on. Timed: an eighth of 8.

    One synchronize ends the loop. The workers run before it begins, and go on after it."""
    from hostbench.device.loading import Loading
    from hostbench.families.loading.loops import ITEM_S, FedLoop

    loading = Loading(
        batch_size=batch_size,
        item_bytes=item_bytes,
        item_s=ITEM_S,
        num_workers=num_workers,
        pinned=memory == "pinned",
        prefetch_factor=prefetch_factor,
    )
    return FedLoop(device, loading, way).prepared()


@workload(
    axes={
        "device": DEVICES,
        "num_workers": (1, 4),
        "persistent": (True, False),
        "item_bytes": (96 * 96 * 3, 224 * 224 * 3),
    },
    only=lambda device, item_bytes, **_: item_bytes == ITEM_BYTES[device],
    moves=lambda item_bytes, **_: NUM_BATCHES * BATCH_SIZE * item_bytes,
    rate_of="the batches that the loop takes",
    quick=lambda device, num_workers, **_: device == "cpu" and num_workers == 1,
    baseline={"persistent": True},
    version="2",
)
def epoch(device: Device, num_workers: int, persistent: bool, item_bytes: int) -> Prepared:
    """An epoch of 8 batches of 16 items, 100 us each. Timed: the epoch and one synchronize.

    Workers that do not persist are started and ended in it."""
    from hostbench.device.loading import Loading
    from hostbench.families.loading.loops import EVEN_ITEM_S, FedLoop

    loading = Loading(
        batch_size=BATCH_SIZE,
        item_bytes=item_bytes,
        item_s=(EVEN_ITEM_S,),
        num_workers=num_workers,
        num_batches=NUM_BATCHES,
        persistent=persistent,
    )
    return FedLoop(device, loading, "blocking").prepared_epoch()
