"""asv's view of the family `transfer`, written by hostbench from its workloads.

The literals stay literal: asv runs these classes from HEAD against the code of each commit.
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
        (
            1024,
            4096,
            16384,
            65536,
            262144,
            1048576,
            4194304,
            16777216,
            67108864,
            268435456,
            1073741824,
        ),
        ("pageable", "pinned", "registered"),
        (True, False),
    )


class DeviceToHost(suite.Suite):
    """One device-to-host copy into a preallocated buffer. Timed: the copy, not the allocation."""

    workload = "transfer.device_to_host"
    version = "1"
    param_names = ("device", "nbytes", "memory", "blocking")
    params = (
        ("cuda", "cpu"),
        (
            1024,
            4096,
            16384,
            65536,
            262144,
            1048576,
            4194304,
            16777216,
            67108864,
            268435456,
            1073741824,
        ),
        ("pageable", "pinned", "registered"),
        (True, False),
    )


class BothWays(suite.Suite):
    """A copy each way, on a stream each. Timed: both, from the first call on."""

    workload = "transfer.both_ways"
    version = "1"
    param_names = ("device", "nbytes", "memory")
    params = (
        ("cuda", "cpu"),
        (1048576, 16777216, 67108864),
        ("pageable", "pinned"),
    )


class PinAndCopy(suite.Suite):
    """`pin_memory()` on the fly, then a host-to-device copy into place. Timed: both."""

    workload = "transfer.pin_and_copy"
    version = "1"
    param_names = ("device", "nbytes", "cache", "blocking")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 67108864),
        ("cold", "warm"),
        (True, False),
    )


class ToDevice(suite.Suite):
    """`tensor.to(device)`. Timed: allocating on the device, the copy, dropping the last one."""

    workload = "transfer.to_device"
    version = "1"
    param_names = ("device", "nbytes", "memory", "cache", "blocking")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 67108864),
        ("pageable", "pinned"),
        ("cold", "warm"),
        (True, False),
    )


class ToHost(suite.Suite):
    """`tensor.to("cpu")`. Timed: allocating on the host, the copy, dropping the last one."""

    workload = "transfer.to_host"
    version = "1"
    param_names = ("device", "nbytes", "cache", "blocking")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 67108864),
        ("cold", "warm"),
        (True, False),
    )


class ManyTensors(suite.Suite):
    """The same bytes host to device as one tensor or as many. Timed: all copies, into place."""

    workload = "transfer.many_tensors"
    version = "1"
    param_names = ("device", "nbytes", "num_tensors", "memory", "blocking")
    params = (
        ("cuda", "cpu"),
        (4096000, 65536000),
        (1, 1000),
        ("pageable", "pinned"),
        (True, False),
    )


class OnDevice(suite.Suite):
    """One copy inside the device's memory, which is read and written. Timed: the copy."""

    workload = "transfer.on_device"
    version = "1"
    param_names = ("device", "nbytes")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 67108864, 536870912),
    )


class BetweenDevices(suite.Suite):
    """One copy to a second device, directly or through pinned host memory. Timed: the copy."""

    workload = "transfer.between_devices"
    version = "1"
    param_names = ("device", "nbytes", "route")
    params = (
        ("cuda", "cpu"),
        (65536, 1048576, 16777216, 67108864),
        ("peer", "through_host"),
    )


class Strided(suite.Suite):
    """Every second float32 of a buffer, copied dense. Timed: gathering and copying."""

    workload = "transfer.strided"
    version = "1"
    param_names = ("device", "nbytes", "direction", "memory", "blocking")
    params = (
        ("cuda", "cpu"),
        (1048576, 16777216),
        ("h2d", "d2h"),
        ("pageable", "pinned"),
        (True, False),
    )


class Cast(suite.Suite):
    """float32 to float16 on the way. Timed: casting and copying."""

    workload = "transfer.cast"
    version = "1"
    param_names = ("device", "nbytes", "direction", "memory", "blocking")
    params = (
        ("cuda", "cpu"),
        (1048576, 16777216),
        ("h2d", "d2h"),
        ("pageable", "pinned"),
        (True, False),
    )
