"""nvbandwidth's names for what we measure too: the one place that knows both. No family.

Only tests whose figure means the same: bytes of one direction over its time, copied by the copy
engine between pinned host memory and a GPU, or between GPUs. Not equivalent are its `_sm` tests (a
kernel copies; torch uses the copy engine) and its bidirectional ones between host and device, which
tell one direction's part while the other runs, where our `both_ways` tells the sum.
"""

from hostbench.core.case import AxisValue

EQUIVALENTS: dict[str, tuple[str, dict[str, AxisValue]]] = {
    "host_to_device_memcpy_ce": (
        "transfer.host_to_device",
        {"memory": "pinned", "blocking": False},
    ),
    "device_to_host_memcpy_ce": (
        "transfer.device_to_host",
        {"memory": "pinned", "blocking": False},
    ),
    "device_local_copy": ("transfer.on_device", {}),
    "device_to_device_memcpy_write_ce": ("transfer.between_devices", {"route": "peer"}),
}
"""nvbandwidth's test -> our workload and the axes that make it the same. torch runs a copy between
GPUs on the source's stream, which is nvbandwidth's `write`."""


def equivalent_of(workload: str) -> str | None:
    """The nvbandwidth test that measures what the workload does, and our axes for it, or None."""
    for test, (name, axes) in EQUIVALENTS.items():
        if name == workload:
            chosen = ",".join(f"{axis}={value}" for axis, value in axes.items())
            return f"{test} [{chosen}]" if chosen else test
    return None
