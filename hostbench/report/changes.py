"""What changed in a judged history: an event in words, the page of `hostbench changes`, and events
grouped by the commit or fact that caused them, for the dashboard."""

import re
import shlex
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from hostbench.core import units
from hostbench.core.case import as_typed, parse_series
from hostbench.core.units import number_of
from hostbench.families import check_selects, declared, load
from hostbench.judge.changepoint.detector import FEWEST_POINTS
from hostbench.judge.events import MACHINE, OLD, RESET, STATES, Event
from hostbench.judge.history import History, Series
from hostbench.report.blocks import Column, Page, Table
from hostbench.report.history import with_subjects
from hostbench.report.write import values

SHOWN_COMMITS = 3
STATE_WORDS = {state: state for state in STATES} | {OLD: "still slower"}
"""What a page calls the state of an event."""
WORDS = {
    "reset": "{text}",
    "same commit": "the same commit on both sides",
    "same facts": "same driver, torch and hardware",
    "no facts": "facts are not stored for both sides",
    "fact": "{text}",
    "elsewhere": "also on {text}",
    "same fact elsewhere": "also on {text}, where the same fact changed",
    "passed": "{text} passed these commits without it",
    "gone again": "it has gone again, and was seen on this machine alone",
    "again stayed": "{text} older points measured again since then have not moved",
    "again moved": "{text} older points measured again since then have moved as well",
    "others stayed": "{text} {series} did not move",
    "others moved": "{text} {series} moved with it",
    "machine moved": "the machine has an event of its own there; this goes beyond it",
}
"""Of each kind of evidence."""


def select(history: History, texts: Sequence[str], machine: str | None = None) -> History:
    """Of the history the series that these texts name, as `case@machine` in part or whole, with
    their machines' own events; everything without a text. Of one machine or of all.

    Raises UsageError for a series that is no case: neither stored nor among hostbench's own.
    """
    selectors = [parse_series(text) for text in texts]
    for selector in selectors:
        if not any(selector.selects_series(series.id) for series in history.series):
            check_selects(selector, load(), "nothing like it is stored, and ")
    chosen = [
        series
        for series in history.series
        if machine in (None, series.machine)
        and (not texts or any(selector.selects_series(series.id) for selector in selectors))
    ]
    ids = {name for series in chosen for name in (series.id, f"{MACHINE}{series.group}")}
    return History(
        events=tuple(event for event in history.events if event.id in ids),
        series=tuple(chosen),
        left_out={n: num for n, num in history.left_out.items() if machine in (None, n)},
    )


# ---- the page -----------------------------------------------------------------------------------


def page(chosen: History, *, every: bool, root: Path) -> Page:
    """A row for each event, a line for each kind of baseline reset, across which levels are not
    compared; without `every` what is over or got faster is only counted. `root`: where git knows
    the commits."""
    listed = steps = [event for event in chosen.events if not event.is_reset]
    if not every:  # of what a recent baseline reset ended nobody knows whether it stayed
        stayed = [e for e in steps if e.has_stayed or (e.status == "ended" and e.recent)]
        listed = [event for event in stayed if event.effect > 0 or not event.case]
    left = Counter(event.state for event in steps) - Counter(event.state for event in listed)
    rest = ", ".join(f"{num} {STATE_WORDS[state]}" for state, num in left.items())

    def blocks() -> list[str | Table]:
        resets = []
        for reset in causes(event for event in chosen.events if event.is_reset):
            num = number_of(reset.num_series, "series", "series")
            since = f"since {reset.since:%Y-%m-%d}: {num} on {', '.join(reset.machines)}"
            resets.append(f"{RESET}: {reset.title}, {since}")
        first = table(with_subjects(listed, root)) if listed else "no change to show"
        more = [f"not listed: {rest}; --all lists them"] if rest else []
        return [first, "", *sorted(resets), *more, *summary(chosen)]

    def every_event() -> Table:
        return table(with_subjects(chosen.events, root))

    def document() -> dict[str, Any]:
        return {"events": values(every_event()), "notes": summary(chosen)}

    return Page(blocks=blocks, table=every_event, document=document)


def summary(chosen: History) -> list[str]:
    """How much was judged, how small a change it could have shown, and what was left out."""
    effects = [series.detectable for series in chosen.series if series.detectable is not None]
    num = sum(series.judged for series in chosen.series)
    line = (
        f"{number_of(num, 'series', 'series')} judged along commits, "
        f"{len(chosen.series) - num} too short (fewer than {FEWEST_POINTS} points)"
    )
    if effects:
        middle, worst = statistics.median(effects), max(effects)
        line += f"; smallest detectable effect: median {middle:.1%}, worst {worst:.1%}"
    return [*filter(None, (line, left_out(chosen)))]


def left_out(chosen: History) -> str:
    """How many points are not judged, and why; empty where none is."""
    num = sum(map(Counter[str], chosen.left_out.values()), Counter[str]())
    why = ", ".join(f"{points} {reason}" for reason, points in sorted(num.items()))
    return f"{number_of(num.total(), 'point')} left out: {why}" if num else ""


# ---- an event in words --------------------------------------------------------------------------


def evidence_lines(event: Event) -> list[str]:
    """The evidence for its cause, a line each; commits in one."""
    series = "other series of this machine" if event.case else "series of this machine"
    lines = [WORDS[piece.kind].format(text=piece.text, series=series) for piece in event.evidence]
    has_likely = any(commit.is_likely for commit in event.commits)
    words = {True: "most likely", False: "less likely" if has_likely else "most likely"}
    if event.cause == "environment":  # a fact did it
        words = dict.fromkeys(words, "commits in between")
    parts = []
    named = event.commits[:SHOWN_COMMITS]
    for word, commits in groupby(named, lambda commit: words[commit.is_likely]):
        names = [f"{commit.commit[:8]} {commit.subject or ''}".strip() for commit in commits]
        parts.append(f"{word} {'; '.join(names)}")
    if len(event.commits) > SHOWN_COMMITS:
        parts.append(f"{len(event.commits) - SHOWN_COMMITS} more")
    return [*lines, "; ".join(parts)] if parts else lines


def entry_in_words(event: Event) -> str:
    """What somebody has said of an event; empty where nobody has."""
    entry = event.triage
    if entry is None:
        return ""
    return f"triage: {entry.state}{f', {entry.note}' if entry.note else ''}"


def _named(series: str, num_moved: int | None, num_series: int | None) -> str:
    moved = "" if num_moved is None else f" ({num_moved} of {num_series} series)"
    return as_typed(series) + moved


_POINT = ("commit", "committed_at", "started_at", "run_id")
_LEVELS = ("effect", "low", "high", "before_s", "after_s")
COLUMNS = (
    Column(("state", "fails"), "state", lambda state, fails: STATE_WORDS[state]),
    Column(("since", *_POINT), "since", lambda _, c, at, *more: f"{c[:8]} {at[:10]}", right=True),
    Column(("effect",), "change", units.format_change, right=True),
    Column(("low", "high"), "99% interval", units.format_interval, right=True),
    Column(("before_s", "after_s"), "before -> after", units.format_levels, right=True),
    Column(("detects",), "detects", units.format_share, right=True),
    Column(("series", "num_moved", "num_series"), "series", _named),
    Column(("cause", "why"), "cause", "{}: {}".format, below=True),
)


def table(events: Sequence[Event]) -> Table:
    """A row for each event. Those of one status with the same cause are neighbours: it is said once
    for all of them. Across a baseline reset there is no effect and no level."""
    neighbours: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        why = "; ".join([*evidence_lines(event), *filter(None, [entry_in_words(event)])])
        num_moved, num_series = event.moved or (None, None)
        row = {
            **to_builtins(event.first),
            **{name: None if event.is_reset else getattr(event, name) for name in _LEVELS},
            "state": event.state,
            "fails": event.fails,
            "since": event.commit,
            "detects": event.detectable,
            "series": event.id,
            "num_moved": num_moved,
            "num_series": num_series,
            "cause": event.cause,
            "why": why or "no evidence",
        }
        neighbours[event.status, event.cause, why].append(row)
    return Table(COLUMNS, [row for rows in neighbours.values() for row in rows], status="state")


# ---- by what caused them -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A commit or a fact that moved numbers."""

    key: str
    """Names it in an address: `driver: 580.1 -> 590.2, environment`."""
    title: str
    """`commit 1a2b3c4d Wait twice`, `driver: 580.1 -> 590.2`."""
    events: Sequence[Event]
    """The worst first: by state, then those that moved most."""

    @property
    def worst(self) -> Event:
        return self.events[0]

    @property
    def since(self) -> datetime:
        return min(event.first.committed_at for event in self.events)

    @property
    def machines(self) -> list[str]:
        return sorted({event.machine for event in self.events})

    @property
    def num_series(self) -> int:
        """Where a machine moved as a whole, those that moved with it."""
        moved = {event.group: event.moved[0] for event in reversed(self.events) if event.moved}
        return max(len({event.id for event in self.events if event.case}), sum(moved.values()))

    def sparkline(self, series: Mapping[str, Series]) -> list[float]:
        """Of the worst event's series, by id; of a whole machine that of its longest series."""
        sparklines = [series[event.id].sparkline for event in self.events if event.id in series]
        others = [every.sparkline for every in series.values() if every.group == self.worst.group]
        longest = max(others, key=len, default=())
        return list(sparklines[0] if sparklines else longest)


def causes(events: Iterable[Event]) -> list[Cause]:
    """What fails now comes first, then the largest."""

    def order(event: Event) -> tuple[int, float]:
        return STATES.index(event.state), 0.0 if event.is_reset else -abs(event.effect)

    by_cause: dict[tuple[str, str, str], list[Event]] = defaultdict(list)
    for event in sorted(events, key=order):
        fact = fact_of(event)
        by_cause[fact, "" if fact else event.first.commit[:8], event.cause].append(event)
    rows = []
    for (fact, commit8, label), group in by_cause.items():
        name = fact or f"commit {commit8}"
        likely = [commit for commit in group[0].commits if commit.is_likely and not fact]
        subject = likely[0].subject or "" if likely else ""
        rows.append(Cause(key=f"{name}, {label}", title=f"{name} {subject}".strip(), events=group))
    return rows


def fact_of(event: Event) -> str:
    """The fact that did it, or what has reset the baseline; empty where a commit may have."""
    if event.reset:
        workload = event.case.partition("[")[0] if event.reset.is_version else ""
        return f"{workload} {event.reset.text}".strip()
    facts = [evidence.text for evidence in event.evidence if evidence.kind == "fact"]
    return facts[0] if facts and event.cause == "environment" else ""


def commands(event: Event, results: Path | str) -> str:
    """What a person may type about an event, a line each; asv's own command of another project's
    benchmark. A name with signs that no entry of triage may hold has none: pasted into a terminal
    they could be anything. A table at a URL is only compared."""
    if not (event.id + event.commit + event.machine).isprintable():
        return ""
    is_local, workload = isinstance(results, Path), event.case.partition("[")[0]
    where = results.absolute() if isinstance(results, Path) else results
    at = f" --results {shlex.quote(str(where))}"
    series, is_ours = shlex.quote(as_typed(event.id)), declared(workload) is not None
    old, new = event.last.commit[:12] if event.last else "", event.first.commit[:12]
    good, bad = (point.commit[:12] for point in (event.around[0], event.around[-1]))
    lines = []
    if old not in ("", new):
        if event.case and is_local and not is_ours:
            bench = shlex.quote(f"^{re.escape(workload)}$")
            lines.append(f"asv continuous {old} {new} --bench {bench}")
        lines.append(f"hostbench compare {old} {new} --machine {shlex.quote(event.machine)}{at}")
    if is_local and event.case and is_ours and good != bad:
        lines.append(f"hostbench bisect {series} --good {good} --bad {bad}{at}")
    if is_local and event.effect > 0:
        lines.append(f"hostbench triage {series} {shlex.quote(event.commit)} investigating{at}")
    return "\n".join(lines)
