"""asv's view of the family `overlap`, written by `hostbench sync-benchmarks`.

The literals stay literal: asv runs these classes from HEAD against the hostbench of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("overlap")


class Pipeline(suite.Suite):
    """Copy and compute over 8 batches. Timed: the whole loop and one synchronize at its end."""

    workload = "overlap.pipeline"
    version = "1"
    param_names = ("device", "batch_bytes", "memory", "schedule")
    params = (
        ("cuda", "cpu"),
        (4194304, 33554432),
        ("pageable", "pinned"),
        (
            "copy_only",
            "compute_only",
            "serial",
            "default_stream",
            "copy_stream",
            "streams_2",
            "streams_4",
        ),
    )
