"""asv's view of the family `collectives`, written by hostbench from its workloads.

The literals stay literal: asv runs these classes from HEAD against the code of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("collectives")


class AllReduce(suite.Suite):
    """One float32 buffer summed over ranks, in place. Timed: the slowest rank's all-reduce."""

    workload = "collectives.all_reduce"
    version = "1"
    param_names = ("device", "num_ranks", "nbytes")
    params = (
        ("cuda", "cpu"),
        (1, 2, 4, 8),
        (4096, 65536, 1048576, 16777216, 67108864, 536870912),
    )


class AllReduceQueued(suite.Suite):
    """20 all-reduces before one synchronize. Timed: a 20th of the slowest rank's time for all."""

    workload = "collectives.all_reduce_queued"
    version = "1"
    param_names = ("device", "num_ranks", "nbytes")
    params = (
        ("cuda", "cpu"),
        (1, 2, 4, 8),
        (4096, 65536, 1048576, 16777216, 67108864, 536870912),
    )
