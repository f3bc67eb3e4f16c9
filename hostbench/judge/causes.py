"""Why a number moved: one label and the evidence for it, the weightiest first.

Code and environment both change all the time, so that a step by itself says little. What decides
is what else moved, or did not: the same series on other machines, the other series of this machine,
and the same commit measured again. Pure functions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hostbench.facts.causes import Difference
from hostbench.judge.events import DetectedEvent
from hostbench.judge.surroundings import Differing, Surroundings

Label = Literal["code", "environment", "machine-wide", "measurement changed", "unknown"]

FEWEST_SERIES = 6
"""Other series that must have points before their standing still says anything."""
MANY, FEW = 0.5, 0.1
"""Share of the machine's other series that move along when the environment does, and at most when
it is plainly one thing that was touched."""
SHOWN_COMMITS = 3
SAME_FACTS = "same driver, torch and hardware"

_STRONG, _UNCHANGED, _PLAIN, _SLIGHT = 4, 3, 2, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that landed; `subject` is None where git was not at hand."""

    commit: str
    subject: str | None
    is_likely: bool = True
    """Between the two points that the step most probably lies between, not one beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What differs between the last certain point at the old level and the first at the new."""

    commits: tuple[Commit, ...]
    """That landed, the likely ones first, each the newest first; empty where the code is the same.
    """
    facts: Differing
    measuring: tuple[str, ...] = ()
    """hostbench's own parameters: `launches 10 -> 20`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    label: Label
    why: tuple[str, ...]
    """The evidence in words, the weightiest first."""


def cause(found: DetectedEvent, seen: Surroundings, differ: Differences) -> Cause:
    """The label of one change."""
    if found.change.kind == "break":
        is_version = found.why.startswith("version ")
        return Cause(
            label="measurement changed" if is_version else "environment",
            why=(found.why or "a baseline reset was declared here",),
        )
    if not differ.commits:
        same = "the same commit on both sides"
        return Cause(label=_of_environment(differ), why=(same, *_told(differ)))
    label, evidence = _weighed(found, seen, differ)
    return Cause(label=label, why=(*evidence, *_told(differ)))


def _of_environment(differ: Differences) -> Label:
    return "measurement changed" if differ.measuring and not differ.facts else "environment"


def _weighed(
    found: DetectedEvent, seen: Surroundings, differ: Differences
) -> tuple[Label, list[str]]:
    """Commits landed: was it them, or the environment?"""
    is_machine, explained = found.series is None, bool(differ.facts or differ.measuring)
    series = "series of this machine" if is_machine else "other series of this machine"
    for_code = list(_for_code(seen, series))
    for_environment = list(_for_environment(seen, series))
    if differ.facts is not None and not explained:
        weight = 0 if is_machine or seen.machine else _UNCHANGED
        for_code.append((weight, SAME_FACTS))
    evidence = [text for _, text in sorted([*for_code, *for_environment], reverse=True)]
    code, environment = (sum(weight for weight, _ in one) for one in (for_code, for_environment))
    if is_machine and not explained:
        return ("code" if seen.elsewhere else "machine-wide"), evidence
    if seen.machine:
        return ("code" if code > environment else "machine-wide"), evidence
    too_little = differ.facts is None and max(code, environment) < _PLAIN
    if code == environment or too_little:
        return ("machine-wide" if is_machine else "unknown"), evidence
    return ("code" if code > environment else _of_environment(differ)), evidence


def _for_code(seen: Surroundings, series: str) -> Iterator[tuple[int, str]]:
    if seen.elsewhere:
        yield _STRONG, f"also on {', '.join(seen.elsewhere)}"
    moved, stayed = seen.again
    if stayed > moved:
        yield _STRONG, f"{stayed} older points measured again since then have not moved"
    (along, of), against = seen.others, seen.against
    moved = along + against
    if of >= FEWEST_SERIES and moved < MANY * of:
        weight = _PLAIN if moved <= FEW * of else _SLIGHT
        other = f", {against} moved the other way" if against else ""
        yield weight, f"{of - moved} of {of} {series} did not move{other}"


def _for_environment(seen: Surroundings, series: str) -> Iterator[tuple[int, str]]:
    if seen.machine:
        yield _PLAIN, "the machine has an event of its own there; this goes beyond it"
    moved, stayed = seen.again
    if moved > stayed:
        yield _STRONG, f"{moved} older points measured again since then have moved as well"
    if seen.same_facts:
        where = ", ".join(seen.same_facts)
        yield _SLIGHT, f"also on {where}, where the same fact changed"
    if seen.passed and not seen.elsewhere:
        yield _PLAIN, f"{', '.join(seen.passed)} passed these commits without it"
        if seen.is_over and not seen.same_facts:
            yield _UNCHANGED, "it has gone again, and was seen on this machine alone"
    moved, of = seen.others
    if moved and moved >= MANY * of:
        yield _PLAIN, f"{moved} of {of} {series} moved with it"


def _told(differ: Differences) -> list[str]:
    """Commits and facts in words."""
    told = [in_words(one) for one in differ.facts or ()]
    told += [f"measured otherwise: {text}" for text in differ.measuring]
    if differ.facts is None:
        told.append("no facts are stored for both sides")
    elif not told and not differ.commits:
        told.append(SAME_FACTS)
    return told + _landed(differ.commits)


def _landed(commits: Sequence[Commit]) -> list[str]:
    if not commits:
        return []
    shown = commits[:SHOWN_COMMITS]
    names = [f"{one.commit[:8]} {one.subject or ''}".strip() for one in shown]
    likely = sum(one.is_likely for one in shown)
    sides = (("most likely", names[:likely]), ("less likely", names[likely:]))
    said = "; ".join(f"{word} {'; '.join(own)}" for word, own in sides if own)
    more = f" and {len(commits) - SHOWN_COMMITS} more" if len(commits) > SHOWN_COMMITS else ""
    return [f"{said}{more}"]


def in_words(one: Difference) -> str:
    """`driver: 580.1 -> 590.2`; the group where it is a GPU's."""
    name = f"{one.group}.{one.name}" if one.group.startswith("gpu") else one.name
    sides = ("not set" if side is None else str(side) for side in (one.before, one.after))
    return f"{name}: {' -> '.join(sides)}"
