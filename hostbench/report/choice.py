"""What was asked for of everything judged, and what was found in it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from hostbench.core.case import Case, SeriesSelector, parse_series, read_case
from hostbench.families import check_selects, load
from hostbench.judge.changepoint.change import Judgement
from hostbench.judge.changepoint.detector import longest_piece
from hostbench.judge.events import MACHINE, DetectedEvent, Judged
from hostbench.judge.grid import Grid, Stopped


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
        grid, own = self.judged.grid, self.judged.machine.own
        wanted = self.series if any(self.series) else [self.machine] * len(own)
        for one, logs, resets in compress(zip(own, grid.logs, grid.resets, strict=True), wanted):
            yield one, longest_piece(logs, resets)


def choose(
    judged: Sequence[Judged], wanted: Request, machine: str | None = None
) -> list[Selection]:
    """What is wanted of each grid, of one machine or of all.

    Raises UsageError for a series that is no case: neither stored nor among hostbench's own.
    """
    stored = {text for one in judged for text in one.grid.cases} if wanted.series else set()
    cases = {text: _case(text) for text in stored}
    for selector in wanted.series:
        if not any(selector.case.selects(case) for case in cases.values()):
            check_selects(selector.case, load(), "nothing like it is stored, and ")
    found = []
    for one in judged:
        grid = one.grid
        if machine in (None, grid.machine):
            series = tuple(_series(grid, wanted, cases))
            named = not wanted.machines.isdisjoint({grid.machine, grid.group})
            own = wanted.everything or named or any(series)
            found.append(Selection(judged=one, series=series, machine=own))
    return found


def _case(text: str) -> Case:
    return read_case(text) or Case(text.partition("[")[0], {})  # parameters that are no axes


def _series(grid: Grid, wanted: Request, cases: dict[str, Case]) -> Iterator[bool]:
    here = [one.case for one in wanted.series if one.machine in (None, grid.machine, grid.group)]
    for text in grid.cases:
        yield wanted.everything or any(selector.selects(cases[text]) for selector in here)


def events(chosen: Sequence[Selection]) -> list[tuple[DetectedEvent, Judged]]:
    """What was found in the series asked for, and of their machines; the machines' own first, then
    the largest."""
    found = [
        (one, own.judged)
        for own in chosen
        for one in own.judged.found
        if (own.machine if one.series is None else own.series[one.series])
    ]
    return sorted(found, key=_place)


_ORDER = ("confirmed", "provisional", "recovered", "ended", "temporary", "break")


def _place(item: tuple[DetectedEvent, Judged]) -> tuple[bool, int, float, str]:
    """confirmed before provisional before what is over."""
    one = item[0]
    return one.series is not None, _ORDER.index(one.status), -abs(one.change.effect), one.event.id


def stopped(chosen: Sequence[Selection]) -> list[tuple[Stopped, Judged]]:
    """Series asked for that had numbers and have none any more; those that fail first."""
    found = [
        (one, own.judged)
        for own in chosen
        for one in own.judged.grid.stopped
        if own.series[one.series]
    ]
    return sorted(found, key=lambda pair: (pair[0].status, pair[1].grid.id(pair[0].series)))


def has_failed(chosen: Sequence[Selection]) -> bool:
    """Whether a series that had numbers fails in its machine's newest run."""
    return any(one.status == "failed" and one.is_newest for one, _ in stopped(chosen))


def series(chosen: Sequence[Selection]) -> list[tuple[str, Judgement]]:
    """(id, judgement) of every series asked for."""
    return [
        (own.judged.grid.id(i), one)
        for own in chosen
        for i, one in enumerate(own.judged.machine.own)
        if own.series[i]
    ]


def machines(chosen: Sequence[Selection]) -> list[tuple[str, Judgement]]:
    """The same of each machine that has a common mode."""
    return [
        (f"{MACHINE}{own.judged.grid.group}", own.judged.machine.common)
        for own in chosen
        if own.judged.machine.common is not None and own.machine
    ]
