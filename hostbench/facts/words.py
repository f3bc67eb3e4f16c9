"""NVML's numbers in words. A number that is not listed is shown as `unknown-<number>`."""

from collections.abc import Mapping

THROTTLE_WORDS = {
    0x1: "idle",
    0x2: "application-clocks",
    0x4: "power-cap",
    0x8: "hardware-slowdown",
    0x10: "sync-boost",
    0x20: "software-thermal",
    0x40: "hardware-thermal",
    0x80: "power-brake",
    0x100: "display-clocks",
    0x200: "board-limit",
    0x400: "reliability",
}
"""NVML's reasons for clocks below the maximum; `idle` and `application-clocks` are harmless."""

ARCHITECTURE = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}
COMPUTE_MODE = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
ADDRESSING = {0: "none", 1: "hmm", 2: "ats"}
NVLINK_VERSION = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
NVLINK_REMOTE = {0: "gpu", 1: "ibm-npu", 2: "switch", 0xFF: "unknown"}
NVLINK_BANDWIDTH = {0: "full", 1: "off", 2: "min", 3: "half", 4: "three-quarter"}
FABRIC = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}
TOPOLOGY = {0: "same-board", 10: "one-switch", 20: "switches", 30: "host-bridge"} | {
    40: "node",
    50: "system",
}
"""What two GPUs have in common nearest to them; nvidia-smi says PIX, PXB, PHB, NODE, SYS."""
PCIE_SPEED_MBPS = {1: 2500, 2: 5000, 3: 8000, 4: 16000, 5: 32000, 6: 64000}
CONFIDENTIAL_ENVIRONMENT = {0: "unavailable", 1: "simulation", 2: "production"}
CONFIDENTIAL_MULTI_GPU = {0: "none", 1: "protected-pcie", 2: "nvlink-encryption"}


def throttle_words(bits: int) -> str:
    """The set bits in words, joined by commas; "none" for no bit."""
    words = [word for bit, word in THROTTLE_WORDS.items() if bits & bit]
    rest = bits & ~sum(THROTTLE_WORDS)
    return ",".join([*words, f"unknown-{rest:#x}"] if rest else words) or "none"


def switch(state: int) -> str:
    return "on" if state else "off"


def word(words: Mapping[int, str], number: int) -> str:
    return words.get(number, f"unknown-{number}")


def cuda_version(version: int) -> str:
    """13020 is CUDA 13.2."""
    return f"{version // 1000}.{version % 1000 // 10}"
