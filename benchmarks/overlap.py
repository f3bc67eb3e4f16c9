"""asv's view of the family `overlap`, written by hostbench from its workloads.

The literals stay literal: asv runs these classes from HEAD against the code of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("overlap")


class Pipeline(suite.Suite):
    """Copy and compute over 8 batches. Timed: the whole loop and one synchronize at its end."""

    workload = "overlap.pipeline"
    version = "3"
    param_names = ("device", "batch_bytes", "memory", "schedule")
    params = (
        ("cuda", "cpu"),
        (524288, 4194304, 33554432),
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


class Ratio(suite.Suite):
    """The pipeline with more or less compute per copy. Timed: as `pipeline`."""

    workload = "overlap.ratio"
    version = "2"
    param_names = ("device", "batch_bytes", "memory", "compute_to_copy", "schedule")
    params = (
        ("cuda", "cpu"),
        (4194304,),
        ("pageable", "pinned"),
        ("1:4", "1:2", "2:1", "4:1"),
        ("copy_only", "compute_only", "serial", "copy_stream"),
    )


class Ordered(suite.Suite):
    """The ways to keep copy and compute in order on two streams. Timed: as `pipeline`."""

    workload = "overlap.ordered"
    version = "2"
    param_names = ("device", "batch_bytes", "memory", "ordering")
    params = (
        ("cuda", "cpu"),
        (33554432,),
        ("pageable", "pinned"),
        ("events", "record_stream", "stream_synchronize", "device_synchronize"),
    )


class RoundTrip(suite.Suite):
    """Copy in, compute, copy the result out, over 8 batches. Timed: as `pipeline`."""

    workload = "overlap.round_trip"
    version = "2"
    param_names = ("device", "batch_bytes", "memory", "schedule")
    params = (
        ("cuda", "cpu"),
        (16777216,),
        ("pageable", "pinned"),
        (
            "copy_in_only",
            "copy_out_only",
            "compute_only",
            "serial",
            "default_stream",
            "three_streams",
        ),
    )
