"""One fact: a value, or why there is none, as it is stored. A facts set is group -> name -> Fact.

Groups are `host`, `software`, `nvml` and `gpu0`, `gpu1`, ...; `spec` has a row for each name.
"""

from msgspec import Struct

Value = str | int | float | bool

MOST_FOREIGN = 0.1
"""Share of the CPU that other programs may take on a quiet machine."""


class Unknown(Struct, frozen=True):
    """Why there is no value."""

    why: str
    value: None = None
    """What readers of JSON look at first."""

    def __str__(self) -> str:
        return f"unknown ({self.why})"


NO_VALUE = Unknown("there is none, or the system does not say")

Fact = Value | Unknown
Group = dict[str, Fact]
Facts = dict[str, Group]


def value_of(facts: Facts, group: str, name: str) -> Value | None:
    """The value, or None where the fact is unknown or was not recorded."""
    fact = facts.get(group, {}).get(name)
    return None if isinstance(fact, Unknown) else fact


def why_unknown(facts: Facts, group: str, name: str) -> str | None:
    """Why a fact has no value; None where it has one, or was not recorded."""
    fact = facts.get(group, {}).get(name)
    return fact.why if isinstance(fact, Unknown) else None


def number_of(facts: Facts, group: str, name: str) -> float | None:
    """The value where it is a number, else None."""
    value = value_of(facts, group, name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def text_of(facts: Facts, group: str, name: str) -> str | None:
    """The value where it is text, else None."""
    value = value_of(facts, group, name)
    return value if isinstance(value, str) else None


def busy(before: Facts, during: Facts) -> str:
    """`others took 35% CPU`, or where nothing was watched `load 3.8`; empty on a quiet machine."""
    others = number_of(during, "host", "foreign_cpu_share")
    if others is not None:
        return f"others took {others:.0%} CPU" if others > MOST_FOREIGN else ""
    load = number_of(before, "host", "load_average_1min")
    cores = number_of(before, "host", "num_logical_cores")
    return f"load {load:.1f}" if load and cores and load > cores else ""


def gpu_groups(facts: Facts) -> list[str]:
    """`gpu0`, `gpu1`, ... in numeric order."""
    names = [name for name in facts if name.startswith("gpu") and name[3:].isdigit()]
    return sorted(names, key=lambda name: int(name[3:]))


def cuda_group(facts: Facts, index: int = 0) -> str | None:
    """The group of that CUDA device, 0 where one runs and 1 where a copy goes from there; None
    where none is known to be it. A GPU that is alone is device 0."""
    groups = gpu_groups(facts)
    numbered = [group for group in groups if number_of(facts, group, "cuda_index") == index]
    if len(numbered) == 1:
        return numbered[0]
    return (groups or ["gpu0"])[0] if index == 0 and len(groups) < 2 else None
