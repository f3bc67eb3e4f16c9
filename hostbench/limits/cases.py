"""The ceiling of a case on a machine: which link it is held against, and what that can carry."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hostbench.core import pcie
from hostbench.core.case import Case
from hostbench.core.units import GB, format_rate
from hostbench.device.simulated_parts import Link
from hostbench.facts.record import Facts, cuda_group, number_of, value_of
from hostbench.limits import links

ONE_THREAD, ALL_CORES = "memory_copy_bytes_per_s", "memory_copy_all_cores_bytes_per_s"
"""Facts of the group `host`, measured by `hostbench.facts.memory`."""

WHICH = "cannot be told which GPU ran"
"""Instead of a ceiling, where the facts of several GPUs have no CUDA order."""

_TO_DEVICE = ("host_to_device", "pin_and_copy", "to_device", "many_tensors")
_TO_HOST = ("device_to_host", "to_host")
_TURNED = ("strided", "cast")
"""Workloads that have their direction as an axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What `gb_per_s` of a case can be at most (of collectives: the bus bandwidth)."""

    gb_per_s: float
    text: str
    """What the limit is: `PCIe Gen5 x16, 256-byte packets`."""
    encoded_gb_per_s: float | None = None
    """The same without packet overhead; None where the limit is not PCIe."""

    def times(self, factor: float, why: str) -> "Ceiling":
        encoded = None if self.encoded_gb_per_s is None else self.encoded_gb_per_s * factor
        text = f"{self.text}, {why}"
        return replace(self, gb_per_s=self.gb_per_s * factor, encoded_gb_per_s=encoded, text=text)


def ceiling(case: Case, device: str, facts: Facts, loaded: Facts | None = None) -> Ceiling | str:
    """The case's ceiling, or the reason why there is none.

    `facts` are those before the run, `loaded` those read while copies ran. `device` is what ran,
    also where it stood in for the one that the case names. CUDA device 0 is meant throughout.
    """
    if case.workload == "collectives.all_reduce":
        return _all_reduce(case, device, facts, loaded or {})
    family, _, name = case.workload.partition(".")
    if family != "transfer" or (direction(case) is None and name not in _OTHERS):
        return f"{case.workload} is not held against a link"
    if device == "cpu":
        return _host_memory(name, facts)
    if device == "simulated":
        return _simulated(case, facts)
    if device != "cuda":
        return f"the device {device} has no known link"
    group = cuda_group(facts)
    if group is None:
        return WHICH
    if name in _OTHERS:
        return _OTHERS[name](case, facts, loaded or {}, group)
    link = host_link(facts, loaded or {}, group)
    if name == "cast" and isinstance(link, Ceiling) and _halved(case):
        return link.times(2, "half of the bytes cross it")
    return link


def direction(case: Case) -> str | None:
    """`host_to_device` or `device_to_host` for a copy over the host's link, else None."""
    name = case.workload.partition(".")[2]
    if name in _TURNED:
        turned = {"h2d": "host_to_device", "d2h": "device_to_host"}
        return turned.get(str(case.values.get("direction")))
    if name in _TO_DEVICE:
        return "host_to_device"
    return "device_to_host" if name in _TO_HOST else None


def host_link(facts: Facts, loaded: Facts, group: str) -> Ceiling | str:
    """One direction of the link between host and GPU, as it was under load.

    Where nobody looked under load it is the link's maximum, since a link sleeps when idle.
    """
    if is_on(value_of(facts, group, "c2c_enabled")):
        rate = number_of(facts, group, "c2c_max_mb_per_s")
        if not rate:
            return f"the rate of NVLink-C2C is unknown{_why(facts, group, 'c2c_max_mb_per_s')}"
        return Ceiling(gb_per_s=links.c2c_bytes_per_s(rate) / GB, text="NVLink-C2C")
    for found, prefix, mark in (
        (loaded, "pcie_", ""),
        (facts, "pcie_max_", " (its maximum: not read under load)"),
        (facts, "pcie_", " (read at rest: it may have been asleep)"),
    ):
        generation = number_of(found, group, f"{prefix}generation")
        width = number_of(found, group, f"{prefix}width")
        if generation and width:
            return _pcie(int(generation), int(width), mark)
    return f"the link cannot be read{_why(facts, group, 'pcie_max_generation')}"


def is_on(value: object) -> bool:
    """A switch as a fact holds it: true, 1 or `on`."""
    return value is True or value == 1 or value == "on"


def _pcie(generation: int, width: int, mark: str) -> Ceiling | str:
    try:
        packets = pcie.packet_bytes_per_s(generation, width)
    except ValueError as error:
        return str(error)
    return Ceiling(
        gb_per_s=packets / GB,
        text=f"PCIe Gen{generation} x{width}, {pcie.PAYLOAD_BYTES}-byte packets{mark}",
        encoded_gb_per_s=pcie.encoded_bytes_per_s(generation, width) / GB,
    )


def _both_ways(case: Case, facts: Facts, loaded: Facts, group: str) -> Ceiling | str:
    link = host_link(facts, loaded, group)
    return link.times(2, "both directions") if isinstance(link, Ceiling) else link


def _on_device(case: Case, facts: Facts, loaded: Facts, group: str) -> Ceiling | str:
    clock = number_of(facts, group, "memory_clock_max_mhz")
    bus = number_of(facts, group, "memory_bus_width_bits")
    if not clock or not bus:
        name = "memory_bus_width_bits" if clock else "memory_clock_max_mhz"
        return f"the rate of the GPU's memory is unknown{_why(facts, group, name)}"
    rate = links.memory_bytes_per_s(clock, bus) / 2 / GB
    text = f"half of the GPU's memory rate ({bus:.0f} bits at {clock:.0f} MHz): read and write"
    return Ceiling(gb_per_s=rate, text=text)


def _between_devices(case: Case, facts: Facts, loaded: Facts, group: str) -> Ceiling | str:
    if case.values.get("route") == "host":
        link = host_link(facts, loaded, group)
        text = "through the host"
        return link if isinstance(link, str) else link.times(1, text)
    return _peer_link(facts, loaded, group)


def _peer_link(facts: Facts, loaded: Facts, group: str) -> Ceiling | str:
    rate = number_of(facts, group, "nvlink_mb_per_s")
    if not rate:
        return host_link(facts, loaded, group)
    num = number_of(facts, group, "nvlink_links")
    text = f"NVLink, {num:.0f} links together" if num else "NVLink, all links together"
    return Ceiling(gb_per_s=links.nvlink_bytes_per_s(rate, num) / GB, text=text)


def _all_reduce(case: Case, device: str, facts: Facts, loaded: Facts) -> Ceiling | str:
    if case.values.get("num_ranks") == 1:
        return "one rank sends nothing"
    if device != "cuda":
        return "ranks on one host have no link"
    group = cuda_group(facts)
    link = WHICH if group is None else _peer_link(facts, loaded, group)
    return link if isinstance(link, str) else link.times(1, "limit of the bus bandwidth")


def _host_memory(name: str, facts: Facts) -> Ceiling | str:
    """The cpu device copies with one thread a stream, so both ways at once use two cores."""
    both = name == "both_ways"
    fact, other_fact = (ALL_CORES, ONE_THREAD) if both else (ONE_THREAD, ALL_CORES)
    rate, other = number_of(facts, "host", fact), number_of(facts, "host", other_fact)
    if not rate:
        return f"the host's memory copy was not measured{_why(facts, 'host', fact)}"
    who, others = ("all cores", "1 thread") if both else ("1 thread", "all cores")
    also = f" ({others}: {format_rate(other / GB)})" if other else ""
    return Ceiling(gb_per_s=rate / GB, text=f"host memory copy, measured on {who}{also}")


def _simulated(case: Case, facts: Facts) -> Ceiling | str:
    """By the link that was declared, which the facts then tell, else the usual one."""
    names = ("host_to_device_bytes_per_s", "device_to_host_bytes_per_s")
    there, back = (number_of(facts, "simulation", n) or getattr(Link(), n) for n in names)
    way = direction(case)
    if case.workload == "transfer.both_ways":
        return Ceiling(gb_per_s=(there + back) / GB, text="the simulated link, both directions")
    if way is None:
        return f"{case.workload} has no simulated link"
    rate = there if way == "host_to_device" else back
    made = Ceiling(gb_per_s=rate / GB, text="the simulated link")
    return made.times(2, "half of the bytes cross it") if _halved(case) else made


def _halved(case: Case) -> bool:
    """float32 to float16: torch casts on the CPU when blocking, on the GPU when not (Copy.cu), so
    the link carries half where the cast comes before it."""
    values = case.values
    if case.workload != "transfer.cast":
        return False
    return bool(values.get("blocking")) == (values.get("direction") == "h2d")


def _why(facts: Facts, group: str, name: str) -> str:
    fact = facts.get(group, {}).get(name)
    return f": {fact.why}" if fact is not None and fact.why else ""


_OTHERS: dict[str, Callable[[Case, Facts, Facts, str], Ceiling | str]] = {
    "both_ways": _both_ways,
    "on_device": _on_device,
    "between_devices": _between_devices,
}
