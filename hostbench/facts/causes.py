"""What differs between two sets of facts, and which of it may explain that a number moved: the
likeliest first, by the rows of `spec`.

What one side did not record says nothing. What moves from minute to minute counts only where it
moved far. What tells another machine apart (`identity`) resets the baseline of a series instead.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hostbench.facts import spec
from hostbench.facts.record import Fact, Facts, cuda_group, number_of, text_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that changed; None on a side where it was not recorded at all."""

    group: str
    name: str
    before: Fact | None
    after: Fact | None


def differences(a: Facts, b: Facts) -> list[Difference]:
    """Facts whose value changed from `a` to `b`, in the order of the records.

    Reasons are not compared: a fact that is unknown on both sides has not changed. What always
    moves is left out.
    """
    return [
        Difference(group=group, name=name, before=old, after=new)
        for group, name, old, new in _pairs(a, b)
        if spec.is_steady(name) and (old.value if old else None) != (new.value if new else None)
    ]


def possible(before: Mapping[str, Facts], after: Mapping[str, Facts]) -> list[Difference]:
    """What differs between two runs and may be a cause; each run is `before`, `during` -> facts.

    Of what always moves the reading under load counts where the run was watched.
    """
    causes = []
    first, second = _of_a_run(before), _of_a_run(after)
    steady = before.get("before", {}), after.get("before", {})
    for moves, (old, new) in ((False, steady), (True, (first, second))):
        for group, name, was, now in _pairs(old, new):
            in_both = group in old and group in new
            if in_both and spec.cause(name) and _moves(name) is moves and _changed(name, was, now):
                causes.append(Difference(group=group, name=name, before=was, after=now))
    return sorted(causes, key=lambda cause: (spec.cause(cause.name), cause.group, cause.name))


def setup(run: Mapping[str, Facts]) -> Facts:
    """How its machine was set up in a run (`before`, `during` -> facts): what may be a cause and
    does not move from minute to minute, with the link as it was under load; only what is known, or
    is a limit that may not be there."""
    facts_of_setup: Facts = {}
    for when, counts in (("before", spec.is_steady), ("during", spec.is_of_the_link)):
        for group, members in run.get(when, {}).items():
            for name, fact in members.items():
                says = fact.why is None or _may_lack(name, fact)
                if says and counts(name) and spec.cause(name):
                    facts_of_setup.setdefault(group, {})[name] = fact
    return facts_of_setup


def over_time(setups: Iterable[tuple[T, Facts]]) -> Iterator[tuple[T, Difference]]:
    """What each of these setups, the oldest first, changed against what was known before it."""
    known: Facts = {}
    last: Facts | None = None
    for at, facts in setups:
        if facts is last:
            continue
        last = facts
        for group, name, was, now in [*_pairs(known, facts)]:
            in_both = bool(known.get(group)) and group in facts
            if in_both and _changed(name, was, now):
                yield at, Difference(group=group, name=name, before=was, after=now)
            if now is not None:
                known.setdefault(group, {})[name] = now
            elif in_both and name.startswith("env_"):
                del known[group][name]


def identity(facts: Facts) -> dict[str, str]:
    """What makes it another machine: CPU, the GPU that runs, MIG. Only what is known."""
    ran = cuda_group(facts) or ""
    parts = {
        "cpu": text_of(facts, "host", "cpu_model"),
        "gpu": text_of(facts, ran, "name"),
        "mig": text_of(facts, ran, "mig"),
    }
    if parts["mig"] == "on":
        slices = number_of(facts, ran, "num_mig_devices")
        parts["mig"] = "on" if slices is None else f"{slices:.0f} slices"
    return {name: value for name, value in parts.items() if value}


def _of_a_run(run: Mapping[str, Facts]) -> Facts:
    """Facts that move: those read under load over those from before."""
    whole = {group: dict(members) for group, members in run.get("before", {}).items()}
    for group, members in run.get("during", {}).items():
        known = {name: fact for name, fact in members.items() if fact.why is None}
        whole.setdefault(group, {}).update(known)
    return whole


def _pairs(a: Facts, b: Facts) -> Iterator[tuple[str, str, Fact | None, Fact | None]]:
    for group in {**a, **b}:
        old, new = a.get(group, {}), b.get(group, {})
        for name in {**old, **new}:
            yield group, name, old.get(name), new.get(name)


def _moves(name: str) -> bool:
    row = spec.row(name)
    return row is not None and row.moved is not None


def _changed(name: str, old: Fact | None, new: Fact | None) -> bool:
    """Whether it counts: far enough for what always moves, and known on both sides."""
    if name.startswith("env_"):
        return _setting(old) != _setting(new)
    if old is None or new is None:
        return False
    row = spec.row(name)
    both = old.why is None and new.why is None
    if row is not None and row.moved is not None:
        return both and row.moved(old.value, new.value)
    return (both or (row is not None and row.absent_counts)) and old.value != new.value


def _may_lack(name: str, fact: Fact) -> bool:
    """Whether that it has no value says something: a limit, or a variable that is set to what is
    not stored."""
    row = spec.row(name)
    absent = row is not None and row.absent_counts
    return absent or (name.startswith("env_") and fact.why != "not set")


def _setting(fact: Fact | None) -> str:
    """A variable that was not recorded was not set: only NCCL's are recorded when they are."""
    return "not set" if fact is None or fact.why == "not set" else str(fact)
