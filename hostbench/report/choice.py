"""What was asked for of everything judged, and what was found in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from hostbench.core.case import Case, SeriesSelector, parse_series, read_case
from hostbench.families import check_selects, load
from hostbench.judge.changepoint.change import Judgement
from hostbench.judge.changepoint.detector import longest_piece
from hostbench.judge.events import MACHINE, Event, Judged
from hostbench.judge.grid import Stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a person typed: series, and machines for their own events; nothing is everything."""

    series: tuple[SeriesSelector, ...]
    machines: frozenset[str]

    @property
    def everything(self) -> bool:
        return not self.series and not self.machines

    @classmethod
    def read(cls, texts: Iterable[str]) -> "Request":
        """Raises UsageError for what is neither a series nor `machine:NAME`."""
        texts = list(texts)
        series = tuple(parse_series(text) for text in texts if not text.startswith(MACHINE))
        machines = (text.removeprefix(MACHINE) for text in texts if text.startswith(MACHINE))
        return cls(series=series, machines=frozenset(machines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What was asked for of one judged grid."""

    judged: Judged
    series: tuple[bool, ...]
    """Which of its series."""
    machine: bool
    """Its machine's own events, alone or beside its series; False where nothing was asked for."""

    def counted(self) -> Iterator[tuple[Judgement, int]]:
        """Each series that what is listed rests on, and how many points its longest piece has: the
        series asked for, or all of a machine that was asked for alone."""
        grid, judgements = self.judged.grid, self.judged.machine.own
        wanted = self.series if any(self.series) else [self.machine] * len(judgements)
        rows = zip(judgements, grid.logs, grid.resets, strict=True)
        for judgement, logs, resets in compress(rows, wanted):
            yield judgement, longest_piece(logs, resets)


def choose(
    judged: Sequence[Judged], wanted: Request, machine: str | None = None
) -> list[Selection]:
    """What is wanted of each grid, of one machine or of all.

    Raises UsageError for a series that is no case: neither stored nor among hostbench's own.
    """
    stored = {text for own in judged for text in own.grid.cases} if wanted.series else set()
    # A name that is no case has parameters that are no axes.
    cases = {text: read_case(text) or Case(text.partition("[")[0], {}) for text in stored}
    for selector in wanted.series:
        if not any(selector.case.selects(case) for case in cases.values()):
            check_selects(selector.case, load(), "nothing like it is stored, and ")
    selections = []
    for own in judged:
        grid = own.grid
        if machine in (None, grid.machine):
            names = (None, grid.machine, grid.group)
            here = [selector.case for selector in wanted.series if selector.machine in names]
            series = tuple(
                wanted.everything or any(selector.selects(cases[text]) for selector in here)
                for text in grid.cases
            )
            is_named = not wanted.machines.isdisjoint({grid.machine, grid.group})
            of_machine = wanted.everything or is_named or any(series)
            selections.append(Selection(judged=own, series=series, machine=of_machine))
    return selections


def events(chosen: Sequence[Selection]) -> list[tuple[Event, Judged]]:
    """What was detected in the series asked for, and of their machines; the machines' own first,
    then what stayed before what is over, the largest first."""

    def order(pair: tuple[Event, Judged]) -> tuple[bool, int, float, str]:
        event = pair[0]
        return event.case != "", _ORDER.index(event.status), -abs(event.effect), event.id

    pairs: list[tuple[Event, Judged]] = []
    for selection in chosen:
        judged = selection.judged
        wanted = {*compress(judged.grid.cases, selection.series)}
        wanted |= {""} if selection.machine else set()
        pairs += [(event, judged) for event in judged.events if event.case in wanted]
    return sorted(pairs, key=order)


_ORDER = ("confirmed", "provisional", "recovered", "ended", "temporary", "break")


def stopped(chosen: Sequence[Selection]) -> list[tuple[Stopped, Judged]]:
    """Series asked for that had numbers and have none any more; those that fail first."""
    pairs = [
        (series, selection.judged)
        for selection in chosen
        for series in selection.judged.grid.stopped
        if selection.series[series.series]
    ]
    return sorted(pairs, key=lambda pair: (pair[0].status, pair[1].grid.id(pair[0].series)))


def has_failed(chosen: Sequence[Selection]) -> bool:
    """Whether a series that had numbers fails in its machine's newest run."""
    return any(series.status == "failed" and series.is_newest for series, _ in stopped(chosen))


def series(chosen: Sequence[Selection]) -> list[tuple[str, Judgement]]:
    """(id, judgement) of every series asked for."""
    return [
        (selection.judged.grid.id(index), judgement)
        for selection in chosen
        for index, judgement in enumerate(selection.judged.machine.own)
        if selection.series[index]
    ]


def machines(chosen: Sequence[Selection]) -> list[tuple[str, Judgement]]:
    """The same of each machine that has a common mode."""
    return [
        (f"{MACHINE}{selection.judged.grid.group}", selection.judged.machine.common)
        for selection in chosen
        if selection.judged.machine.common is not None and selection.machine
    ]
