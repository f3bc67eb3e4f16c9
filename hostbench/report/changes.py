"""The events of a results folder as a page, a table or a document for JSON; the machines' own come
first."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hostbench.judge.events import DetectedEvent
from hostbench.report import event_words as words
from hostbench.report.blocks import Block, Column, Table
from hostbench.report.choice import Selection, events, series, stopped
from hostbench.report.event_words import is_listed, summary
from hostbench.report.judged import ExplainedEvent, Explainer
from hostbench.store.triage import Entry

CAUSE = Column(("cause",), "cause", below=True)


def blocks(
    chosen: Sequence[Selection], explainer: Explainer, *, every: bool = False
) -> list[Block]:
    """Baseline resets are a line each kind; `every` lists the rest too."""
    found = events(chosen)
    steps = [pair for pair in found if pair[0].change.kind != "break"]
    listed = [every or is_listed(one, explainer.is_recent(one)) for one, _ in steps]
    told = [explainer.tell(*pair) for pair in itertools.compress(steps, listed)]
    more = [words.stopped_in_words(*pair) for pair in stopped(chosen)]
    more += words.resets(one for one, _ in found if one.change.kind == "break")
    left = words.rest(one for (one, _), is_told in zip(steps, listed, strict=True) if not is_told)
    more += [f"{left}; --all lists them"] if left else []
    more += summary(chosen, explainer.axis)
    return [of_events(told) if told else "no change to show", "", *more]


def table(chosen: Sequence[Selection], explainer: Explainer) -> Table:
    """A row for each event."""
    return of_events([explainer.tell(*pair) for pair in events(chosen)])


def of_events(told: Sequence[ExplainedEvent]) -> Table:
    """Series of one state with the same cause are neighbours: it is said once for all of them."""
    groups = words.by_cause(told)
    causes = ["; ".join(words.why(own)) for own in groups]
    rows = [
        {**_row(one), "cause": why} for own, why in zip(groups, causes, strict=True) for one in own
    ]
    return Table((*words.COLUMNS, CAUSE), rows)


def _row(told: ExplainedEvent) -> dict[str, Any]:
    one, sides = told.found, compared(told.found)
    num_moved, num_series = one.moved or (None, None)
    return {
        "state": words.state(told),
        "fails": told.fails,
        "since": one.event.commit,
        "commit": one.first.commit,
        "committed_at": one.first.committed_at.isoformat(),
        "started_at": one.first.started_at.isoformat(),
        "run_id": one.first.run_id,
        "effect": sides["effect"],
        "low": sides["interval"][0],
        "high": sides["interval"][1],
        "before_s": sides["before_s"],
        "after_s": sides["after_s"],
        "raw_effect": words.raw_effect(one),
        "detects": one.detectable,
        "series": one.event.id,
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


def _event(told: ExplainedEvent) -> dict[str, Any]:
    one = told.found
    return {
        "id": one.event.id,
        "commit": one.event.commit,
        "direction": one.event.direction,
        "near": sorted(one.event.near),
        "status": one.status,
        "kind": one.change.kind,
        **compared(one),
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


def compared(one: DetectedEvent) -> dict[str, Any]:
    """The levels on the two sides and their difference; none of it across a baseline reset."""
    if one.change.kind == "break":
        return {"effect": None, "interval": [None, None], "before_s": None, "after_s": None}
    return {
        "effect": one.change.effect,
        "interval": [one.low, one.high],
        "before_s": one.before_s,
        "after_s": one.after_s,
    }


def plain(entry: Entry) -> dict[str, Any]:
    """An entry of triage as JSON has it."""
    return {**asdict(entry), "until": None if entry.until is None else entry.until.isoformat()}


def _column(one: DetectedEvent, place: int) -> dict[str, str] | None:
    if place < 0:
        return None
    column = one.grid.columns[int(one.points[place])]
    return {
        "run_id": column.run_id,
        "commit": column.commit,
        "committed_at": column.committed_at.isoformat(),
        "started_at": column.started_at.isoformat(),
    }
