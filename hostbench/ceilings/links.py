"""What a link or a memory can carry at best, in bytes per second and one direction.

Pure functions of what the facts say. Sources are named at each; `docs/method.md` has the table.
"""

GT_PER_S = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
"""PCIe generation -> transfers (bits) per second and lane; PCI Express Base Specification."""

ENCODING = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
"""Share of the bits that is not line code: 8b/10b, 128b/130b, and of a 256-byte flit 242 bytes."""

LANES = (1, 2, 4, 8, 12, 16, 32)

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

_MB = 1e6


def pcie_encoded_bytes_per_s(generation: int, width: int) -> float:
    """Transfers per second x lanes x encoding / 8: the rate that is usually quoted.

    Raises ValueError for a generation or a width that PCIe does not have.
    """
    if generation not in GT_PER_S:
        raise ValueError(f"PCIe generation {generation!r} is not one of {tuple(GT_PER_S)}")
    if width not in LANES:
        raise ValueError(f"PCIe width {width!r} is not one of {LANES}")
    return GT_PER_S[generation] * width * ENCODING[generation] / 8


def pcie_packet_bytes_per_s(generation: int, width: int) -> float:
    """The encoded rate less the overhead of packets of 256 bytes: a healthy link comes near it."""
    share = PAYLOAD_BYTES / (PAYLOAD_BYTES + OVERHEAD_BYTES)
    return pcie_encoded_bytes_per_s(generation, width) * share


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
    each = mb_per_s / num_links
    for line, payload in _NVLINK_PAYLOAD_MB_PER_S.items():
        if abs(each - line) < 2:
            return payload * num_links * _MB
    return mb_per_s * _MB
