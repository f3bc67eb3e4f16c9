"""Is a GPU's link to the host well? A verdict for each thing that can be wrong with it.

Pure functions of facts read at rest (`hostbench doctor`) or while copies ran (`during` of a run).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from hostbench.core.units import format_rate
from hostbench.facts.nvml import slowing
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of
from hostbench.limits.ceiling import Ceiling, host_link


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """One thing that is true of a link. `remedy` is empty where nothing needs doing."""

    group: str
    """`gpu0`, `gpu1`, ..."""
    kind: str
    """`fine`, `slot`, `narrow`, `slow`, `throttled`, `unknown`."""
    level: Literal["warn", "note", "ok"]
    text: str
    remedy: str = ""


def link_verdicts(facts: Facts, loaded: Facts | None = None) -> list[LinkVerdict]:
    """What is wrong with the link of every GPU that answers, else that it is fine; nothing of one
    whose figures are declared. `loaded`: facts read while copies ran, where there are any."""
    groups = gpu_groups(facts)
    return [verdict for group in groups for verdict in _of_gpu(facts, loaded or {}, group)]


def _of_gpu(facts: Facts, loaded: Facts, group: str) -> Iterator[LinkVerdict]:
    verdict = partial(LinkVerdict, group)
    busy = text_of(loaded, group, "throttle_reasons")
    slowed = ", ".join(slowing(busy or text_of(facts, group, "throttle_reasons") or "none"))
    if slowed:
        text = f"{group}: throttled {'while copies ran' if busy else 'now'} ({slowed})"
        remedy = "look at power and cooling (nvidia-smi -q -d PERFORMANCE)"
        yield verdict("throttled", "warn", text, remedy)
    link = host_link(facts, loaded, group)
    if isinstance(link, Ceiling):
        wrong = [*_of_pcie(facts, loaded, group)] if link.is_pcie else []
        yield from wrong
        if not slowed and not wrong:
            most = f"{link.text.partition(',')[0]}, at most {format_rate(link.gb_per_s)} each way"
            widest = number_of(facts, group, "pcie_max_width")
            own_width = number_of(facts, group, "pci_device_max_width")
            is_known = not link.is_pcie or widest == 16 or own_width is not None
            read = "" if is_known else ", as far as can be read"  # a wider card may be in there
            yield verdict("fine", "ok", f"{group}: link negotiated in full{read}: {most}")
    elif text_of(facts, group, "name") is not None and "simulation" not in facts:
        remedy = "compare the measured rates with those published for this GPU"
        yield verdict("unknown", "note", f"{group}: {link}", remedy)


def _of_pcie(facts: Facts, loaded: Facts, group: str) -> Iterator[LinkVerdict]:
    """What is wrong. NVML's maxima are those of GPU and system together; that it sleeps at rest is
    harmless."""
    verdict, pcie = partial(LinkVerdict, group), f"{group}: the PCIe link"
    fastest = number_of(facts, group, "pcie_max_generation")
    widest = number_of(facts, group, "pcie_max_width")
    width = number_of(loaded, group, "pcie_width") or number_of(facts, group, "pcie_width")
    if width and widest and width < widest:
        text = f"{pcie} is x{width:.0f} of x{widest:.0f}"
        yield verdict("narrow", "warn", text, "reseat the card or use a full slot")
    busy = number_of(loaded, group, "pcie_generation")
    if busy and fastest and busy < fastest:
        text = f"{pcie} stayed at generation {busy:.0f} of {fastest:.0f} while copies ran"
        remedy = "look at the BIOS (PCIe speed, ASPM), the riser and the slot"
        yield verdict("slow", "warn", text, remedy)
    own_generation = number_of(facts, group, "pcie_gpu_max_generation")
    own_width = number_of(facts, group, "pci_device_max_width")
    for able, most, words, remedy in (
        (own_generation, fastest, "generation {:.0f} of {:.0f}", "use a faster slot"),
        (own_width, widest, "x{:.0f} of x{:.0f}", "use a wider slot"),
    ):
        if able and most and most < able:
            text = f"{group}: the slot or a switch limits PCIe to {words.format(most, able)}"
            yield verdict("slot", "warn", text, remedy)
