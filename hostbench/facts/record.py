"""One fact: a value, or the reason why there is none. A facts set is group -> name -> Fact.

Groups are `host`, `software`, `nvml` and `gpu0`, `gpu1`, ...; `spec` has a row for each name.
"""

from typing import Any

from msgspec import Struct, ValidationError, convert

from hostbench.core.errors import DataError

Value = str | int | float | bool | None

MOST_FOREIGN = 0.1
"""Share of the CPU that other programs may take on a quiet machine."""


class Fact(Struct, frozen=True):
    """`why` says why there is no value; it is None exactly when there is one."""

    value: Value = None
    why: str | None = None

    def __str__(self) -> str:
        return str(self.value) if self.why is None else f"unknown ({self.why})"


Group = dict[str, Fact]
Facts = dict[str, Group]


def known(value: str | int | float | bool) -> Fact:
    return Fact(value=value)


def unknown(why: str) -> Fact:
    return Fact(why=why)


def value_of(facts: Facts, group: str, name: str) -> Value:
    """The value, or None where the fact is unknown or was not recorded."""
    fact = facts.get(group, {}).get(name)
    return None if fact is None else fact.value


def why_unknown(facts: Facts, group: str, name: str) -> str | None:
    """Why a fact has no value; None where it has one, or was not recorded."""
    fact = facts.get(group, {}).get(name)
    return None if fact is None else fact.why


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


def to_json(facts: Facts) -> dict[str, dict[str, Any]]:
    """A known fact is its value; an unknown one is `{"value": null, "why": reason}`."""
    return {
        group: {
            name: fact.value if fact.why is None else {"value": None, "why": fact.why}
            for name, fact in members.items()
        }
        for group, members in facts.items()
    }


def from_json(data: Any) -> Facts:
    """The inverse of `to_json`. Raises DataError for anything that is not a facts set."""
    try:
        groups = convert(data, dict[str, dict[str, Fact | Value]])
    except ValidationError as error:
        raise DataError(f"damaged facts: {error}") from error
    facts: Facts = {}
    for group, members in groups.items():
        facts[group] = {}
        for name, stored in members.items():
            fact = stored if isinstance(stored, Fact) else Fact(stored)
            is_silent = fact.value is None and not fact.why
            facts[group][name] = unknown("no reason was recorded") if is_silent else fact
    return facts
