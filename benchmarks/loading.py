"""asv's view of the family `loading`, written by hostbench from its workloads.

The literals stay literal: asv runs these classes from HEAD against the code of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("loading")


class Loop(suite.Suite):
    """A batch of a DataLoader, brought to the device and computed on. Timed: an eighth of 8."""

    workload = "loading.loop"
    version = "1"
    param_names = (
        "device",
        "num_workers",
        "memory",
        "way",
        "prefetch_factor",
        "batch_size",
        "item_bytes",
    )
    params = (
        ("cuda", "cpu"),
        (0, 1, 2, 4, 8),
        ("pageable", "pinned"),
        ("on_device", "blocking", "non_blocking", "side_stream"),
        (1, 2, 4),
        (1, 4, 16, 64),
        (27648, 150528),
    )


class Epoch(suite.Suite):
    """An epoch of 8 batches of 16 items, 100 us each. Timed: the epoch and one synchronize."""

    workload = "loading.epoch"
    version = "1"
    param_names = ("device", "num_workers", "persistent", "item_bytes")
    params = (
        ("cuda", "cpu"),
        (1, 4),
        (True, False),
        (27648, 150528),
    )
