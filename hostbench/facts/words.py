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
"""NVML's reasons for clocks below the maximum."""
HARMLESS = frozenset({"none", "idle", "application-clocks", "display-clocks"})
"""Reasons that slow nothing down."""

VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}
NVLINK_BANDWIDTH = {0: "full", 1: "off", 2: "min", 3: "half", 4: "three-quarter"}


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
