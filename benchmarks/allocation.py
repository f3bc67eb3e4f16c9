"""asv's view of the family `allocation`, written by hostbench from its workloads.

The literals stay literal: asv runs these classes from HEAD against the code of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("allocation")


class Create(suite.Suite):
    """A new float32 tensor on the device. Timed: making it, moving it, dropping the last one."""

    workload = "allocation.create"
    version = "1"
    param_names = ("device", "nbytes", "fill", "place")
    params = (
        ("cuda", "cpu"),
        (1048576, 16777216, 67108864),
        ("empty", "zeros", "randn", "full", "arange"),
        ("cpu_then_move", "direct"),
    )


class Part(suite.Suite):
    """One part of creating on the CPU and moving. Timed: a fill in place, the copy, or memory."""

    workload = "allocation.part"
    version = "1"
    param_names = ("device", "nbytes", "part")
    params = (
        ("cuda", "cpu"),
        (16777216,),
        ("zeros", "randn", "full", "arange", "copy", "host_memory"),
    )


class Memory(suite.Suite):
    """New memory, every page of it there. Timed: allocating, dropping the last one."""

    workload = "allocation.memory"
    version = "1"
    param_names = ("device", "nbytes", "memory", "cache")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 67108864),
        ("pageable", "pinned", "device"),
        ("cold", "warm"),
    )


class Mixed(suite.Suite):
    """A thousand allocations and frees of mixed sizes, from empty caches. Timed: all of them."""

    workload = "allocation.mixed"
    version = "1"
    param_names = ("device", "setting", "room")
    params = (
        ("cuda", "cpu"),
        (
            "default",
            "expandable_segments",
            "max_split_size",
            "roundup_power2_divisions",
            "garbage_collection",
            "cudaMallocAsync",
        ),
        ("free", "tight"),
    )


class Batch(suite.Suite):
    """A small training step on a batch: forward, backward, update. Timed: the step."""

    workload = "allocation.batch"
    version = "1"
    param_names = ("device", "num_examples")
    params = (
        ("cuda", "cpu"),
        (1, 4, 16, 64, 256, 1024),
    )
