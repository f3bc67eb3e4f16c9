"""What a PCIe link can carry at best, in bytes per second and one direction.

Sources are named at each figure; `docs/method.md` has the table.
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


def encoded_bytes_per_s(generation: int, width: int) -> float:
    """Transfers per second x lanes x encoding / 8: the rate that is usually quoted.

    Raises ValueError for a generation or a width that PCIe does not have.
    """
    if generation not in GT_PER_S:
        raise ValueError(f"PCIe generation {generation!r} is not one of {tuple(GT_PER_S)}")
    if width not in LANES:
        raise ValueError(f"PCIe width {width!r} is not one of {LANES}")
    return GT_PER_S[generation] * width * ENCODING[generation] / 8


def packet_bytes_per_s(generation: int, width: int) -> float:
    """The encoded rate less the overhead of packets of 256 bytes: a healthy link comes near it."""
    share = PAYLOAD_BYTES / (PAYLOAD_BYTES + OVERHEAD_BYTES)
    return encoded_bytes_per_s(generation, width) * share
