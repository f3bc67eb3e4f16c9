"""The ceiling of a case on a machine: which link it is held against, and what that can carry."""

import math
from dataclasses import dataclass, replace
from operator import attrgetter

from hostbench.core.units import GB, MIB
from hostbench.facts.record import Facts, cuda_group, number_of, value_of
from hostbench.limits import links
from hostbench.limits.links import LinkName

MAX_CACHED_BYTES = 128 * MIB
"""Source and target of a copy in a GPU's memory that are smaller together may stay in its cache:
the largest of today hold 128 MB."""

HOST_LINKS = ("host_to_device", "device_to_host", "both_ways", "through_host")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What the rate of a case can be at most."""

    gb_per_s: float
    text: str
    """What the limit is: `PCIe Gen5 x16, 256-byte packets`."""
    is_pcie: bool = False
    """Of PCIe alone."""

    @property
    def encoded_gb_per_s(self) -> float | None:
        """The same without packet overhead; None where the limit is not PCIe."""
        return links.encoded(self.gb_per_s) if self.is_pcie else None

    def times(self, factor: float, why: str) -> "Ceiling":
        return replace(self, gb_per_s=self.gb_per_s * factor, text=f"{self.text}, {why}")

    def then(self, other: "Ceiling") -> "Ceiling":
        """Of bytes that cross this link, and when they have, the other one."""
        if self.gb_per_s == other.gb_per_s:
            return self.times(1 / 2, _TWICE)
        return Ceiling(
            gb_per_s=1 / (1 / self.gb_per_s + 1 / other.gb_per_s),
            text=f"{self.text}, then {other.text}",
            is_pcie=self.is_pcie and other.is_pcie,
        )


_TWICE = "the bytes cross it twice"


def ceiling(
    link: LinkName, share: float, device: str, facts: Facts, loaded: Facts, nbytes: float = math.inf
) -> Ceiling | str:
    """What a case's rate can be at most, or the reason why there is no limit.

    `share` is the part of the counted bytes that crosses the link: 0.5 where half of them do, 2
    where they cross it twice; the cpu device has no link, and its copies no share of one. `facts`
    are those before the run, `loaded` those read while copies ran; `nbytes` of one buffer. `device`
    is what ran, also where it stood in for the one that the case names. CUDA device 0 is meant,
    and device 1 where a second one takes part.
    """
    if device == "cuda" and link == "device_memory" and 2 * nbytes < MAX_CACHED_BYTES:
        return "none: both buffers may stay in the GPU's cache"
    limit: Ceiling | str = f"none on the {device} device"
    if device == "simulated":  # by the figures of the simulated machine, which its facts tell
        rate = number_of(facts, "simulation", f"{link}_bytes_per_s")
        limit = f"the simulated machine has no figure for {link}"
        if rate is not None:
            limit = Ceiling(gb_per_s=rate / GB, text="the simulated link")
    elif device == "cuda":  # facts of several GPUs may have no CUDA order
        group = cuda_group(facts)
        limit = _on_cuda(link, facts, loaded, group) if group else "cannot be told which GPU ran"
    if isinstance(limit, str) or share == 1:
        return limit
    words = {0.5: "half of the bytes cross it", 2.0: _TWICE}
    return limit.times(1 / share, words.get(share, f"{share:.3g} of each byte cross it"))


def _on_cuda(link: LinkName, facts: Facts, loaded: Facts, group: str) -> Ceiling | str:
    if link == "device_memory":  # reads and writes together
        clock = number_of(facts, group, "memory_clock_max_mhz")
        bus = number_of(facts, group, "memory_bus_width_bits")
        if not clock or not bus:
            return "the rate of the GPU's memory is unknown"
        text = f"the GPU's memory rate ({bus:.0f} bits at {clock:.0f} MHz)"
        return Ceiling(gb_per_s=links.memory(clock, bus), text=text)
    second, by_rate = cuda_group(facts, 1), attrgetter("gb_per_s")
    if link == "peer":  # NVLink where both have it, at the rate of the slower
        peers = [_nvlink(facts, group), _nvlink(facts, second or group)]
        if None not in peers:
            return min(filter(None, peers), key=by_rate)
    own = host_link(facts, loaded, group)
    if isinstance(own, str) or link in ("host_to_device", "device_to_host"):
        return own
    if link == "both_ways":
        return own.times(2, "both directions")
    # The second GPU's link may sleep while the first is loaded: of it the maximum counts. Where the
    # facts do not have it, it is taken to be like the first.
    other = own if second is None else host_link(facts, {}, second)
    if isinstance(other, str):
        return f"of the second GPU: {other}"
    return own.then(other) if link == "through_host" else min(own, other, key=by_rate)


def host_link(facts: Facts, loaded: Facts, group: str) -> Ceiling | str:
    """One direction of the link between host and GPU, as it was under load. Where nobody looked
    then it is the link's maximum, since a link sleeps when idle."""
    if value_of(facts, group, "c2c_enabled") == "on":
        rate = number_of(facts, group, "c2c_max_mb_per_s")
        if not rate:
            return "the rate of NVLink-C2C is unknown"
        # NVML's header does not say whether its figure counts one direction; taken as one.
        return Ceiling(gb_per_s=rate / 1e3, text="NVLink-C2C")
    mark, generation = "", number_of(loaded, group, "pcie_generation")
    width = number_of(loaded, group, "pcie_width")
    if not generation or not width:
        mark = " (its maximum: not read under load)"
        generation = number_of(facts, group, "pcie_max_generation")
        width = number_of(facts, group, "pcie_max_width")
    if not generation or not width or generation not in links.GT_PER_S:
        return "the link's speed is not known"
    text = f"PCIe Gen{generation:.0f} x{width:.0f}, {links.PAYLOAD_BYTES}-byte packets{mark}"
    rate = links.pcie(int(generation), int(width))
    return Ceiling(gb_per_s=rate, text=text, is_pcie=True)


def _nvlink(facts: Facts, group: str) -> Ceiling | None:
    rate = number_of(facts, group, "nvlink_mb_per_s")
    if not rate:
        return None
    num = number_of(facts, group, "nvlink_links")
    text = f"NVLink, {f'{num:.0f}' if num else 'all'} links together ({links.NVLINK_REACHED})"
    return Ceiling(gb_per_s=links.nvlink(rate, num), text=text)
