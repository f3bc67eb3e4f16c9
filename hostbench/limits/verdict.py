"""Is a GPU's link to the host well? A verdict for each thing that can be wrong with it.

Pure functions of facts read at rest (`hostbench doctor`) or while copies ran (`during` of a run).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hostbench.core.units import format_rate
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of, value_of
from hostbench.limits.ceiling import Ceiling, host_link, is_on

VerdictKind = Literal[
    "fine",
    "c2c",
    "slot",
    "narrow",
    "asleep",
    "slow",
    "throttled",
    "virtualized",
    "unknown",
]
Level = Literal["warn", "note", "ok"]

HARMLESS = frozenset({"none", "idle", "application-clocks", "display-clocks"})
"""Reasons for lower clocks that mean nothing."""

WIDEST = 16
"""Lanes of the widest slot there is."""

_VIRTUAL = ("vgpu", "host-vgpu", "host-vsga")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkVerdict:
    """One thing that is true of a link. `remedy` is empty where nothing needs doing."""

    group: str
    """`gpu0`, `gpu1`, ..."""
    kind: VerdictKind
    level: Level
    text: str
    remedy: str = ""


_Finding = tuple[VerdictKind, Level, str, str]
"""Kind, level, text without the group, remedy."""


def link_verdicts(facts: Facts, loaded: Facts | None = None) -> list[LinkVerdict]:
    """At least one verdict for every GPU that answers: what is wrong, else that it is fine.

    `loaded` are facts read while copies ran, where there are any.
    """
    return [
        LinkVerdict(group=group, kind=kind, level=level, text=f"{group}: {text}", remedy=remedy)
        for group in gpu_groups(facts)
        for kind, level, text, remedy in _of_gpu(facts, loaded or {}, group)
    ]


def _of_gpu(facts: Facts, loaded: Facts, group: str) -> Iterator[_Finding]:
    link = host_link(facts, loaded, group)
    found = list(_throttled(facts, loaded, group))
    if is_on(value_of(facts, group, "c2c_enabled")):
        rate = f", {format_rate(link.gb_per_s)} each way" if isinstance(link, Ceiling) else ""
        yield from found
        yield "c2c", "ok", f"NVLink-C2C{rate}", ""
        return
    virtual = text_of(facts, group, "virtualization") in _VIRTUAL
    if virtual or isinstance(link, str):
        yield from found
        yield from _unreadable(facts, group, virtual, str(link))
        return
    found += _narrow(facts, loaded, group)
    found += _speed(facts, loaded, group)
    found += _slot(facts, group)
    yield from found
    if all(kind == "asleep" for kind, *_ in found):
        name, rate = link.text.partition(",")[0], format_rate(link.gb_per_s)
        fine = "fine" if _knows_width(facts, group) else "as fine as can be read"
        slices = " for all slices together" if is_on(value_of(facts, group, "mig")) else ""
        yield "fine", "ok", f"the link is {fine}: {name}, at most {rate} each way{slices}", ""


def _unreadable(facts: Facts, group: str, virtual: bool, why: str) -> Iterator[_Finding]:
    if virtual:
        text = "a virtual GPU; link and counters stay unknown"
        remedy = "ask who runs the host for PCIe generation and width; compare measured rates"
        yield "virtualized", "note", text, remedy
    elif text_of(facts, group, "name") is not None:
        remedy = "compare the measured rates with those published for this GPU"
        yield "unknown", "note", why, remedy


def _narrow(facts: Facts, loaded: Facts, group: str) -> Iterator[_Finding]:
    width = number_of(loaded, group, "pcie_width") or number_of(facts, group, "pcie_width")
    widest = number_of(facts, group, "pcie_max_width")
    if width and widest and width < widest:
        text = f"the PCIe link is x{width:.0f} of x{widest:.0f}"
        yield "narrow", "warn", text, "reseat the card or use a full slot"


def _speed(facts: Facts, loaded: Facts, group: str) -> Iterator[_Finding]:
    fastest = number_of(facts, group, "pcie_max_generation")
    busy = number_of(loaded, group, "pcie_generation")
    idle = number_of(facts, group, "pcie_generation")
    if busy and fastest and busy < fastest:
        text = f"the PCIe link stayed at generation {busy:.0f} of {fastest:.0f} while copies ran"
        yield "slow", "warn", text, "look at the BIOS (PCIe speed, ASPM), the riser and the slot"
    elif not busy and idle and fastest and idle < fastest:
        text = f"the PCIe link is at generation {idle:.0f} of {fastest:.0f} now"
        remedy = "none needed: it wakes under load; `hostbench run` looks at it then"
        yield "asleep", "note", f"{text}: asleep, which is harmless", remedy


def _slot(facts: Facts, group: str) -> Iterator[_Finding]:
    """NVML's maxima are those of GPU and system together."""
    for card, both, words, remedy in (
        ("pcie_gpu_max_generation", "pcie_max_generation", "generation {:.0f} of {:.0f}", "faster"),
        ("pci_device_max_width", "pcie_max_width", "x{:.0f} of x{:.0f}", "wider"),
    ):
        able, most = number_of(facts, group, card), number_of(facts, group, both)
        if able and most and most < able:
            text = f"the slot or a switch limits PCIe to {words.format(most, able)}"
            yield "slot", "warn", text, f"use a {remedy} slot"


def _knows_width(facts: Facts, group: str) -> bool:
    """False where the GPU may be wider than what it shares with its slot."""
    widest = number_of(facts, group, "pcie_max_width") or WIDEST
    return widest >= WIDEST or number_of(facts, group, "pci_device_max_width") is not None


def _throttled(facts: Facts, loaded: Facts, group: str) -> Iterator[_Finding]:
    busy = text_of(loaded, group, "throttle_reasons")
    words = (busy or text_of(facts, group, "throttle_reasons") or "none").split(",")
    slowed = ", ".join(word for word in words if word not in HARMLESS)
    if slowed:
        text = f"throttled {'while copies ran' if busy else 'now'} ({slowed})"
        yield "throttled", "warn", text, "look at power and cooling (nvidia-smi -q -d PERFORMANCE)"
