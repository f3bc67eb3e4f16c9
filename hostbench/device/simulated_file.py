"""HOSTBENCH_SIMULATION=FILE.toml: what the simulated device pretends to be.

docs/simulation.md explains every key.
"""

import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from hostbench.core.case import Selector, parse_selector
from hostbench.core.clock import is_storable, iso
from hostbench.core.errors import UsageError
from hostbench.core.pcie import Lanes, packet_bytes_per_s
from hostbench.core.toml import OneLine, decode_toml, refuse
from hostbench.core.units import GB
from hostbench.device.simulated_pace import Noise, Pace
from hostbench.device.simulated_parts import Link
from hostbench.facts.record import Facts, known

VARIABLE = "HOSTBENCH_SIMULATION"
SIDE = "HOSTBENCH_SIMULATION_SIDE"
"""Which of two codes that take turns a worker measures: its noise is of that, not of the file's
commit. Set for the workers alone."""
MARK = "simulated"
"""Word in the name of every machine that is one, and in the text of its hardware."""
GROUP = "simulation"
"""The facts' group that says that the others are made up."""

REMEDY = "docs/simulation.md has every key"
_HARDWARE = ("name", "cpu_model")

DeclaredRate = Annotated[float, Meta(ge=1e-6, le=1e6)]
"""GB/s, 10^9 bytes."""
Duration = Annotated[float, Meta(ge=0.0, le=1.0)]
"""Seconds."""
OneOrTwo = Annotated[int, Meta(ge=1, le=2)]
GroupName = Annotated[
    str,
    Meta(
        pattern=r"^(host|software|nvml|gpu\d{1,2})\Z",
        description="host, software, nvml and gpu0, gpu1, ...",
    ),
]
FactName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_]{0,59}\Z", description="names of small letters, digits and _"),
]
FactValue = (
    bool
    | Annotated[int, Meta(ge=-(10**18), le=10**18)]
    | Annotated[float, Meta(ge=-1e18, le=1e18)]
    | OneLine
)
FactsTable = dict[GroupName, dict[FactName, FactValue]]


class LinkTable(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """`[link]`: the figures of `simulated_parts.Link`, rates in GB/s; None is the usual one."""

    generation: Annotated[int, Meta(ge=1, le=6)] | None = None
    """Of a PCIe link, which gives both directions their rate; 5 where only the width is given."""
    width: Lanes | None = None
    host_to_device_gb_per_s: DeclaredRate | None = None
    device_to_host_gb_per_s: DeclaredRate | None = None
    pageable_gb_per_s: DeclaredRate | None = None
    latency_s: Duration | None = None
    launch_s: Duration | None = None
    wait_s: Duration | None = None
    alloc_s: Duration | None = None
    malloc_s: Duration | None = None
    start_worker_s: Duration | None = None
    pin_gb_per_s: DeclaredRate | None = None
    num_copy_engines: OneOrTwo | None = None
    host_gb_per_s: DeclaredRate | None = None
    device_gb_per_s: DeclaredRate | None = None
    host_randn_gb_per_s: DeclaredRate | None = None
    device_randn_gb_per_s: DeclaredRate | None = None
    num_devices: OneOrTwo | None = None
    peer_gb_per_s: DeclaredRate | None = None
    compute_speed: Annotated[float, Meta(ge=1e-3, le=1e3)] | None = None

    @property
    def pcie(self) -> tuple[int, int] | None:
        """Generation and width of the PCIe link; None where neither is given."""
        if self.generation is None and self.width is None:
            return None
        return self.generation or 5, self.width or 16

    def link(self) -> Link:
        values: dict[str, float] = {}
        if self.pcie is not None:
            rate = packet_bytes_per_s(*self.pcie)
            values = dict.fromkeys(
                ("host_to_device_bytes_per_s", "device_to_host_bytes_per_s"), rate
            )
        for name, value in msgspec.structs.asdict(self).items():
            if value is not None and name not in ("generation", "width"):
                unit = GB if name.endswith("_gb_per_s") else 1
                values[name.replace("_gb_per_s", "_bytes_per_s")] = value * unit
        return Link(**values)  # type: ignore[arg-type]


class MachineTable(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a machine is, in a run's file and in a story."""

    link: LinkTable = LinkTable()
    facts: FactsTable = {}

    def all_facts(self) -> Facts:
        """All that a run on it knows of its machine: nothing of the real one is among them. The
        declared facts, the hardware's names marked, and the link."""
        facts: Facts = {
            "host": {"cpu_model": known("CPU")},
            "nvml": {"num_gpus": known(1)},
            "gpu0": {"name": known("GPU")},
        }
        if self.link.pcie is not None:
            generation, width = self.link.pcie
            facts["gpu0"] |= {"pcie_generation": known(generation), "pcie_width": known(width)}
        for group, values in self.facts.items():
            declared = {name: known(value) for name, value in values.items()}
            facts[group] = {**facts.get(group, {}), **declared}
        for members in facts.values():
            for name in _HARDWARE:
                if name in members and MARK not in str(members[name].value).lower():
                    members[name] = known(f"{MARK.capitalize()} {members[name].value}")
        link = asdict(self.link.link())
        return {**facts, GROUP: {name: known(value) for name, value in link.items()}}


class Simulation(MachineTable, frozen=True, kw_only=True):
    """The whole file."""

    dated: datetime | None = field(name="date", default=None)
    commit: (
        Annotated[str, Meta(pattern=r"^[0-9a-f]{40}\Z", description="40 hex digits in lower case")]
        | None
    ) = None
    """The commit that the run is filed under, whatever is checked out."""
    made: datetime | None = field(name="committed_at", default=None)
    noise: Noise = Noise()
    slowdown: dict[str, Annotated[float, Meta(ge=0.01, le=100.0)]] = {}

    def __post_init__(self) -> None:
        check_time("date", self.dated)
        check_time("committed_at", self.made)
        self.slower()

    @property
    def date(self) -> str | None:
        """ISO 8601 in UTC."""
        return iso(self.dated.timestamp()) if self.dated else None

    @property
    def committed_at(self) -> str | None:
        """ISO 8601 in UTC; the date where the file does not say."""
        return iso(self.made.timestamp()) if self.made else self.date

    def slower(self) -> tuple[tuple[Selector, float], ...]:
        """Raises ValueError for what is no case."""
        try:
            return tuple((parse_selector(text), by) for text, by in self.slowdown.items())
        except UsageError as error:
            raise ValueError(f"slowdown: {error}") from None

    def pace(self, launch: int) -> Pace:
        """The noise is of the side that is measured, or else of the file's commit."""
        of = f"{self.date} {os.environ.get(SIDE) or self.commit}"
        return Pace(slowdown=self.slower(), noise=self.noise, of=of, launch=launch)


def declared() -> Simulation | None:
    """What HOSTBENCH_SIMULATION names; None where it is not set. Raises UsageError."""
    name = os.environ.get(VARIABLE)
    return read(Path(name)) if name else None


def read(path: Path) -> Simulation:
    """Raises UsageError that names the file, the key, its value, the limit and the remedy."""
    return decode_toml(path, Simulation, REMEDY)


def check_time(key: str, at: datetime | None) -> None:
    """Raises ValueError for a time without a zone, or one that no archive can hold."""
    if at is None:
        return
    if at.tzinfo is None or at.year < 1970 or not is_storable(at.timestamp()):
        refuse(key, str(at), "a time with its zone from 1970 to 2261, as in 2026-03-01T02:00:00Z")
