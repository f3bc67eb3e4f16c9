"""asv's view of the family `synchronization`, written by hostbench from its workloads.

The literals stay literal: asv runs these classes from HEAD against the code of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("synchronization")


class Loop(suite.Suite):
    """A step that ends with reading a tensor. Timed: a loop of them and one synchronize; a step."""

    workload = "synchronization.loop"
    version = "1"
    param_names = ("device", "step_us", "trap")
    params = (
        ("cuda", "cpu"),
        (10, 100, 1000, 10000),
        (
            "none",
            "item",
            "item_every_10",
            "print",
            "bool",
            "if_greater",
            "cpu",
            "tolist",
            "nonzero",
            "mask",
            "synchronize",
            "shape",
            "graph",
        ),
    )


class Queued(suite.Suite):
    """`.item()` after every so many steps. Timed: as `loop`."""

    workload = "synchronization.queued"
    version = "1"
    param_names = ("device", "step_us", "num_queued")
    params = (
        ("cuda", "cpu"),
        (100,),
        (1, 2, 5, 10, 50),
    )


class Wait(suite.Suite):
    """100 us of compute and a wait for it. Timed: 20 of them; one, with recording its event."""

    workload = "synchronization.wait"
    version = "1"
    param_names = ("device", "way")
    params = (
        ("cuda", "cpu"),
        ("device", "stream", "event", "event_query", "blocking_event"),
    )
