"""Is a GPU's link to the host well? A verdict for each thing that can be wrong with it.

Pure functions of facts read at rest (`hostbench doctor`) or while copies ran (`during` of a run).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hostbench.core.units import format_rate
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of, value_of
from hostbench.limits.ceiling import Ceiling, host_link, is_on

Kind = Literal[
    "fine", "c2c", "slot", "narrow", "asleep", "slow", "throttled", "virtualized", "unknown"
]

HARMLESS = frozenset({"none", "idle", "application-clocks", "display-clocks"})
"""Reasons for lower clocks that mean nothing."""

WIDEST = 16
"""Lanes of the widest slot there is."""

_VIRTUAL = ("vgpu", "host-vgpu", "host-vsga")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One thing that is true of a link. `remedy` is empty where nothing needs doing."""

    group: str
    """`gpu0`, `gpu1`, ..."""
    kind: Kind
    level: Literal["warn", "note", "ok"]
    text: str
    remedy: str = ""


def link_verdicts(facts: Facts, loaded: Facts | None = None) -> list[Verdict]:
    """At least one verdict for every GPU that answers: what is wrong, else that it is fine.

    `loaded` are facts read while copies ran, where there are any.
    """
    return [
        verdict for group in gpu_groups(facts) for verdict in _of_gpu(facts, loaded or {}, group)
    ]


def _of_gpu(facts: Facts, loaded: Facts, group: str) -> Iterator[Verdict]:
    link = host_link(facts, loaded, group)
    found = list(_throttled(facts, loaded, group))
    if is_on(value_of(facts, group, "c2c_enabled")):
        rate = f", {format_rate(link.gb_per_s)} each way" if isinstance(link, Ceiling) else ""
        yield from found
        yield Verdict(group=group, kind="c2c", level="ok", text=f"{group}: NVLink-C2C{rate}")
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
    if not found or all(each.kind == "asleep" for each in found):
        name, rate = link.text.partition(",")[0], format_rate(link.gb_per_s)
        sure, unsure = "the link is fine", "the link is as fine as can be read"
        text = f"{group}: {sure if _knows_width(facts, group) else unsure}: {name}, at most {rate} "
        text += "each way"
        yield Verdict(group=group, kind="fine", level="ok", text=text)


def _unreadable(facts: Facts, group: str, virtual: bool, why: str) -> Iterator[Verdict]:
    if virtual:
        yield Verdict(
            group=group,
            kind="virtualized",
            level="note",
            text=f"{group}: a virtual GPU; link and counters stay unknown",
            remedy="ask who runs the host for PCIe generation and width; compare measured rates",
        )
    elif text_of(facts, group, "name") is not None:
        remedy = "compare the measured rates with those published for this GPU"
        text = f"{group}: {why}"
        yield Verdict(group=group, kind="unknown", level="note", text=text, remedy=remedy)


def _narrow(facts: Facts, loaded: Facts, group: str) -> Iterator[Verdict]:
    width = number_of(loaded, group, "pcie_width") or number_of(facts, group, "pcie_width")
    widest = number_of(facts, group, "pcie_max_width")
    if width and widest and width < widest:
        yield Verdict(
            group=group,
            kind="narrow",
            level="warn",
            text=f"{group}: the PCIe link is x{width:.0f} of x{widest:.0f}",
            remedy="reseat the card or use a full slot",
        )


def _speed(facts: Facts, loaded: Facts, group: str) -> Iterator[Verdict]:
    fastest = number_of(facts, group, "pcie_max_generation")
    busy = number_of(loaded, group, "pcie_generation")
    idle = number_of(facts, group, "pcie_generation")
    if busy and fastest and busy < fastest:
        yield Verdict(
            group=group,
            kind="slow",
            level="warn",
            text=f"{group}: the PCIe link stayed at generation {busy:.0f} of {fastest:.0f} "
            "while copies ran",
            remedy="look at the BIOS (PCIe speed, ASPM), the riser and the slot",
        )
    elif not busy and idle and fastest and idle < fastest:
        yield Verdict(
            group=group,
            kind="asleep",
            level="note",
            text=f"{group}: the PCIe link is at generation {idle:.0f} of {fastest:.0f} now: "
            "asleep, which is harmless",
            remedy="none needed: it wakes under load; `hostbench run` looks at it then",
        )


def _slot(facts: Facts, group: str) -> Iterator[Verdict]:
    """NVML's maxima are those of GPU and system together."""
    for card, both, words, remedy in (
        ("pcie_gpu_max_generation", "pcie_max_generation", "generation {:.0f} of {:.0f}", "faster"),
        ("pci_device_max_width", "pcie_max_width", "x{:.0f} of x{:.0f}", "wider"),
    ):
        able, most = number_of(facts, group, card), number_of(facts, group, both)
        if able and most and most < able:
            limit = words.format(most, able)
            yield Verdict(
                group=group,
                kind="slot",
                level="warn",
                text=f"{group}: the slot or a switch limits PCIe to {limit}",
                remedy=f"use a {remedy} slot",
            )


def _knows_width(facts: Facts, group: str) -> bool:
    """False where the GPU may be wider than what it shares with its slot."""
    widest = number_of(facts, group, "pcie_max_width") or WIDEST
    return widest >= WIDEST or number_of(facts, group, "pci_device_max_width") is not None


def _throttled(facts: Facts, loaded: Facts, group: str) -> Iterator[Verdict]:
    busy = text_of(loaded, group, "throttle_reasons")
    words = (busy or text_of(facts, group, "throttle_reasons") or "none").split(",")
    slowed = ", ".join(word for word in words if word not in HARMLESS)
    if slowed:
        yield Verdict(
            group=group,
            kind="throttled",
            level="warn",
            text=f"{group}: throttled {'while copies ran' if busy else 'now'} ({slowed})",
            remedy="look at power and cooling (nvidia-smi -q -d PERFORMANCE)",
        )
