"""Is a GPU's link to the host well? A verdict for each thing that can be wrong with it.

Pure functions of facts read at rest (`hostbench doctor`) or while copies ran (`during` of a run).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hostbench.core.units import format_rate
from hostbench.facts.nvml import HARMLESS
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of
from hostbench.limits.ceiling import Ceiling, host_link

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


def link_verdicts(facts: Facts, loaded: Facts | None = None) -> list[LinkVerdict]:
    """At least one verdict for every GPU that answers: what is wrong, else that it is fine.

    `loaded` are facts read while copies ran, where there are any.
    """
    return [
        LinkVerdict(group=group, kind=kind, level=level, text=f"{group}: {text}", remedy=remedy)
        for group in gpu_groups(facts)
        for kind, level, text, remedy in _of_gpu(facts, loaded or {}, group)
    ]


def _of_gpu(
    facts: Facts, loaded: Facts, group: str
) -> Iterator[tuple[VerdictKind, Level, str, str]]:
    """Kind, level, text without the group, remedy."""
    busy = text_of(loaded, group, "throttle_reasons")
    words = (busy or text_of(facts, group, "throttle_reasons") or "none").split(",")
    if slowed := ", ".join(word for word in words if word not in HARMLESS):
        text = f"throttled {'while copies ran' if busy else 'now'} ({slowed})"
        yield "throttled", "warn", text, "look at power and cooling (nvidia-smi -q -d PERFORMANCE)"
    link = host_link(facts, loaded, group)
    if text_of(facts, group, "c2c_enabled") == "on":
        rate = f", {format_rate(link.gb_per_s)} each way" if isinstance(link, Ceiling) else ""
        yield "c2c", "ok", f"NVLink-C2C{rate}", ""
    elif text_of(facts, group, "virtualization") in _VIRTUAL:
        text = "a virtual GPU; link and counters stay unknown"
        remedy = "ask who runs the host for PCIe generation and width; compare measured rates"
        yield "virtualized", "note", text, remedy
    elif isinstance(link, Ceiling):
        yield from _of_pcie(facts, loaded, group, link, is_well=not slowed)
    elif text_of(facts, group, "name") is not None:
        remedy = "compare the measured rates with those published for this GPU"
        yield "unknown", "note", link, remedy


def _of_pcie(
    facts: Facts, loaded: Facts, group: str, link: Ceiling, *, is_well: bool
) -> Iterator[tuple[VerdictKind, Level, str, str]]:
    """NVML's maxima are those of GPU and system together."""
    fastest = number_of(facts, group, "pcie_max_generation")
    widest = number_of(facts, group, "pcie_max_width")
    width = number_of(loaded, group, "pcie_width") or number_of(facts, group, "pcie_width")
    if width and widest and width < widest:
        is_well = False
        text = f"the PCIe link is x{width:.0f} of x{widest:.0f}"
        yield "narrow", "warn", text, "reseat the card or use a full slot"
    busy = number_of(loaded, group, "pcie_generation")
    idle = number_of(facts, group, "pcie_generation")
    if busy and fastest and busy < fastest:
        is_well = False
        text = f"the PCIe link stayed at generation {busy:.0f} of {fastest:.0f} while copies ran"
        yield "slow", "warn", text, "look at the BIOS (PCIe speed, ASPM), the riser and the slot"
    elif not busy and idle and fastest and idle < fastest:
        remedy = "none needed: it wakes under load; `hostbench run` looks at it then"
        text = f"the PCIe link is at generation {idle:.0f} of {fastest:.0f} now"
        yield "asleep", "note", f"{text}: asleep, which is harmless", remedy
    own_width = number_of(facts, group, "pci_device_max_width")
    own_generation = number_of(facts, group, "pcie_gpu_max_generation")
    for able, most, words, remedy in (
        (own_generation, fastest, "generation {:.0f} of {:.0f}", "faster"),
        (own_width, widest, "x{:.0f} of x{:.0f}", "wider"),
    ):
        if able and most and most < able:
            is_well = False
            text = f"the slot or a switch limits PCIe to {words.format(most, able)}"
            yield "slot", "warn", text, f"use a {remedy} slot"
    if is_well:
        is_known = (widest or WIDEST) >= WIDEST or own_width is not None
        name, rate = link.text.partition(",")[0], format_rate(link.gb_per_s)
        full = "in full" if is_known else "as far as can be read"
        slices = " for all slices together" if text_of(facts, group, "mig") == "on" else ""
        text = f"link negotiated {full}: {name}, at most {rate} each way{slices}"
        yield "fine", "ok", text, ""
