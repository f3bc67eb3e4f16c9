"""What was judged of a results folder, as small frames, for whoever draws it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from hostbench.core.clock import today
from hostbench.judge.grid import Along
from hostbench.report.event_words import entry_in_words
from hostbench.report.judged import RECENT
from hostbench.report.judging import EVENTS, SERIES, ensured
from hostbench.store import kept
from hostbench.store import triage as stored
from hostbench.store.history import History
from hostbench.store.triage import EventName, Triage, entry_for

Said: TypeAlias = tuple[str | None, str | None, str]
"""State, words, and why it counts no more."""


class JudgedTable:
    """What was judged of a history along an axis, and what people have said of it.

    Text is `str`, or None where there is nothing to say; times are UTC; `*_s` and `level*` are
    seconds, `value`, `low` and `high` of a series are in its `unit`; effects, `change`, `noise` and
    `detectable` are relative: 0.05 is 5 % slower. Numbers that are not known are NaN.
    """

    def __init__(self, history: History, axis: Along, root: Path) -> None:
        """What is not judged yet is judged first, and what is kept but damaged anew: `ensured`."""
        self._triage = stored.read(history.results) if history.results else Triage()
        whole = ensured(history, axis, root).whole
        try:
            self._series, self._events = kept.read(whole, SERIES), kept.read(whole, EVENTS)
        except kept.DAMAGE:
            kept.forget([whole])
            ensured(history, axis, root)
            self._series, self._events = kept.read(whole, SERIES), kept.read(whole, EVENTS)

    def series(self) -> pd.DataFrame:
        """A row for each series that a run came to, also those that are never judged.

        machine, group           `group`: the machine; machine/environment where it has several
        family, workload, case   `id`: case@group
        unit, points             of its numbers; how many there are of runs that may be judged
        value, low, high         its newest number, with its 99 % interval
        status                   of the newest run that came to it: ok, failed, skipped
        newest_run, newest_commit, newest_at   that run; when it started
        since_run, since_commit, since_committed_at   the first of the runs without a number
        judged, why              whether the detector had enough; why not, in words, else empty
        level, level_ago         now, and 20 runs of its machine ago, by its steps since then
        change                   from the one to the other: 0 where no step lies between, neither
                                 its own nor one of the machine that it took part in. The three are
                                 NaN where it is not judged, or a baseline reset lies between
        noise, detectable        standard deviation of the logarithm from point to point; what 20
                                 points would confirm
        changed_run, changed_commit, changed_committed_at, changed_started_at, changed_effect
                                 its last confirmed step: the first point at the new level
        sparkline                up to 40 values in seconds, the oldest first
        """
        return self._series

    def events(self) -> pd.DataFrame:
        """A row for each event, in the order of `hostbench changes`: the machines' own first.

        id, machine, group       `machine:GROUP` for the machine's own, else case@group
        family, workload, case   empty for the machine's own
        kind, status, direction  step, temporary, break; as `hostbench changes` says it
        commit                   what it is called by in triage: a run where only that differs
        effect, low, high        with its 99 % interval; NaN for a break, like the levels
        before_s, after_s        medians of up to 20 points, as measured; NaN for the machine's own
        detectable, slack        points by which its place may be off
        last_*, first_*          the last point at the old level, the first at the new one: run,
                                 commit, committed_at, started_at
        around_last_*, around_first_*   the points that it lies between for sure
        until_*                  of a temporary one, the first point back at the old level
        near                     list: commits and runs that it may have begun with as well
        moved, moved_of          of the machine's own: how many of how many series went along
        why                      of a break: what changed
        index, from_end          its place among the runs of its group, from the first and the last
        cause, evidence          a label (hostbench.judge.causes), and a list of lines

        and as of today: recent (begun within the newest 50 runs), fails, and what somebody has
        said: triage (its state), triage_said (in words), lapsed (why it counts no more).
        """
        found = self._events
        recent = found["from_end"] <= RECENT
        said: list[Said] = [(None, None, "")] * len(found)
        if self._triage.entries:
            about = found[list(_OF_TRIAGE)].itertuples(index=False)
            said = [self._said(*one) for one in about]
        named = pd.DataFrame(said, columns=["triage", "triage_said", "lapsed"], dtype=object)
        stayed = (found["status"] == "confirmed") & (found["effect"] > 0) & recent
        counts = named["triage"].notna() & (named["lapsed"] == "")
        return found.assign(recent=recent, fails=stayed & ~counts, **named)

    def _said(
        self, id: str, commit: str, direction: str, effect: float, near: Sequence[str]
    ) -> Said:
        name = EventName(
            id=id, commit=commit, direction=direction, effect=effect, near=frozenset(near)
        )
        entry = entry_for(self._triage.entries.values(), name, today())
        if entry is None:
            return None, None, ""
        return entry.state, entry_in_words(entry), entry.lapsed(name, today())


_OF_TRIAGE = ("id", "commit", "direction", "effect", "near")
