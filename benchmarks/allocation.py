"""asv's view of the family `allocation`, written by `hostbench sync-benchmarks`.

The literals stay literal: asv runs these classes from HEAD against the hostbench of each commit.
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
        ("empty", "zeros", "randn"),
        ("cpu_then_move", "direct"),
    )
