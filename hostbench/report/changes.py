"""The events of a results folder as a page, a table or a document for JSON; the machines' own come
first."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from msgspec import structs

from hostbench.judge.events import Event
from hostbench.judge.grid import RunPoint
from hostbench.report import event_words as words
from hostbench.report.blocks import Block, Column, Table
from hostbench.report.choice import Selection, events, series, stopped
from hostbench.report.event_words import is_listed, summary
from hostbench.report.judged import Explainer
from hostbench.store.triage import Entry

CAUSE = Column(("cause",), "cause", below=True)


def blocks(
    chosen: Sequence[Selection], explainer: Explainer, *, every: bool = False
) -> list[Block]:
    """Baseline resets are a line each kind; `every` lists the rest too."""
    steps = [(explainer.assess(event), own) for event, own in events(chosen) if not event.is_reset]
    listed = [(event, own) for event, own in steps if every or is_listed(event)]
    more = [words.stopped_in_words(*pair) for pair in stopped(chosen)]
    more += words.resets(event for event, _ in events(chosen) if event.is_reset)
    left = words.rest(event for event, _ in steps if not (every or is_listed(event)))
    more += [f"{left}; --all lists them"] if left else []
    more += summary(chosen, explainer.axis)
    shown = [explainer.explain(*pair) for pair in listed]
    return [of_events(shown) if shown else "no change to show", "", *more]


def table(chosen: Sequence[Selection], explainer: Explainer) -> Table:
    """A row for each event."""
    return of_events([explainer.tell(*pair) for pair in events(chosen)])


def of_events(found: Sequence[Event]) -> Table:
    """Series of one state with the same cause are neighbours: it is said once for all of them."""
    groups = words.by_cause(found)
    causes = ["; ".join(words.why(own)) for own in groups]
    rows = [
        {**_row(event), "cause": why}
        for own, why in zip(groups, causes, strict=True)
        for event in own
    ]
    return Table((*words.COLUMNS, CAUSE), rows)


def _row(event: Event) -> dict[str, Any]:
    sides = compared(event)
    num_moved, num_series = event.moved or (None, None)
    return {
        "state": words.state(event),
        "fails": event.fails,
        "since": event.commit,
        "commit": event.first.commit,
        "committed_at": event.first.committed_at.isoformat(),
        "started_at": event.first.started_at.isoformat(),
        "run_id": event.first.run_id,
        "effect": sides["effect"],
        "low": sides["interval"][0],
        "high": sides["interval"][1],
        "before_s": sides["before_s"],
        "after_s": sides["after_s"],
        "raw_effect": words.raw_effect(event),
        "detects": event.detectable,
        "series": event.id,
        "num_moved": num_moved,
        "num_series": num_series,
    }


def as_json(chosen: Sequence[Selection], explainer: Explainer) -> dict[str, Any]:
    """Every event, and every series, as plain values."""
    return {
        "axis": explainer.axis,
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
        "notes": summary(chosen, explainer.axis),
    }


def _event(event: Event) -> dict[str, Any]:
    entry = None
    if event.triage is not None:
        entry = {**plain(event.triage), "lapsed": event.lapsed or None}
    return {
        "id": event.id,
        "commit": event.commit,
        "direction": event.direction,
        "near": event.near,
        "status": event.status,
        "kind": event.kind,
        **compared(event),
        "last_good": _point(event.last),
        "first_bad": _point(event.first),
        "off_by_at_most": event.slack,
        "moved": event.moved,
        "recent": event.recent,
        "triage": entry,
        "fails": event.fails,
        "cause": {"label": event.cause, "why": words.evidence_lines(event)},
        "evidence": [structs.asdict(one) for one in event.evidence],
    }


def compared(event: Event) -> dict[str, Any]:
    """The levels on the two sides and their difference; none of it across a baseline reset."""
    if event.is_reset:
        return {"effect": None, "interval": [None, None], "before_s": None, "after_s": None}
    return {
        "effect": event.effect,
        "interval": [event.low, event.high],
        "before_s": event.before_s,
        "after_s": event.after_s,
    }


def plain(entry: Entry) -> dict[str, Any]:
    """An entry of triage as JSON has it."""
    return {**asdict(entry), "until": None if entry.until is None else entry.until.isoformat()}


def _point(point: RunPoint | None) -> dict[str, str] | None:
    if point is None:
        return None
    return {
        "run_id": point.run_id,
        "commit": point.commit,
        "committed_at": point.committed_at.isoformat(),
        "started_at": point.started_at.isoformat(),
    }
