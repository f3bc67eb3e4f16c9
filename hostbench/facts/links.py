"""NVLink, C2C and the way to other GPUs: facts that are sums or lists over links."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from hostbench.facts import words
from hostbench.facts.nvml import Nvml, field_value
from hostbench.facts.record import Fact, Group, known, unknown
from hostbench.facts.words import switch, word

MAX_NVLINKS = 36
_NVLINK_COUNT, _SPEED_COMMON, _LINK_SPEED = 91, 90, 164
_SPEED_BY_LINK = (84, 85, 86, 87, 88, 89, 132, 133, 134, 135, 136, 137)
"""What drivers from before field 164 know, in MB/s."""
_C2C_COUNT, _C2C_STATUS, _C2C_MAX = 170, 171, 172

NVLINK = ("nvlink_links", "nvlink_version", "nvlink_remote", "nvlink_mb_per_s")
C2C = ("c2c_enabled", "c2c_links", "c2c_max_mb_per_s")
PEERS = ("peer_read", "peer_topology")
NAMES = (*NVLINK, *C2C, *PEERS)


def link_facts(nvml: Nvml, index: int, handle: Any) -> Group:
    return {**_nvlink(nvml, handle), **_c2c(nvml, handle), **_peers(nvml, index)}


def _nvlink(nvml: Nvml, handle: Any) -> Group:
    """Active links; their version and what is at their other end; MB/s in one direction."""
    library = nvml.library
    links = _active(nvml, handle)
    if isinstance(links, Fact):
        return dict.fromkeys(NVLINK, links)
    if not links:
        rest = dict.fromkeys(NVLINK[1:], unknown("no active NVLink"))
        return {"nvlink_links": known(0), **rest}

    def version(link: int) -> str:
        return word(words.NVLINK_VERSION, library.nvmlDeviceGetNvLinkVersion(handle, link))

    def remote(link: int) -> str:
        return word(words.NVLINK_REMOTE, library.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))

    return {
        "nvlink_links": known(len(links)),
        "nvlink_version": nvml.read(lambda: _listed(map(version, links))),
        "nvlink_remote": nvml.read(lambda: _listed(map(remote, links))),
        "nvlink_mb_per_s": nvml.read(*_speeds(library, handle, links)),
    }


def _active(nvml: Nvml, handle: Any) -> list[int] | Fact:
    """Numbers of the links that are up, or why that cannot be told."""
    count = nvml.read(lambda: field_value(nvml.library, handle, _NVLINK_COUNT))
    known_count = count.value if isinstance(count.value, int) else None
    found = []
    for link in range(MAX_NVLINKS if known_count is None else min(known_count, MAX_NVLINKS)):
        state = nvml.read(partial(nvml.library.nvmlDeviceGetNvLinkState, handle, link))
        if state.value is None:
            if link == 0:
                return state
            break  # past the last link
        if state.value:
            found.append(link)
    return found


def _speeds(library: Any, handle: Any, links: list[int]) -> list[Callable[[], float]]:
    """Ways to sum the links' MB/s in one direction, newest first."""

    def total(fields: Iterable[int | tuple[int, int]]) -> float:
        return sum(_number(field_value(library, handle, field)) for field in fields)

    ways: list[Callable[[], float]] = [lambda: total((_LINK_SPEED, link) for link in links)]
    if max(links) < len(_SPEED_BY_LINK):
        ways.append(lambda: total(_SPEED_BY_LINK[link] for link in links))
    return [*ways, lambda: len(links) * total([_SPEED_COMMON])]


def _c2c(nvml: Nvml, handle: Any) -> Group:
    """Grace's link to the CPU: where it is, PCIe is not the way to the host."""
    library = nvml.library
    count = nvml.read(lambda: field_value(library, handle, _C2C_COUNT))
    links = range(count.value if isinstance(count.value, int) else 0)

    def maximum() -> float | None:
        up = [link for link in links if field_value(library, handle, (_C2C_STATUS, link))]
        speeds = [_number(field_value(library, handle, (_C2C_MAX, link))) for link in up]
        return sum(speeds) or None

    none = count if count.value is None else unknown("no C2C link")
    enabled = nvml.read(lambda: switch(library.nvmlDeviceGetC2cModeInfoV(handle).isC2cEnabled))
    if enabled.value is None and count.value is not None:
        enabled = nvml.read(
            lambda: switch(any(field_value(library, handle, (_C2C_STATUS, at)) for at in links))
        )
    return {
        "c2c_enabled": enabled,
        "c2c_links": count,
        "c2c_max_mb_per_s": nvml.read(maximum) if links else none,
    }


def _peers(nvml: Nvml, index: int) -> Group:
    """Whose memory it reads directly, and what lies between: `gpu1=node,gpu2=system`."""
    others = [other for other in range(nvml.count()) if other != index]
    if not others:
        return dict.fromkeys(PEERS, unknown("there is no other GPU"))
    reads = {other: nvml.can_read_peer(index, other) for other in others}
    refused = next((fact for fact in reads.values() if fact.value is None), None)
    readable = [f"gpu{other}" for other, fact in reads.items() if fact.value]
    return {
        "peer_read": refused if refused and not readable else known(",".join(readable) or "none"),
        "peer_topology": _topology(nvml, index, others),
    }


def _topology(nvml: Nvml, index: int, others: list[int]) -> Fact:
    ways = []
    for other in others:
        a, b = nvml.handle(index), nvml.handle(other)
        for handle in (a, b):
            if isinstance(handle, Fact):
                return handle
        level = nvml.read(partial(nvml.library.nvmlDeviceGetTopologyCommonAncestor, a, b))
        if not isinstance(level.value, int):
            return level
        ways.append(f"gpu{other}={word(words.TOPOLOGY, level.value)}")
    return known(",".join(ways))


def _listed(found: Iterable[str]) -> str:
    return ",".join(sorted(set(found)))


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError(f"a link's speed is no {value!r}")
    return value
