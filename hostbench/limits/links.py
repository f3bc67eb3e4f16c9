"""What NVLink, C2C and device memory can carry at best, in bytes per second and one direction.

Pure functions of what the facts say. Sources are named at each; `docs/method.md` has the table.
"""

from typing import Literal

LinkName = Literal[
    "host_to_device", "device_to_host", "both_ways", "through_host", "device_memory", "peer"
]
"""One direction between host and device, both at once, out to the host and then into a second
device, the device's memory, a second device directly."""

TRANSFERS_PER_CLOCK = 2
"""Of the memory clock as NVML tells it: HBM is double data rate, and for GDDR NVML tells half the
data rate. It gives 1555 GB/s for A100-40 (1215 MHz, 5120 bits), 1008 for RTX 4090 (10501, 384)."""

_NVLINK_PAYLOAD_MB_PER_S = {25781: 25_000, 26562: 25_000, 53125: 50_000}
"""What the driver tells of one link is its line rate (66b/64b code up to NVLink 3, a factor 17/16
above). `nvidia-smi nvlink -s` times 0.9412 is the advertised rate for 4 and 5."""

_MB = 1e6


def c2c_bytes_per_s(mb_per_s: float) -> float:
    """NVLink-C2C between CPU and GPU, from NVML's speed of all links together.

    NVML's header does not say whether its figure counts one direction; taken as one.
    """
    return mb_per_s * _MB


def memory_bytes_per_s(clock_mhz: float, bus_width_bits: float) -> float:
    """Device memory, reads and writes together: clock x 2 x bus width / 8."""
    return clock_mhz * 1e6 * TRANSFERS_PER_CLOCK * bus_width_bits / 8


def nvlink_bytes_per_s(mb_per_s: float, num_links: float | None = None) -> float:
    """All active links of one GPU together. With their number, the line code is taken off."""
    if not num_links:
        return mb_per_s * _MB
    per_link = mb_per_s / num_links
    for line, payload in _NVLINK_PAYLOAD_MB_PER_S.items():
        if abs(per_link - line) < 2:
            return payload * num_links * _MB
    return mb_per_s * _MB
