"""Events in words, as the text page of `hostbench changes` and the dashboard both tell them."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hostbench.core import units
from hostbench.core.case import as_typed
from hostbench.core.units import number_of
from hostbench.judge.changepoint.change import Judgement
from hostbench.judge.changepoint.detector import FEWEST_POINTS
from hostbench.judge.events import MACHINE, Event, Evidence, EvidenceKind, Judged
from hostbench.judge.grid import Along, Grid, Stopped
from hostbench.report.blocks import Column
from hostbench.report.choice import Selection
from hostbench.store.triage import Entry

_STATES = {"ended": "ended by a baseline reset", "break": "baseline reset"}
"""Where a state is not called as it is stored."""


_SHOWN_COMMITS = 3
_TEXTS: dict[EvidenceKind, str] = {
    "same commit": "the same commit on both sides",
    "same facts": "same driver, torch and hardware",
    "no facts": "no facts are stored for both sides",
    "fact": "{text}",
    "measuring": "measured otherwise: {text}",
    "elsewhere": "also on {text}",
    "same fact elsewhere": "also on {text}, where the same fact changed",
    "passed": "{text} passed these commits without it",
    "gone again": "it has gone again, and was seen on this machine alone",
    "again stayed": "{text} older points measured again since then have not moved",
    "again moved": "{text} older points measured again since then have moved as well",
    "others stayed": "{text} {series} did not move",
    "others against": "{text} {series} moved the other way",
    "others moved": "{text} {series} moved with it",
    "machine moved": "the machine has an event of its own there; this goes beyond it",
}


def is_listed(event: Event) -> bool:
    """Shown without being asked for: a step to slower or of the whole machine that stayed, or that
    is recent and ended by a baseline reset, for nobody knows whether it did."""
    is_open = event.status == "ended" and event.recent
    stayed = event.status in ("confirmed", "provisional") or is_open
    return stayed and (event.effect > 0 or not event.case)


def evidence_lines(event: Event) -> list[str]:
    """The evidence for its cause, a line each; commits in one."""
    series = "other series of this machine" if event.case else "series of this machine"
    lines = []
    for one in event.evidence:
        if one.kind == "reset":
            lines.append(one.text or "a baseline reset was declared here")
        elif one.commit is None:
            lines.append(_TEXTS[one.kind].format(text=one.text, series=series))
    commits = [one for one in event.evidence if one.commit is not None]
    shown = commits[:_SHOWN_COMMITS]
    if shown:
        words = (("likely commit", "most likely"), ("commit beside", "less likely"))
        groups = [
            (word, [*map(_commit, (c for c in shown if c.kind == kind))]) for kind, word in words
        ]
        more = len(commits) - len(shown)
        line = "; ".join(f"{word} {'; '.join(names)}" for word, names in groups if names)
        lines.append(line + f" and {more} more" * (more > 0))
    return lines


def _commit(one: Evidence) -> str:
    return f"{str(one.commit)[:8]} {one.subject or ''}".strip()


def by_cause(events: Iterable[Event]) -> list[list[Event]]:
    """Events of one state with the same cause and the same said of them, in the order given."""
    groups: dict[tuple[Any, ...], list[Event]] = {}
    for event in events:
        said = "" if event.triage is None else entry_in_words(event.triage, sized=False)
        key = (event.status, event.cause, tuple(evidence_lines(event)), said)
        groups.setdefault(key, []).append(event)
    return list(groups.values())


def why(block: Sequence[Event]) -> list[str]:
    """The cause of such events with its evidence, and what somebody has said."""
    label, *more = evidence_lines(block[0]) or ("no evidence",)
    return [f"{block[0].cause}: {label}", *more, *said_of_all(block)]


def said_of_all(block: Sequence[Event]) -> list[str]:
    """The entry of such events, if any; without its size where that differs."""
    entries = [one.triage for one in block if one.triage is not None]
    same = len({entry.effect for entry in entries}) == 1
    return [entry_in_words(entry, sized=same) for entry in entries[:1]]


def entry_in_words(entry: Entry, sized: bool = True) -> str:
    """What somebody has said of an event."""
    size = "" if entry.effect is None or not sized else f" at {units.format_change(entry.effect)}"
    owner = f" by {entry.owner}" if entry.owner else ""
    until = f" until {entry.until}" if entry.until else ""
    return f"{entry.state}{size}{owner}{until}{f': {entry.note}' if entry.note else ''}"


def state(event: Event) -> str:
    words: list[str] = [_STATES.get(event.status, event.status)]
    if event.triage is not None:
        words.append(event.triage.state + (f" ({event.lapsed})" if event.lapsed else ""))
    elif event.status == "confirmed" and event.effect > 0 and not event.recent:
        words.append("old")
    return ", ".join(words)


def raw_effect(event: Event) -> float | None:
    """The change of its two levels, where that is not the step's, which knows more points and has
    the machine's moves taken out."""
    if event.before_s is None or event.after_s is None or event.is_reset:
        return None
    raw = event.after_s / event.before_s - 1
    if event.low is not None and event.high is not None:
        is_alike = event.low <= raw <= event.high
    else:
        way = math.log(event.after_s) - math.log(event.before_s)
        is_alike = 0.5 <= way / event.height <= 2
    return None if is_alike else raw


def _since(since: str, commit: str, committed_at: str, *_: str) -> str:
    return f"{commit[:8]} {committed_at[:10]}"


def _levels(before_s: float | None, after_s: float | None, raw: float | None) -> str:
    if before_s is None or after_s is None:
        return "-"
    levels = f"{units.format_seconds(before_s)} -> {units.format_seconds(after_s)}"
    return levels if raw is None else f"{levels} (raw {units.format_change(raw)})"


def _series(series: str, num_moved: int | None, num_series: int | None) -> str:
    moved = "" if num_moved is None else f" ({num_moved} of {num_series} series)"
    return as_typed(series) + moved


COLUMNS = (
    Column(("state", "fails"), "state", lambda state, fails: state),
    Column(
        ("since", "commit", "committed_at", "started_at", "run_id"), "since", _since, right=True
    ),
    Column(("effect",), "change", units.format_change, right=True),
    Column(("low", "high"), "99 % interval", units.format_interval, right=True),
    Column(("before_s", "after_s", "raw_effect"), "before -> after", _levels, right=True),
    Column(("detects",), "detects", units.format_share, right=True),
    Column(("series", "num_moved", "num_series"), "series", _series),
)


def resets(events: Iterable[Event]) -> list[str]:
    """Levels on the two sides of a baseline reset are not compared; one line for all its series."""
    groups: dict[tuple[str, str, str], list[Event]] = {}
    for event in events:
        workload = event.workload if event.why.startswith("version ") else ""
        groups.setdefault((event.group, workload, event.why), []).append(event)
    lines = []
    for (group, workload, why), own in sorted(groups.items()):
        first = min((event.first for event in own), key=lambda point: point.committed_at)
        name = f"{workload}@{group}" if workload else f"{MACHINE}{group}"
        lines.append(
            f"baseline reset: {name}, {why}, since {first.commit[:8]} "
            f"{first.committed_at:%Y-%m-%d}: {number_of(len(own), 'series', 'series')} start anew"
        )
    return lines


def stopped_in_words(one: Stopped, judged: Judged) -> str:
    newest = ", the machine's newest among them" if one.is_newest else ""
    return (
        f"{one.status} since {one.commit[:8]} {one.committed_at:%Y-%m-%d} "
        f"({number_of(one.num_runs, 'run')}{newest}): {as_typed(judged.grid.id(one.series))}"
    )


def rest(others: Iterable[Event]) -> str:
    """How many there are that are not listed; empty where there are none."""
    counted = Counter(one.status if one.status in _OVER else "faster" for one in others)
    words = [f"{num} {word}" for word, num in counted.items()]
    return f"not listed: {', '.join(words)}" if words else ""


_OVER = ("recovered", "ended", "temporary")


def summary(chosen: Sequence[Selection], axis: Along) -> list[str]:
    """How much was judged, how small a change it could have shown, and what was left out."""
    judged = [own for one in chosen for own, _ in one.counted()]
    effects = sorted(own.detectable for own in judged if own.detectable is not None)
    num, fewer = sum(own.judged for own in judged), f"fewer than {FEWEST_POINTS} points"
    lines = [
        f"{number_of(num, 'series', 'series')} judged along {_AXES[axis]}, "
        f"{len(judged) - num} too short ({fewer})"
    ]
    if ended := num - len(effects):
        lines[0] += f"; {ended} of them only up to their newest baseline reset ({fewer} since)"
    if effects:
        lines[0] += (
            f"; smallest detectable effect: median {statistics.median(effects):.1%}, "
            f"worst {effects[-1]:.1%}"
        )
    left = Counter[str]()
    for one in chosen:
        left.update(one.judged.grid.left_out)
        left["reruns of older commits, evidence only"] += len(one.judged.grid.reruns)
    said = [_left_out(num, why) for why, num in left.items() if num]
    lines += [f"left out: {', '.join(said)}"] if said else []
    stood_in = [one.judged.grid.group for one in chosen if one.judged.grid.simulated]
    return lines + ([f"simulated, no measurement: {', '.join(stood_in)}"] if stood_in else [])


_AXES = {"commit": "commits", "run-time": "the time of the runs"}


def _left_out(num: int, why: str) -> str:
    """`6 points of scratch runs`, `1 point of ...`: `why` as judge.grid counts them."""
    one = why.replace("points", "point", 1).replace("reruns", "rerun", 1)
    return f"{num} {one if num == 1 else why}"


def unjudged(judged: Iterable[tuple[Judgement, int]]) -> str:
    """Why nothing was judged, where every series was too short; with each judgement, how many
    points the longest piece of its series has. Empty where a series was judged."""
    longest = 0
    for judgement, points in judged:
        if judgement.judged:
            return ""
        longest = max(longest, points)
    return (
        f"too few points to judge any series: the longest piece has {longest}, "
        f"{FEWEST_POINTS} are needed"
    )


def no_run(grids: Iterable[Grid]) -> str:
    """What is said where no grid has a series."""
    left = "; ".join(_left_out(num, why) for grid in grids for why, num in grid.left_out.items())
    return f"no run that may be judged is stored{f': {left}' if left else ''}"
