"""Events by what caused them: one change for each commit or fact that moved numbers, over all
machines, and what a person may type about it."""

import hashlib
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from hostbench.core.case import as_typed
from hostbench.families import declared
from hostbench.judge.events import STATES, Event
from hostbench.judge.history import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A commit or a fact that moved numbers."""

    key: str
    """Names it in an address."""
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
        return list(dict.fromkeys(event.machine for event in self.events))

    @property
    def num_series(self) -> int:
        """Where a machine moved as a whole, those that moved with it."""
        moved: dict[str, int] = defaultdict(int)
        for event in self.events:
            moved[event.group] = max(moved[event.group], event.moved[0] if event.moved else 0)
        return max(len({event.id for event in self.events if event.case}), sum(moved.values()))

    def sparkline(self, series: Mapping[str, Series]) -> list[float]:
        """Of the worst event's series, by id; where a machine moved as a whole the median of its
        longest, each over its mean."""
        for event in self.events:
            if event.id in series:
                return list(series[event.id].sparkline)
        own = [every.sparkline for every in series.values() if every.group == self.worst.group]
        length = max(map(len, own), default=0)
        shares = [np.divide(values, np.mean(values)) for values in own if len(values) == length]
        return [float(share) for share in np.median(shares, axis=0)] if length else []


def causes(events: Iterable[Event]) -> list[Cause]:
    """What fails now comes first, then the largest."""

    def badness(event: Event) -> tuple[int, float]:
        return STATES.index(event.state), 0.0 if event.is_reset else -abs(event.effect)

    by_cause: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in sorted(events, key=badness):
        by_cause[what(event), event.cause].append(event)
    return [
        Cause(
            key=hashlib.sha1(f"{name}|{label}".encode(), usedforsecurity=False).hexdigest()[:10],
            title=f"{name} {_subject(own[0]) if name.startswith('commit ') else ''}".strip(),
            events=own,
        )
        for (name, label), own in by_cause.items()
    ]


def what(event: Event) -> str:
    """What did it: a fact that changed, or the commit that it began with."""
    if event.is_reset:
        return event.why or "a baseline reset"
    facts = [evidence.text for evidence in event.evidence if evidence.kind == "fact"]
    if facts and event.cause in ("environment", "measurement changed"):
        return facts[0]
    return f"commit {event.first.commit[:8]}"


def _subject(event: Event) -> str:
    likely = (own.subject for own in event.evidence if own.kind == "likely commit")
    return next(likely, None) or ""


def commands(event: Event, results: Path | str) -> str:
    """What a person may type about an event, a line each: asv's own commands of another project's
    benchmark. A name with signs that no entry of triage may hold has none: pasted into a terminal
    they could be anything. A table at a URL is only compared."""
    if not (event.id + event.commit + event.machine).isprintable():
        return ""
    is_local, workload = isinstance(results, Path), event.case.partition("[")[0]
    where = results.absolute() if isinstance(results, Path) else results
    at = f" --results {shlex.quote(str(where))}"
    old, new = event.last.commit[:12] if event.last else "", event.first.commit[:12]
    two, ours = old not in ("", new), declared(workload) is not None
    typed, name = shlex.quote(as_typed(event.id)), shlex.quote(f"^{re.escape(workload)}$")
    lines = []
    if event.case and is_local and ours:
        lines.append(f"hostbench run --case {shlex.quote(as_typed(event.case))}")
    elif event.case and is_local and two:
        lines.append(f"asv continuous {old} {new} --bench {name}")
        lines.append(f"asv find {old}..{new} {name}")
    if two:
        lines.append(f"hostbench compare {old} {new} --machine {shlex.quote(event.machine)}{at}")
    if is_local:
        way = " --direction faster" if event.direction == "faster" else ""
        entry = f"{shlex.quote(event.commit)} investigating{way}"
        lines += [f"hostbench bisect {typed}{at}"] if event.case and ours else []
        lines.append(f"hostbench triage set {typed} {entry}{at}")
    return "\n".join(lines)
