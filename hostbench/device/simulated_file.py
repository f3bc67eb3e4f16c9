"""HOSTBENCH_SIMULATION=FILE.toml: the figures of the simulated device; docs/simulation.md."""

import math
import os
import random
from datetime import datetime
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import asdict, force_setattr

from hostbench.core.case import Case, Selector, parse_selector
from hostbench.core.clock import is_storable, iso
from hostbench.core.errors import UsageError
from hostbench.core.pcie import Lanes, packet_bytes_per_s
from hostbench.core.toml import OneLine, decode_toml, refuse
from hostbench.core.units import GB
from hostbench.facts.record import Facts, known

VARIABLE = "HOSTBENCH_SIMULATION"
MARK = "simulated"
"""Word in the name of every machine that is one, and in the text of its hardware."""
GROUP = "simulation"
"""The facts' group that says that the others are made up."""

Rate = Annotated[float, Meta(ge=1e3, le=1e15)]
"""Bytes per second."""
Duration = Annotated[float, Meta(ge=0.0, le=1.0)]
"""Seconds."""
Spread = Annotated[float, Meta(ge=0.0, le=0.5)]
"""Standard deviation of the logarithm of seconds: 0.01 is 1 %."""
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


class Link(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """`[link]`: the simulated machine. The default is a round-numbered card with a peer."""

    generation: Annotated[int, Meta(ge=1, le=6)] | None = None
    """Of a PCIe link, which gives both directions their rate; 5 where only the width is given."""
    width: Lanes | None = None
    host_to_device_bytes_per_s: Rate = 0.0
    """0 stands for the PCIe link's, or for 50 GB/s where no link is declared."""
    device_to_host_bytes_per_s: Rate = 0.0
    pageable_bytes_per_s: Rate = 10 * GB
    latency_s: Duration = 5e-6
    launch_s: Duration = 2e-6
    wait_s: Duration = 3e-6
    alloc_s: Duration = 1e-6
    """An allocation that a cache answers."""
    malloc_s: Duration = 1e-3
    """A device allocation that no cache answers, beside `alloc_s`."""
    pin_bytes_per_s: Rate = 2 * GB
    """Page-locking host memory that no cache holds."""
    num_copy_engines: OneOrTwo = 2
    host_bytes_per_s: Rate = 20 * GB
    device_bytes_per_s: Rate = 2000 * GB
    host_randn_bytes_per_s: Rate = 0.5 * GB
    device_randn_bytes_per_s: Rate = 500 * GB
    num_devices: OneOrTwo = 2
    peer_bytes_per_s: Rate = 400 * GB
    start_worker_s: Duration = 0.01
    """Of a DataLoader."""

    def __post_init__(self) -> None:
        rate = 50 * GB if self.pcie is None else packet_bytes_per_s(*self.pcie)
        for name in ("host_to_device_bytes_per_s", "device_to_host_bytes_per_s"):
            force_setattr(self, name, getattr(self, name) or rate)

    @property
    def pcie(self) -> tuple[int, int] | None:
        """Generation and width; None where neither is given."""
        if self.generation is None and self.width is None:
            return None
        return self.generation or 5, self.width or 16


class Noise(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """`[noise]`: normal on the logarithm of seconds."""

    launch: Spread = 0.0
    """From launch to launch."""
    sample: Spread = 0.0
    """From one device-wide synchronize to the next."""
    seed: Annotated[int, Meta(ge=0, le=1 << 62)] = 0


class Simulation(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole file."""

    link: Link = Link()
    facts: dict[GroupName, dict[FactName, bool | int | float | OneLine]] = {}
    """All that a run knows of its machine: nothing of the real one is among them."""
    dated: datetime | None = field(name="date", default=None)
    commit: (
        Annotated[str, Meta(pattern=r"^[0-9a-f]{40}\Z", description="40 hex digits in lower case")]
        | None
    ) = None
    """The commit that the run is filed under, whatever is checked out."""
    noise: Noise = Noise()
    slowdown: dict[str, Annotated[float, Meta(ge=0.01, le=100.0)]] = {}

    def __post_init__(self) -> None:
        at = self.dated
        if at and (at.tzinfo is None or at.year < 1970 or not is_storable(at.timestamp())):
            limit = "a time with its zone from 1970 to 2261, as in 2026-03-01T02:00:00Z"
            refuse("date", str(at), limit)
        self.slower()

    @property
    def date(self) -> str | None:
        """ISO 8601 in UTC."""
        return iso(self.dated.timestamp()) if self.dated else None

    def slower(self) -> tuple[tuple[Selector, float], ...]:
        """Raises ValueError for what is no case."""
        try:
            return tuple((parse_selector(text), by) for text, by in self.slowdown.items())
        except UsageError as error:
            raise ValueError(f"slowdown: {error}") from None

    def all_facts(self) -> Facts:
        """The declared facts, the hardware's names marked, and the link."""
        facts: Facts = {
            "host": {"cpu_model": known("CPU")},
            "nvml": {"num_gpus": known(1)},
            "gpu0": {"name": known("GPU")},
        }
        if self.link.pcie is not None:
            generation, width = self.link.pcie
            facts["gpu0"] |= {"pcie_generation": known(generation), "pcie_width": known(width)}
        for group, values in self.facts.items():
            facts.setdefault(group, {}).update({n: known(value) for n, value in values.items()})
        for members in facts.values():
            for name in members.keys() & {"name", "cpu_model"}:
                if MARK not in str(members[name].value).lower():
                    members[name] = known(f"{MARK.capitalize()} {members[name].value}")
        link = asdict(self.link).items()
        return {**facts, GROUP: {name: known(value) for name, value in link if value is not None}}


class Pace:
    """How much slower than its link the device is now; 1 until a case is entered, so that what is
    built and calibrated is so at full speed. The same file, case and launch give the same noise."""

    def __init__(self, simulation: Simulation, launch: int = 0) -> None:
        self._simulation, self._launch = simulation, launch
        self.leave()

    def enter(self, case: Case) -> None:
        simulation, noise = self._simulation, self._simulation.noise
        about = (noise.seed, simulation.date, simulation.commit, case, self._launch)
        self._random = random.Random("-".join(map(str, about)))
        slower = math.prod(by for selector, by in simulation.slower() if selector.selects(case))
        self._of_case = slower * math.exp(self._random.gauss(0.0, noise.launch))
        self._sample = noise.sample
        self.next_sample()

    def next_sample(self) -> None:
        noise = math.exp(self._random.gauss(0.0, self._sample)) if self._sample else 1.0
        self.factor = self._of_case * noise

    def leave(self) -> None:
        self._random = random.Random(0)
        self.factor = self._of_case = 1.0
        self._sample = 0.0


def declared() -> Simulation | None:
    """What HOSTBENCH_SIMULATION names; None where it is not set. Raises UsageError."""
    name = os.environ.get(VARIABLE)
    return read(Path(name)) if name else None


def read(path: Path) -> Simulation:
    """Raises UsageError that names the file, the key, its value, the limit and the remedy."""
    return decode_toml(path, Simulation, "docs/simulation.md has every key")
