"""The events of a results folder as text, Markdown or JSON; the machines' own come first."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from hostbench import units
from hostbench.judge.detector import FEWEST_POINTS
from hostbench.judge.events import Found, Judged
from hostbench.judge.grid import Axis
from hostbench.judge.lines import MACHINE
from hostbench.judge.stopped import Stopped
from hostbench.report.choice import Chosen, events, series, stopped
from hostbench.report.judged import Explainer, Told
from hostbench.report.table import aligned, piped, shown
from hostbench.store.triage import Entry

HEADINGS = ("state", "since", "change", "99 % interval", "before -> after", "detects", "series")
CAUSE = "cause"


def is_listed(one: Found, is_recent: bool) -> bool:
    """Shown without being asked for: a step to slower or of the whole machine that stayed, or that
    is recent and ended by a break, for nobody knows whether it did."""
    stayed = one.status in ("confirmed", "provisional") or (one.status == "ended" and is_recent)
    return stayed and (one.change.effect > 0 or one.series is None)


def page(
    chosen: Sequence[Chosen],
    explainer: Explainer,
    axis: Axis,
    *,
    markdown: bool = False,
    every: bool = False,
) -> str:
    """Text or Markdown. Breaks are told in a line each kind; `every` lists the rest too."""
    found = events(chosen)
    steps = [pair for pair in found if pair[0].change.kind != "break"]
    listed = [every or is_listed(one, explainer.is_recent(one)) for one, _ in steps]
    told = [explainer.tell(*pair) for pair in itertools.compress(steps, listed)]
    lines = _table(told, markdown) if told else ["no change to show"]
    lines += ["", *(shown(_in_words(*pair), markdown) for pair in stopped(chosen))]
    lines += [*_breaks((one for one, _ in found if one.change.kind == "break"), markdown)]
    lines += _rest(one for (one, _), is_told in zip(steps, listed, strict=True) if not is_told)
    lines += [shown(line, markdown) for line in summary(chosen, axis)]
    return "\n".join(lines)


def _table(told: Sequence[Told], markdown: bool) -> list[str]:
    """A cause is told once for all series of one state that have it: below them, or beside the
    first in Markdown."""
    groups: dict[tuple[str, str], list[Told]] = {}
    for one in told:
        why = shown("; ".join(_why(one)), markdown)
        groups.setdefault((one.found.status, why), []).append(one)
    rows = [_cells(one, markdown) for own in groups.values() for one in own]
    causes = [[why, *["as above"] * (len(own) - 1)] for (_, why), own in groups.items()]
    if markdown:
        beside = zip(rows, itertools.chain(*causes), strict=True)
        return piped((*HEADINGS, CAUSE), [(*row, why) for row, why in beside])
    head, *lines = aligned([HEADINGS, *rows])
    place = iter(lines)
    below = [
        [*itertools.islice(place, len(own)), f"    {_these(len(own))}{why}"]
        for (_, why), own in groups.items()
    ]
    return [head, *itertools.chain(*below)]


def _these(num: int) -> str:
    return f"these {num}: " if num > 1 else ""


def _why(told: Told) -> list[str]:
    """The cause with its evidence, and what somebody has said."""
    label, *more = told.cause.why or ("no evidence",)
    why = [f"{told.cause.label}: {label}", *more]
    entry = told.triage
    if entry is not None:
        size = "" if entry.effect is None else f" at {entry.effect:+.1%}"
        owner = f" by {entry.owner}" if entry.owner else ""
        until = f" until {entry.until}" if entry.until else ""
        why.append(f"{entry.state}{size}{owner}{until}{f': {entry.note}' if entry.note else ''}")
    return why


def _cells(told: Told, markdown: bool) -> tuple[str, ...]:
    one = told.found
    known = one.low is not None and one.high is not None
    name = one.event.id + (f" ({one.moved[0]} of {one.moved[1]} series)" if one.moved else "")
    return (
        _state(told, markdown),
        shown(f"{one.first.commit[:8]} {one.first.committed_at:%Y-%m-%d}", markdown),
        f"{one.change.effect:+.1%}",
        f"{one.low:+.1%} to {one.high:+.1%}" if known else "-",
        _levels(one),
        "-" if one.detectable is None else f"{one.detectable:.1%}",
        shown(name, markdown),
    )


def _state(told: Told, markdown: bool) -> str:
    said: list[str] = ["ended by a break" if told.found.status == "ended" else told.found.status]
    if told.triage is not None:
        said.append(told.triage.state + (f" ({told.lapsed})" if told.lapsed else ""))
    elif told.found.status == "confirmed" and told.found.change.effect > 0 and not told.recent:
        said.append("old")
    return ", ".join(said)


def _levels(one: Found) -> str:
    """With their own change where that is not the step's, which knows more points and has the
    machine's moves taken out."""
    if one.before_s is None or one.after_s is None:
        return "-"
    levels = f"{units.format_seconds(one.before_s)} -> {units.format_seconds(one.after_s)}"
    raw = one.after_s / one.before_s - 1
    if one.low is not None and one.high is not None:
        is_shown = one.low <= raw <= one.high
    else:
        way = math.log(one.after_s) - math.log(one.before_s)
        is_shown = 0.5 <= way / one.change.height <= 2
    return levels if is_shown else f"{levels} (raw {raw:+.1%})"


def _breaks(broken: Iterable[Found], markdown: bool) -> list[str]:
    """Levels on the two sides of a break are not compared; one line for all series it breaks."""
    groups: dict[tuple[str, str, str], list[Found]] = {}
    for one in broken:
        workload = "" if not one.why.startswith("version ") else _workload(one)
        groups.setdefault((one.grid.group, workload, one.why), []).append(one)
    lines = []
    for (group, workload, why), own in sorted(groups.items()):
        first = min((one.first for one in own), key=lambda column: column.committed_at)
        effect = statistics.median(one.change.effect for one in own)
        name = f"{workload}@{group}" if workload else f"{MACHINE}{group}"
        text = (
            f"break: {name}, {why}, since {first.commit[:8]} {first.committed_at:%Y-%m-%d}: "
            f"{_num(len(own), 'series', 'series')} start anew, median change {effect:+.1%}"
        )
        lines.append(shown(text, markdown))
    return lines


def _in_words(one: Stopped, judged: Judged) -> str:
    newest = ", the machine's newest among them" if one.is_newest else ""
    return (
        f"{one.status} since {one.commit[:8]} {one.committed_at:%Y-%m-%d} "
        f"({_num(one.num_runs, 'run', 'runs')}{newest}): {judged.grid.id(one.series)}"
    )


def _workload(one: Found) -> str:
    return one.grid.cases[one.series].partition("[")[0] if one.series is not None else ""


def _rest(others: Iterable[Found]) -> list[str]:
    """How many there are that are not listed."""
    counted = Counter(one.status if one.status in _OVER else "faster" for one in others)
    said = [f"{num} {word}" for word, num in counted.items()]
    return [f"not listed: {', '.join(said)}; --all lists them"] if said else []


_OVER = ("recovered", "ended", "temporary")


def summary(chosen: Sequence[Chosen], axis: Axis) -> list[str]:
    """How much was judged, how small a change it could have shown, and what was left out."""
    judged = [own for one in chosen for own, _ in one.counted()]
    effects = sorted(own.detectable for own in judged if own.detectable is not None)
    num, fewer = sum(own.judged for own in judged), f"fewer than {FEWEST_POINTS} points"
    lines = [
        f"{_num(num, 'series', 'series')} judged along {_AXES[axis]}, "
        f"{len(judged) - num} too short ({fewer})"
    ]
    if ended := num - len(effects):
        lines[0] += f"; {ended} of them only up to their newest break ({fewer} since)"
    if effects:
        lines[0] += (
            f"; smallest detectable effect: median {statistics.median(effects):.1%}, "
            f"worst {effects[-1]:.1%}"
        )
    left = Counter[str]()
    for one in chosen:
        left.update(one.judged.grid.left_out)
        left["reruns of older commits, evidence only"] += len(one.judged.grid.reruns)
    said = [f"{num} {why}" for why, num in left.items() if num]
    lines += [f"left out: {', '.join(said)}"] if said else []
    stood_in = [one.judged.grid.group for one in chosen if one.judged.grid.simulated]
    return lines + ([f"simulated, no measurement: {', '.join(stood_in)}"] if stood_in else [])


_AXES = {"commit": "commits", "run-time": "the time of the runs"}


def _num(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def as_json(chosen: Sequence[Chosen], explainer: Explainer, axis: Axis) -> dict[str, Any]:
    """Every event, and every series, as plain values."""
    return {
        "axis": axis,
        "events": [_event(explainer.tell(*pair)) for pair in events(chosen)],
        "stopped": [
            {
                "id": judged.grid.id(one.series),
                "status": one.status,
                "since": {"run_id": one.run_id, "commit": one.commit},
                "num_runs": one.num_runs,
                "in_newest_run": one.is_newest,
            }
            for one, judged in stopped(chosen)
        ],
        "series": [
            {"id": id, "noise": own.noise, "detectable": own.detectable}
            for id, own in series(chosen)
        ],
        "notes": summary(chosen, axis),
    }


def _event(told: Told) -> dict[str, Any]:
    one = told.found
    return {
        "id": one.event.id,
        "commit": one.event.commit,
        "direction": one.event.direction,
        "near": sorted(one.event.near),
        "status": one.status,
        "kind": one.change.kind,
        "effect": one.change.effect,
        "interval": [one.low, one.high],
        "before_s": one.before_s,
        "after_s": one.after_s,
        "last_good": _column(one, one.place - 1),
        "first_bad": _column(one, one.place),
        "off_by_at_most": one.slack,
        "moved": one.moved,
        "recent": told.recent,
        "triage": None
        if told.triage is None
        else {**plain(told.triage), "lapsed": told.lapsed or None},
        "fails": told.fails,
        "cause": asdict(told.cause),
    }


def plain(entry: Entry) -> dict[str, Any]:
    """An entry of triage as JSON has it."""
    return {**asdict(entry), "until": None if entry.until is None else entry.until.isoformat()}


def _column(one: Found, place: int) -> dict[str, str] | None:
    if place < 0:
        return None
    column = one.grid.columns[one.points[place]]
    return {
        "run_id": column.run_id,
        "commit": column.commit,
        "committed_at": column.committed_at.isoformat(),
        "started_at": column.started_at.isoformat(),
    }
