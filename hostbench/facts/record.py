"""One fact: a value, or the reason why there is none. A facts set is group -> name -> Fact.

Groups are `host`, `software`, `nvml` and `gpu0`, `gpu1`, ...; `spec` has a row for each name.
"""

from typing import Any

from msgspec import Struct, ValidationError, convert

from hostbench.core.errors import DataError

Value = str | int | float | bool | None

MOST_FOREIGN = 0.1
"""Share of the CPU that other programs may take on a quiet machine."""


class Fact(Struct, frozen=True, kw_only=True):
    """`why` says why there is no value; it is None exactly when there is one."""

    value: Value
    why: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.why):
            raise ValueError(f"a fact has a value or a reason, not {self.value!r} and {self.why!r}")

    def __str__(self) -> str:
        return str(self.value) if self.why is None else f"unknown ({self.why})"


Group = dict[str, Fact]
Facts = dict[str, Group]


def known(value: str | int | float | bool) -> Fact:
    return Fact(value=value)


def unknown(why: str) -> Fact:
    return Fact(value=None, why=why)


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


def busy(before: Facts, during: Facts) -> str:
    """`others took 35% CPU`, or where nothing was watched `load 3.8`; empty on a quiet machine."""
    others = number_of(during, "host", "foreign_cpu_share")
    if others is not None:
        return f"others took {others:.0%} CPU" if others > MOST_FOREIGN else ""
    load = number_of(before, "host", "load_average_1min")
    cores = number_of(before, "host", "num_logical_cores")
    return f"load {load:.1f}" if load and cores and load > cores else ""


def text_of(facts: Facts, group: str, name: str) -> str | None:
    """The value where it is text, else None."""
    value = value_of(facts, group, name)
    return value if isinstance(value, str) else None


def gpu_groups(facts: Facts) -> list[str]:
    """`gpu0`, `gpu1`, ... in numeric order."""
    names = [name for name in facts if name.startswith("gpu") and name[3:].isdigit()]
    return sorted(names, key=lambda name: int(name[3:]))


def cuda_group(facts: Facts) -> str | None:
    """The group of CUDA device 0, which is what runs; None where several GPUs leave that open."""
    groups = gpu_groups(facts)
    group = _of_cuda_index(facts, 0)
    if group is not None:
        return group
    return (groups or ["gpu0"])[0] if len(groups) < 2 else None


def second_group(facts: Facts) -> str | None:
    """The group of CUDA device 1, to which a copy between devices goes; None where none is known
    to be it."""
    return _of_cuda_index(facts, 1)


def _of_cuda_index(facts: Facts, index: int) -> str | None:
    groups = [
        group for group in gpu_groups(facts) if number_of(facts, group, "cuda_index") == index
    ]
    return groups[0] if len(groups) == 1 else None


def is_counter(name: str) -> bool:
    return name.endswith("_total") or "_total_" in name


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
        groups = convert(data, dict[str, dict[str, _StoredFact | Value]])
    except ValidationError as error:
        raise DataError(f"damaged facts: {error}") from error
    return {
        group: {name: _fact(stored) for name, stored in members.items()}
        for group, members in groups.items()
    }


class _StoredFact(Struct, frozen=True):
    value: Value = None
    why: str | None = None


def _fact(stored: _StoredFact | Value) -> Fact:
    value, why = (stored.value, stored.why) if isinstance(stored, _StoredFact) else (stored, None)
    return unknown(why or "no reason was recorded") if value is None else known(value)
