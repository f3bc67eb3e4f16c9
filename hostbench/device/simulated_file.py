"""HOSTBENCH_SIMULATION=FILE.toml: what the simulated device pretends to be.

docs/simulation.md explains every key.
"""

import os
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from hostbench.core.case import Selector, parse_selector
from hostbench.core.errors import UsageError
from hostbench.core.noise import FAMILIES
from hostbench.core.pcie import GT_PER_S, LANES, packet_bytes_per_s
from hostbench.core.toml_file import Table, load
from hostbench.core.units import GB
from hostbench.device.simulated_pace import Noise, Pace
from hostbench.device.simulated_parts import Link
from hostbench.facts.record import Facts, Group, known

VARIABLE = "HOSTBENCH_SIMULATION"
SIDE = "HOSTBENCH_SIMULATION_SIDE"
"""Which of two codes that take turns a worker measures: its noise is of that, not of the file's
commit. Set for the workers alone."""
MARK = "simulated"
"""Word in the name of every machine that is one, and in the text of its hardware."""
GROUP = "simulation"
"""The facts' group that says that the others are made up."""

_KEYS = ("date", "commit", "committed_at", "link", "noise", "facts", "slowdown")
_REMEDY = "docs/simulation.md has every key"
_MOST_GB_PER_S = 1e6
_MOST_SLOWER = 100.0
_GROUP = re.compile(r"host|software|nvml|gpu\d{1,2}")
_FACT = re.compile(r"[a-z][a-z0-9_]{0,59}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_WHOLE = {"num_copy_engines": 2, "num_devices": 2}
_HARDWARE = ("name", "cpu_model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A file as read. Times are ISO 8601 in UTC."""

    facts: Facts
    """All that a run on it knows of its machine: nothing of the real one is among them."""
    link: Link = field(default_factory=Link)
    noise: Noise = field(default_factory=Noise)
    slowdown: tuple[tuple[Selector, float], ...] = ()
    date: str | None = None
    commit: str | None = None
    """40 hex digits: the commit that the run is filed under, whatever is checked out."""
    committed_at: str | None = None

    def pace(self, launch: int) -> Pace:
        return Pace(slowdown=self.slowdown, noise=self.noise, launch=launch)


def declared() -> Simulation | None:
    """What HOSTBENCH_SIMULATION names; None where it is not set. Raises UsageError."""
    name = os.environ.get(VARIABLE)
    return read(Path(name), os.environ.get(SIDE)) if name else None


def read(path: Path, side: str | None = None) -> Simulation:
    """`side` takes the place of the commit in what the noise depends on.

    Raises UsageError that names the file, the key, its value, the limit and the remedy.
    """
    table = load(path, _REMEDY).only(_KEYS)
    commit = table.text("commit") or None
    if commit and not _COMMIT.fullmatch(commit):
        table.refuse("commit", "40 hex digits in lower case")
    date = table.time("date")
    link, pcie = _link(table.table("link"))
    return Simulation(
        link=link,
        noise=_noise(table.table("noise"), f"{date} {side or commit}"),
        slowdown=_slowdown(table.table("slowdown")),
        facts=_facts(table.table("facts"), link, pcie),
        date=date,
        commit=commit,
        committed_at=table.time("committed_at") or date,
    )


def machine_facts(declared: Facts, link: Link) -> Facts:
    """Facts of a simulated machine: the declared ones, the hardware's names marked, the link."""
    facts: Facts = {
        "host": {"cpu_model": known("CPU")},
        "nvml": {"num_gpus": known(1)},
        "gpu0": {"name": known("GPU")},
    }
    for group, members in declared.items():
        facts[group] = {**facts.get(group, {}), **members}
    for members in facts.values():
        for name in _HARDWARE:
            if name in members and MARK not in str(members[name].value).lower():
                members[name] = known(f"{MARK.capitalize()} {members[name].value}")
    return {**facts, GROUP: {name: known(value) for name, value in asdict(link).items()}}


def _link(table: Table) -> tuple[Link, Group]:
    """The link, and the facts that go with its PCIe generation and width."""
    keys = {f.name.replace("_bytes_per_s", "_gb_per_s"): f.name for f in fields(Link)}
    table.only(("generation", "width", *keys))
    values, pcie = _pcie(table)
    for key in keys.keys() & table.values.keys():
        name = keys[key]
        if name in _WHOLE:
            values[name] = table.whole(key, 1, 1, _WHOLE[name])
        elif key.endswith("_gb_per_s"):
            values[name] = table.number(key, 1.0, 1e-6, _MOST_GB_PER_S) * GB
        elif name == "compute_speed":
            values[name] = table.number(key, 1.0, 1e-3, 1e3)
        else:
            values[name] = table.number(key, 0.0, 0.0, 1.0)
    return Link(**values), pcie  # type: ignore[arg-type]


def _pcie(table: Table) -> tuple[dict[str, float], Group]:
    """Both directions' rates, and the facts; nothing where neither key is there."""
    if not {"generation", "width"} & table.values.keys():
        return {}, {}
    generation = table.whole("generation", 5, 1, max(GT_PER_S))
    width = table.one_of("width", 16, LANES)
    rate = packet_bytes_per_s(generation, width)
    facts = {"pcie_generation": known(generation), "pcie_width": known(width)}
    return {"host_to_device_bytes_per_s": rate, "device_to_host_bytes_per_s": rate}, facts


def _noise(table: Table, run: str) -> Noise:
    table.only(("family", "launch", "sample", "seed"))
    return Noise(
        family=table.text("family", "gauss", FAMILIES),
        launch=table.number("launch", 0.0, 0.0, 0.5),
        sample=table.number("sample", 0.0, 0.0, 0.5),
        seed=f"{table.whole('seed', 0, 0, 1 << 62)} {run}",
    )


def _slowdown(table: Table) -> tuple[tuple[Selector, float], ...]:
    found = []
    for text in table.values:
        try:
            selector = parse_selector(text)
        except UsageError as error:
            raise UsageError(f"{table.file}: slowdown: {error}") from None
        found.append((selector, table.number(text, 1.0, 1 / _MOST_SLOWER, _MOST_SLOWER)))
    return tuple(found)


def _facts(table: Table, link: Link, pcie: Group) -> Facts:
    found: Facts = {"gpu0": dict(pcie)}
    for group in table.values:
        if not _GROUP.fullmatch(group):
            table.unknown(group, "host, software, nvml and gpu0, gpu1, ...")
        members = table.table(group)
        for name, value in members.values.items():
            if not _FACT.fullmatch(name):
                members.unknown(name, "names of small letters, digits and _")
            if isinstance(value, bool):
                found.setdefault(group, {})[name] = known(value)
            elif isinstance(value, int | float):
                members.number(name, 0, -1e18, 1e18)
                found.setdefault(group, {})[name] = known(value)
            else:
                found.setdefault(group, {})[name] = known(members.text(name))
    return machine_facts(found, link)
