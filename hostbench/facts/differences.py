"""What differs between two sets of facts, and which of it may explain that a number moved: the
likeliest first, by the rows of `spec`.

What one side did not record says nothing. What moves from minute to minute counts only where it
moved far. What tells another machine apart (`identity`) resets the baseline of a series instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hostbench.facts import spec
from hostbench.facts.record import Fact, Facts, Unknown, cuda_group, text_of

RunFacts = Mapping[str, Facts]
"""When (`before`, `during`) -> facts of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that changed; None on a side where it was not recorded at all."""

    group: str
    name: str
    before: Fact | None
    after: Fact | None

    def __str__(self) -> str:
        """`driver: 580.1 -> 590.2`; with the group where it is a GPU's."""
        name = f"{self.group}.{self.name}" if self.group.startswith("gpu") else self.name
        sides = ("not set" if side is None else str(side) for side in (self.before, self.after))
        return f"{name}: {' -> '.join(sides)}"


def possible(before: RunFacts, after: RunFacts) -> list[Difference]:
    """What differs between two runs and may be a cause: of the groups that both have, known on both
    sides, and far enough for what always moves."""
    first, second, causes = _under_load(before), _under_load(after), list[Difference]()
    for group, members in first.items():
        for name in {**members, **second[group]} if members and group in second else ():
            old, new = members.get(name), second[group].get(name)
            if _has_moved(name, old, new):
                causes.append(Difference(group=group, name=name, before=old, after=new))
    return sorted(causes, key=lambda cause: (spec.cause(cause.name), cause.group, cause.name))


def identity(facts: Facts) -> dict[str, str]:
    """What makes it another machine: CPU, the GPU that runs, MIG. Only what is known."""
    ran = cuda_group(facts) or ""
    parts = {
        "cpu": text_of(facts, "host", "cpu_model"),
        "gpu": text_of(facts, ran, "name"),
        "mig": text_of(facts, ran, "mig"),
    }
    return {name: value for name, value in parts.items() if value}


def _under_load(run: RunFacts) -> Facts:
    """Facts from before a run; of what is watched those of the run."""
    facts = {group: dict(members) for group, members in run.get("before", {}).items()}
    for group, members in run.get("during", {}).items():
        own = facts.setdefault(group, {})
        own |= {name: fact for name, fact in members.items() if not isinstance(fact, Unknown)}
    return facts


def _has_moved(name: str, old: Fact | None, new: Fact | None) -> bool:
    """Whether it counts. A variable that is not set has no fact; in older archives one says so."""
    if name.startswith("env_"):
        old, new = (None if fact == Unknown("not set") else fact for fact in (old, new))
        return old != new
    row = spec.row(name)
    if row is None or row.moved is None or old is None or new is None:
        return False
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return False
    return row.moved(old, new)
