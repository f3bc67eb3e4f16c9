"""Why a number moved: one label and the evidence for it, the weightiest first.

Code and environment both change all the time, so that a step by itself says little. What decides
is what else moved, or did not: the same series on other machines, the other series of this machine,
and the same commit measured again. Pure functions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec import structs

from hostbench.facts.causes import Difference
from hostbench.judge.events import Event, Evidence, EvidenceKind, Label
from hostbench.judge.surroundings import Differing, Surroundings

FEWEST_SERIES = 6
"""Other series that must have points before their standing still says anything."""
MANY, FEW = 0.5, 0.1
"""Share of the machine's other series that move along when the environment does, and at most when
it is plainly one thing that was touched."""
_STRONG, _UNCHANGED, _PLAIN, _SLIGHT = 4, 3, 2, 1

Weighed = Iterator[tuple[int, Evidence]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What differs between the last certain point at the old level and the first at the new."""

    commits: tuple[Evidence, ...]
    """That landed, the likely ones first, each the newest first; empty where the code is the same.
    """
    facts: Differing
    measuring: tuple[str, ...] = ()
    """hostbench's own parameters: `launches 10 -> 20`."""


def with_cause(event: Event, seen: Surroundings, differ: Differences) -> Event:
    """The event with its label and the evidence."""
    if event.is_reset:
        label: Label = "environment"
        if event.why.startswith("version "):
            label = "measurement changed"
        evidence = [_says("reset", event.why)]
    elif not differ.commits:
        label, evidence = _of_environment(differ), [_says("same commit")]
    else:
        label, evidence = _weighed(event, seen, differ)
    if not event.is_reset:
        evidence += [*_what_differs(differ), *differ.commits]
    return structs.replace(event, cause=label, evidence=tuple(evidence))


def _says(kind: EvidenceKind, text: str = "") -> Evidence:
    return Evidence(kind=kind, text=text)


def _of_environment(differ: Differences) -> Label:
    return "measurement changed" if differ.measuring and not differ.facts else "environment"


def _weighed(event: Event, seen: Surroundings, differ: Differences) -> tuple[Label, list[Evidence]]:
    """Commits landed: was it them, or the environment?"""
    is_machine, explained = not event.case, bool(differ.facts or differ.measuring)
    for_code, for_environment = list(_for_code(seen)), list(_for_environment(seen))
    if differ.facts is not None and not explained:
        weight = 0 if is_machine or seen.machine else _UNCHANGED
        for_code.append((weight, _says("same facts")))
    both = sorted([*for_code, *for_environment], key=lambda weighed: -weighed[0])
    evidence = [one for _, one in both]
    code, environment = (sum(weight for weight, _ in own) for own in (for_code, for_environment))
    if is_machine and not explained:
        return ("code" if seen.elsewhere else "machine-wide"), evidence
    if seen.machine:
        return ("code" if code > environment else "machine-wide"), evidence
    too_little = differ.facts is None and max(code, environment) < _PLAIN
    if code == environment or too_little:
        return ("machine-wide" if is_machine else "unknown"), evidence
    return ("code" if code > environment else _of_environment(differ)), evidence


def _for_code(seen: Surroundings) -> Weighed:
    if seen.elsewhere:
        yield _STRONG, _says("elsewhere", ", ".join(seen.elsewhere))
    moved, stayed = seen.again
    if stayed > moved:
        yield _STRONG, _says("again stayed", str(stayed))
    (along, of), against = seen.others, seen.against
    moved = along + against
    if of >= FEWEST_SERIES and moved < MANY * of:
        weight = _PLAIN if moved <= FEW * of else _SLIGHT
        yield weight, _says("others stayed", f"{of - moved} of {of}")
        if against:
            yield 0, _says("others against", str(against))


def _for_environment(seen: Surroundings) -> Weighed:
    if seen.machine:
        yield _PLAIN, _says("machine moved")
    moved, stayed = seen.again
    if moved > stayed:
        yield _STRONG, _says("again moved", str(moved))
    if seen.same_facts:
        yield _SLIGHT, _says("same fact elsewhere", ", ".join(seen.same_facts))
    if seen.passed and not seen.elsewhere:
        yield _PLAIN, _says("passed", ", ".join(seen.passed))
        if seen.is_over and not seen.same_facts:
            yield _UNCHANGED, _says("gone again")
    moved, of = seen.others
    if moved and moved >= MANY * of:
        yield _PLAIN, _says("others moved", f"{moved} of {of}")


def _what_differs(differ: Differences) -> Iterator[Evidence]:
    yield from (_says("fact", fact_in_words(one)) for one in differ.facts or ())
    yield from (_says("measuring", text) for text in differ.measuring)
    if differ.facts is None:
        yield _says("no facts")
    elif not (differ.facts or differ.measuring or differ.commits):
        yield _says("same facts")


def fact_in_words(one: Difference) -> str:
    """`driver: 580.1 -> 590.2`; the group where it is a GPU's."""
    name = f"{one.group}.{one.name}" if one.group.startswith("gpu") else one.name
    sides = ("not set" if side is None else str(side) for side in (one.before, one.after))
    return f"{name}: {' -> '.join(sides)}"
