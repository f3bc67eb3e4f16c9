"""What PCIe, NVLink and device memory can carry at best, in GB/s and one direction.

Pure functions of what the facts say. Sources are named at each; `docs/method.md` has the table.
"""

from typing import Literal

LinkName = Literal[
    "host_to_device", "device_to_host", "both_ways", "through_host", "device_memory", "peer"
]
"""One direction between host and device, both at once, out to the host and then into a second
device, the device's memory, a second device directly."""

GT_PER_S = {1: 2.5, 2: 5, 3: 8, 4: 16, 5: 32, 6: 64}
"""PCIe generation -> 10**9 transfers (bits) per second and lane; PCI Express Base Specification."""
_ENCODING = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
"""Share of the bits that is not line code: 8b/10b, 128b/130b, and of a 256-byte flit 242 bytes."""
PAYLOAD_BYTES = 256
"""Payload of one packet: what GPUs and root ports usually agree on (128 to 512 exist)."""
OVERHEAD_BYTES = 24
"""Around each payload: 16 bytes of header (4 words, 64-bit address), 4 of LCRC, 4 of framing and
sequence number. Intel AN-708 counts 20 to 28. 28 is refuted: 57.15 GB/s were seen on Gen5 x16
(NVIDIA/cuda-samples#357), where 28 bytes allow 56.8 and 24 allow 57.6."""

TRANSFERS_PER_CLOCK = 2
"""Of the memory clock as NVML tells it: HBM is double data rate, and for GDDR NVML tells half the
data rate. It gives 1555 GB/s for A100-40 (1215 MHz, 5120 bits), 1008 for RTX 4090 (10501, 384)."""

_NVLINK_PAYLOAD_MB_PER_S = {25781: 25_000, 26562: 25_000, 53125: 50_000}
"""What the driver tells of one link is its line rate (66b/64b code up to NVLink 3, a factor 17/16
above). `nvidia-smi nvlink -s` times 0.9412 is the advertised rate for 4 and 5."""

NVLINK_REACHED = "healthy ones reach 82 to 92%"
"""Of a copy or a ring of nccl: 275 of 300 GB/s on A100 (nvbandwidth), 396 of 450 on H200
(ml-engineering), 365 to 370 of 450 by a ring (NVIDIA/nccl-tests#212), 376 (NVIDIA/nccl#1264)."""


def pcie(generation: int, width: int) -> float:
    """Transfers per second x lanes x encoding / 8, less the overhead of packets of 256 bytes: a
    healthy link comes near it. Raises KeyError for another generation than GT_PER_S has."""
    share = PAYLOAD_BYTES / (PAYLOAD_BYTES + OVERHEAD_BYTES)
    return GT_PER_S[generation] * width * _ENCODING[generation] / 8 * share


def encoded(packets: float) -> float:
    """The rate that is usually quoted of a PCIe link: with the overhead of packets."""
    return packets * (PAYLOAD_BYTES + OVERHEAD_BYTES) / PAYLOAD_BYTES


def memory(clock_mhz: float, bus_width_bits: float) -> float:
    """Device memory, reads and writes together: clock x 2 x bus width / 8."""
    return clock_mhz * 1e-3 * TRANSFERS_PER_CLOCK * bus_width_bits / 8


def nvlink(mb_per_s: float, num_links: float | None = None) -> float:
    """All active links of one GPU together. With their number, the line code is taken off."""
    for line, payload in _NVLINK_PAYLOAD_MB_PER_S.items():
        if num_links and abs(mb_per_s / num_links - line) < 2:
            return payload * num_links / 1e3
    return mb_per_s / 1e3
