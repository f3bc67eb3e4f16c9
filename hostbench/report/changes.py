"""The events of a results folder as a page, a table or a document for JSON, and in words."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import structs

from hostbench.core import units
from hostbench.core.case import Case, as_typed, parse_series, read_case
from hostbench.core.units import number_of
from hostbench.families import check_selects, load
from hostbench.judge.changepoint.detector import FEWEST_POINTS
from hostbench.judge.events import MACHINE, RESET, Event, EvidenceKind
from hostbench.judge.grid import RunPoint
from hostbench.judge.history import History, JudgedGroup, Series
from hostbench.report.blocks import Block, Column, Table

SHOWN_COMMITS = 3
_TEXTS: dict[EvidenceKind, str] = {
    "reset": "{text}",
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


# ---- what was asked for -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was asked for of a history. `events` are assessed, of all series and machines that were
    asked for."""

    events: Sequence[Event]
    series: Sequence[Series]
    """Those that may be judged, by name."""
    basis: Sequence[Series]
    """What the events rest on: those, or all of a machine that was asked for alone."""
    groups: Sequence[JudgedGroup]

    @property
    def stopped(self) -> list[Series]:
        """Series that had numbers and have none any more; those that fail first."""
        gone = [one for one in self.series if one.stopped]
        return sorted(gone, key=lambda one: (one.stopped and one.stopped.status, one.id))

    @property
    def has_failed(self) -> bool:
        """Whether a series that had numbers fails in its machine's newest run."""
        ends = [one.stopped for one in self.series if one.stopped]
        return any(end.status == "failed" and end.is_newest for end in ends)


def machines_of(texts: Iterable[str]) -> list[str]:
    """The machines that were asked for by name, as `machine:NAME`. Raises UsageError for what is
    neither that nor a series."""
    for text in texts:
        if not text.startswith(MACHINE):
            parse_series(text)
    return [text.removeprefix(MACHINE) for text in texts if text.startswith(MACHINE)]


def select(
    history: History, events: Sequence[Event], texts: Sequence[str], machine: str | None = None
) -> Selection:
    """The series that these texts name, as `case@machine` in part or whole, the machines' own
    events beside them or as `machine:NAME`; everything without a text. Of one machine or of all.

    Raises UsageError for a series that is no case: neither stored nor among hostbench's own.
    """
    selectors = [parse_series(text) for text in texts if not text.startswith(MACHINE)]
    named = set(machines_of(texts))
    stored = [one for one in history.series if one.longest is not None]
    # A name that is no case has parameters that are no axes.
    names = {one.case for one in stored} if selectors else set()
    cases = {text: read_case(text) or Case(text.partition("[")[0], {}) for text in names}
    for selector in selectors:
        if not any(map(selector.case.selects, cases.values())):
            check_selects(selector.case, load(), "nothing like it is stored, and ")

    def is_asked(one: Series) -> bool:
        return not texts or any(
            selector.machine in (None, one.machine, one.group)
            and selector.case.selects(cases[one.case])
            for selector in selectors
        )

    here = [one for one in stored if machine in (None, one.machine)]
    chosen = list(filter(is_asked, here))
    with_series = {one.group for one in chosen}
    groups = [
        one
        for one in history.groups
        if machine in (None, one.machine)
        and (not texts or {one.name, one.machine} & named or one.name in with_series)
    ]
    alone = {one.name for one in groups} - with_series
    wanted = {one.id for one in chosen} | {f"{MACHINE}{one.name}" for one in groups}
    return Selection(
        events=[event for event in events if event.id in wanted],
        series=chosen,
        basis=[*chosen, *(one for one in here if one.group in alone)],
        groups=groups,
    )


# ---- the page -----------------------------------------------------------------------------------


def is_listed(event: Event) -> bool:
    """Shown without being asked for: a step to slower or of the whole machine that stayed, or that
    is recent and ended by a baseline reset, for nobody knows whether it did."""
    is_open = event.status == "ended" and event.recent
    stayed = event.status in ("confirmed", "provisional") or is_open
    return stayed and (event.effect > 0 or not event.case)


def blocks(chosen: Selection, history: History, listed: Sequence[Event]) -> list[Block]:
    """`listed` of the events have a row, baseline resets a line each kind; the rest is counted."""
    lines, newest = [], ", the machine's newest among them"
    for one in chosen.stopped:
        if end := one.stopped:
            since = f"{end.since.commit[:8]} {end.since.committed_at:%Y-%m-%d}"
            runs = f"{number_of(end.num_runs, 'run')}{newest if end.is_newest else ''}"
            lines.append(f"{end.status} since {since} ({runs}): {as_typed(one.id)}")
    shown = {(event.id, event.index) for event in listed}
    others = [e for e in chosen.events if not e.is_reset and (e.id, e.index) not in shown]
    over = ("recovered", "ended", "temporary")
    counted = Counter(event.state if event.state in over else "faster" for event in others)
    rest = ", ".join(f"{num} {word}" for word, num in counted.items())
    lines += _resets(chosen.events)
    lines += [f"not listed: {rest}; --all lists them"] if rest else []
    return [table(listed) if listed else "no change to show", "", *lines, *summary(chosen, history)]


def _resets(events: Iterable[Event]) -> list[str]:
    """Levels on the two sides of a baseline reset are not compared; one line for all its series."""
    groups: dict[tuple[str, str, str], list[Event]] = {}
    for event in events:
        if event.is_reset:
            workload = event.case.partition("[")[0] if event.why.startswith("version ") else ""
            groups.setdefault((event.group, workload, event.why), []).append(event)
    lines = []
    for (group, workload, why), own in sorted(groups.items()):
        first = min((event.first for event in own), key=lambda point: point.committed_at)
        name = f"{workload}@{group}" if workload else f"{MACHINE}{group}"
        lines.append(
            f"{RESET}: {name}, {why}, since {first.commit[:8]} {first.committed_at:%Y-%m-%d}: "
            f"{number_of(len(own), 'series', 'series')} start anew"
        )
    return lines


def summary(chosen: Selection, history: History) -> list[str]:
    """How much was judged, how small a change it could have shown, and what was left out."""
    effects = sorted(one.detectable for one in chosen.basis if one.detectable is not None)
    num, fewer = sum(one.judged for one in chosen.basis), f"fewer than {FEWEST_POINTS} points"
    along = "commits" if history.axis == "commit" else "the time of the runs"
    line = (
        f"{number_of(num, 'series', 'series')} judged along {along}, "
        f"{len(chosen.basis) - num} too short ({fewer})"
    )
    if ended := num - len(effects):
        line += f"; {ended} of them only up to their newest baseline reset ({fewer} since)"
    if effects:
        line += (
            f"; smallest detectable effect: median {statistics.median(effects):.1%}, "
            f"worst {effects[-1]:.1%}"
        )
    left = left_out(chosen.groups)
    simulated = ", ".join(group.name for group in chosen.groups if group.is_simulated)
    return [
        line,
        *([f"left out: {left}"] if left else []),
        *([f"simulated, no measurement: {simulated}"] if simulated else []),
    ]


def left_out(groups: Iterable[JudgedGroup]) -> str:
    """`6 points of scratch runs, 1 point of ...`."""
    left = Counter[str]()
    for group in groups:
        left.update(group.left_out)
    plural = re.compile(r"^(point|rerun)s")
    words = ((num, why if num > 1 else plural.sub(r"\1", why)) for why, num in left.items())
    return ", ".join(f"{num} {why}" for num, why in words)


def why_nothing(chosen: Selection) -> str:
    """Why nothing was judged: every series was too short. Empty where one was judged."""
    if any(one.judged for one in chosen.basis):
        return ""
    longest = max((one.longest or 0 for one in chosen.basis), default=0)
    return (
        f"too few points to judge any series: the longest piece has {longest}, "
        f"{FEWEST_POINTS} are needed"
    )


# ---- events in words ----------------------------------------------------------------------------


def evidence_lines(event: Event) -> list[str]:
    """The evidence for its cause, a line each; commits in one."""
    series = "other series of this machine" if event.case else "series of this machine"
    unnamed = "a baseline reset was declared here"
    lines = [
        _TEXTS[one.kind].format(text=one.text or unnamed, series=series)
        for one in event.evidence
        if one.commit is None
    ]
    commits = [one for one in event.evidence if one.commit is not None]
    parts = []
    for kind, word in (("likely commit", "most likely"), ("commit beside", "less likely")):
        own = [one for one in commits[:SHOWN_COMMITS] if one.kind == kind]
        names = [f"{str(one.commit)[:8]} {one.subject or ''}".strip() for one in own]
        parts += [f"{word} {'; '.join(names)}"] if names else []
    if len(commits) > SHOWN_COMMITS:
        parts[-1] += f" and {len(commits) - SHOWN_COMMITS} more"
    return [*lines, *(["; ".join(parts)] if parts else [])]


def entry_in_words(event: Event) -> str:
    """What somebody has said of an event; empty where nobody has."""
    entry = event.triage
    if entry is None:
        return ""
    lapsed = f" ({event.lapsed})" if event.lapsed else ""
    size = "" if entry.effect is None else f" at {units.format_change(entry.effect)}"
    owner = f" by {entry.owner}" if entry.owner else ""
    until = f" until {entry.until}" if entry.until else ""
    return f"{entry.state}{lapsed}{size}{owner}{until}{f': {entry.note}' if entry.note else ''}"


def _since(since: str, commit: str, committed_at: str, *_: str) -> str:
    return f"{commit[:8]} {committed_at[:10]}"


def _raw_effect(event: Event) -> float | None:
    """The change of its two levels, where that is not the step's, which knows more points and has
    the machine's moves taken out."""
    if event.before_s is None or event.after_s is None or event.is_reset:
        return None
    raw = event.after_s / event.before_s - 1
    if event.low is not None and event.high is not None:
        return None if event.low <= raw <= event.high else raw
    return None if 0.5 <= math.log1p(raw) / event.height <= 2 else raw


def _levels(before_s: float | None, after_s: float | None, raw: float | None) -> str:
    if before_s is None or after_s is None:
        return "-"
    levels = f"{units.format_seconds(before_s)} -> {units.format_seconds(after_s)}"
    return levels if raw is None else f"{levels} (raw {units.format_change(raw)})"


def _named(series: str, num_moved: int | None, num_series: int | None) -> str:
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
    Column(("series", "num_moved", "num_series"), "series", _named),
    Column(("cause",), "cause", below=True),
)


def table(events: Sequence[Event]) -> Table:
    """A row for each event. Those of one state with the same cause are neighbours: it is said once
    for all of them."""
    order: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        said = [entry_in_words(event)] if event.triage else []
        label, *more = evidence_lines(event) or ("no evidence",)
        cause = "; ".join([f"{event.cause}: {label}", *more, *said])
        num_moved, num_series = event.moved or (None, None)
        row = {
            "state": event.state,
            "fails": event.fails,
            "since": event.commit,
            "commit": event.first.commit,
            "committed_at": event.first.committed_at.isoformat(),
            "started_at": event.first.started_at.isoformat(),
            "run_id": event.first.run_id,
            **compared(event),
            "raw_effect": _raw_effect(event),
            "detects": event.detectable,
            "series": event.id,
            "num_moved": num_moved,
            "num_series": num_series,
            "cause": cause,
        }
        order.setdefault((event.status, cause), []).append(row)
    return Table(COLUMNS, [row for rows in order.values() for row in rows])


def compared(event: Event) -> dict[str, float | None]:
    """The levels on the two sides and their difference; none of it across a baseline reset."""
    names = ("effect", "low", "high", "before_s", "after_s")
    return {name: None if event.is_reset else getattr(event, name) for name in names}


def as_json(chosen: Selection, history: History, events: Sequence[Event]) -> dict[str, Any]:
    """Every event, and every series, as plain values."""
    return {
        "axis": history.axis,
        "events": list(map(_event, events)),
        "stopped": [
            {
                "id": one.id,
                "status": end.status,
                "since": {"run_id": end.since.run_id, "commit": end.since.commit},
                "num_runs": end.num_runs,
                "in_newest_run": end.is_newest,
            }
            for one in chosen.stopped
            if (end := one.stopped)
        ],
        "series": [
            {"id": one.id, "noise": one.noise, "detectable": one.detectable}
            for one in chosen.series
        ],
        "notes": summary(chosen, history),
    }


def _event(event: Event) -> dict[str, Any]:
    sides, entry = compared(event), None
    interval = [sides.pop("low"), sides.pop("high")]
    if event.triage is not None:
        until = event.triage.until and event.triage.until.isoformat()
        entry = {**asdict(event.triage), "until": until, "lapsed": event.lapsed or None}
    return {
        "id": event.id,
        "commit": event.commit,
        "direction": event.direction,
        "near": event.near,
        "status": event.status,
        "kind": event.kind,
        "effect": sides.pop("effect"),
        "interval": interval,
        **sides,
        "last_good": _point(event.last),
        "first_bad": _point(event.first),
        "off_by_at_most": event.slack,
        "moved": event.moved,
        "recent": event.recent,
        "triage": entry,
        "fails": event.fails,
        "cause": {"label": event.cause, "why": evidence_lines(event)},
        "evidence": [structs.asdict(one) for one in event.evidence],
    }


def _point(point: RunPoint | None) -> dict[str, str] | None:
    if point is None:
        return None
    times = {n: getattr(point, n).isoformat() for n in ("committed_at", "started_at")}
    return {"run_id": point.run_id, "commit": point.commit, **times}
