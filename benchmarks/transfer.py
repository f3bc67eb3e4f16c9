"""asv's view of the family `transfer`, written by `hostbench sync-benchmarks`.

The literals stay literal: asv runs these classes from HEAD against the hostbench of each commit.
"""

from hostbench import suite


def setup_cache():
    return suite.measure("transfer")


class HostToDevice(suite.Suite):
    """One host-to-device copy into a preallocated buffer. Timed: the copy, not the allocation."""

    workload = "transfer.host_to_device"
    version = "1"
    param_names = ("device", "nbytes", "memory", "blocking")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 268435456),
        ("pageable", "pinned"),
        (True, False),
    )


class DeviceToHost(suite.Suite):
    """One device-to-host copy into a preallocated buffer. Timed: the copy, not the allocation."""

    workload = "transfer.device_to_host"
    version = "1"
    param_names = ("device", "nbytes", "memory", "blocking")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 268435456),
        ("pageable", "pinned"),
        (True, False),
    )
