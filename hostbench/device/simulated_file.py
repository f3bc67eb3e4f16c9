"""HOSTBENCH_SIMULATION=FILE.toml: the figures of the simulated device; docs/commands.md."""

import math
import os
import random
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from hostbench.core.case import Case, Selector, parse_selector
from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored
from hostbench.core.units import GB
from hostbench.facts.record import Facts

VARIABLE = "HOSTBENCH_SIMULATION"
MARK = "simulated"
"""Word in the name of every machine that is one, and in the text of its hardware."""
GROUP = "simulation"
"""The facts' group that says that the others are made up."""

Rate = Annotated[float, Meta(ge=1e3, le=1e15)]
"""Bytes per second."""
Duration = Annotated[float, Meta(ge=0.0, le=1.0)]
"""Seconds."""


class Link(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """`[link]`: the simulated machine. The default is a round-numbered card with a peer."""

    host_to_device_bytes_per_s: Rate = 50 * GB
    device_to_host_bytes_per_s: Rate = 50 * GB
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
    num_copy_engines: Annotated[int, Meta(ge=1, le=2)] = 2
    host_bytes_per_s: Rate = 20 * GB
    device_bytes_per_s: Rate = 2000 * GB
    peer_bytes_per_s: Rate = 400 * GB
    start_worker_s: Duration = 0.01
    """Of a DataLoader."""


class Simulation(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole file."""

    link: Link = Link()
    noise: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.0
    """From launch to launch, the standard deviation of the logarithm of seconds: 0.01 is 1 %."""
    seed: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    slowdown: dict[str, Annotated[float, Meta(ge=0.01, le=100.0)]] = {}
    """By selector of cases."""

    def __post_init__(self) -> None:
        try:
            self.slower()
        except UsageError as error:
            raise ValueError(f"slowdown: {error}") from None

    def slower(self) -> tuple[tuple[Selector, float], ...]:
        """Which cases are slower, and how many times."""
        return tuple((parse_selector(text), times) for text, times in self.slowdown.items())

    def pace(self, case: Case, launch: int) -> float:
        """What multiplies the times of a case; the same file, case and launch give the same."""
        slower = math.prod(times for selector, times in self.slower() if selector.selects(case))
        noise = random.Random(f"{self.seed}-{case}-{launch}").gauss(0.0, self.noise)
        return slower * math.exp(noise)

    def all_facts(self) -> Facts:
        """All that a run knows of its machine: nothing of the real one is among them."""
        return {
            "host": {"cpu_model": "Simulated CPU"},
            "nvml": {"num_gpus": 1},
            "gpu0": {"name": "Simulated GPU"},
            GROUP: asdict(self.link),
        }


def declared() -> Simulation | None:
    """What HOSTBENCH_SIMULATION names; None where it is not set. Raises UsageError that names the
    file, the key, its value, the limit and the remedy."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    try:
        return msgspec.toml.decode(read_stored(Path(path)), type=Simulation)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}; docs/commands.md has every key") from error
