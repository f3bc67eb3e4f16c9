"""One night against the nights before it: which series moved, and whether the code moved them.

A series that seems to have moved (`may_have_moved`) is measured once more in the same night:
interleaved with the code of the night before or, where that is the same code, by a second run. Only
the rule for two sides (judge.two_sides) says that it has. Pure functions of numbers.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hostbench.core.clock import epoch_s
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.judge.two_sides import CHANGED, Comparison, TwoSides, compare, half, side_of
from hostbench.store.nights import Night, NightChange
from hostbench.store.runs import WholeRun

SUSPECT = 0.01
"""p-value from which on a series is measured again: of 100 that have not moved about one is."""
MOST_AGAIN, SHARE_AGAIN = 12, 0.1
"""Series that are measured again in a night: so many, or so much of the run where that is more."""

SeriesName = tuple[str, str]
"""Case and version, of one machine."""
LaunchesOf = Mapping[SeriesName, Sequence[float]]
"""Of one run: the seconds of each launch."""
Comparisons = dict[SeriesName, Comparison]
NightCause = Literal["code", "environment", "disturbed", "unexplained", "not measured again"]
"""What moved a series. `code`: interleaved with the code before, the difference is there.
`environment`: not the code, and a fact that lasts has changed (torch, a driver). `disturbed`: not
the code, and a passing fact moved (throttled, other programs). `unexplained`: none of these, or too
close to call."""
CONFIRMED: tuple[NightCause, ...] = ("code", "environment")


def launches_of(run: WholeRun) -> LaunchesOf:
    """Of each series that has enough launches for a verdict, without the observing pass."""
    launches: dict[SeriesName, list[float]] = {}
    for record in run.winners().values():
        if record.status == "ok" and record.seconds is not None:
            launches.setdefault((str(record.case), record.version), []).append(record.seconds)
    return {name: own for name, own in launches.items() if len(own) >= MIN_LAUNCHES}


def confirmed(nights: Iterable[Night]) -> Iterator[tuple[Night, NightChange]]:
    for night in nights:
        yield from ((night, own) for own in night.changes if own.cause in CONFIRMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsBefore:
    """What a night is held against."""

    runs: Sequence[LaunchesOf]
    """The newest first; of each the series of which no night has confirmed a change since."""
    apart: Mapping[SeriesName, Sequence[Sequence[float]]] = field(default_factory=dict)
    """Of each other series the seconds of the runs before its last such change, those of each level
    together: they say how much runs differ."""

    def compare(self, *tonight: LaunchesOf) -> Comparisons:
        """Each series of the first of tonight's runs that has one before, against the level."""
        names = {name for run in self.runs for name in run}
        sides = {
            name: TwoSides(
                second=[median(run[name]) for run in tonight if name in run],
                before=[median(run[name]) for run in reversed(self.runs) if name in run],
                apart=self.apart.get(name, ()),
            )
            for name in tonight[0]
            if name in names
        }
        return compare(sides)

    def suspects(self, tonight: LaunchesOf) -> Comparisons:
        """Series that seem to have moved; of a few of them the rule says so (`has_moved`). Without
        enough runs for a level the launches of the last one tell what to measure again, and nothing
        else."""
        by_level = self.compare(tonight)
        last = {name: own for run in reversed(self.runs) for name, own in run.items()}
        few_runs = {name: last[name] for name, own in by_level.items() if own.lacks_runs}
        comparisons = by_level | interleaved(few_runs, tonight)
        return {name: own for name, own in comparisons.items() if _may_have_moved(own)}


def runs_before(runs: Sequence[WholeRun], nights: Sequence[Night]) -> RunsBefore:
    """`runs`: the newest first."""
    changed_at: dict[SeriesName, list[float]] = {}
    for night, change in confirmed(nights):
        times = changed_at.setdefault((change.case, change.version), [])
        times.append(epoch_s(night.started_at))
    since = list[LaunchesOf]()
    apart = {name: [list[float]() for _ in times] for name, times in changed_at.items()}
    for run in runs:
        launches, at_s = launches_of(run), epoch_s(run.header.started_at)
        level = {name: bisect_right(changed_at.get(name, ()), at_s) for name in launches}
        since.append({n: own for n, own in launches.items() if level[n] == len(apart.get(n, ()))})
        for name in launches.keys() - since[-1].keys():
            apart[name][level[name]].append(median(launches[name]))
    return RunsBefore(runs=since, apart=apart)


def interleaved(first: LaunchesOf, second: LaunchesOf) -> Comparisons:
    """The series that two runs have whose launches were interleaved."""
    both = {name: (first[name], own) for name, own in second.items() if name in first}
    return compare({name: TwoSides(interleaved=sides) for name, sides in both.items()})


def _may_have_moved(tonight: Comparison) -> bool:
    p_value = tonight.p_value if tonight.unit == "run" else None
    is_seldom = tonight.is_large and p_value is not None and p_value <= SUSPECT
    return tonight.verdict in CHANGED or is_seldom


def has_moved(tonight: Comparison) -> bool:
    """Whether the rule says so of runs, not of launches that were not interleaved."""
    return tonight.unit == "run" and tonight.verdict in CHANGED


def changes(
    moved: Comparisons, again: Comparisons, *, same_code: bool, lasting: bool, passing: bool
) -> tuple[NightChange, ...]:
    """The series that moved with why, the largest first. `moved`: those that seem to have, tonight;
    `again`: as they were measured once more (see `cause`)."""
    series = []
    for name, tonight in moved.items():
        why = cause(tonight, again.get(name), same_code=same_code, lasting=lasting, passing=passing)
        if why is not None:
            shown = again[name] if why == "code" else tonight
            change = NightChange(
                case=name[0],
                version=name[1],
                cause=why,
                effect=shown.effect or 0.0,
                low=shown.low,
                high=shown.high,
                before_s=shown.before,
                after_s=shown.after,
            )
            series.append(change)
    return tuple(sorted(series, key=lambda change: -abs(change.effect)))


def cause(
    tonight: Comparison, again: Comparison | None, *, same_code: bool, lasting: bool, passing: bool
) -> NightCause | None:
    """Why a series moved; None where measured again it has not. `again`: the code before against
    tonight's, interleaved; of the `same_code` the level against both runs of tonight. The code's
    counts as there where its 99 % interval lies beyond half of what was seen (`two_sides.side_of`).
    `lasting`, `passing`: whether such facts differ from the night before."""
    if again is None or tonight.effect is None:
        return "not measured again" if has_moved(tonight) else None
    lies = side_of(again, half(tonight.effect))
    if lies == "bad" and not same_code:
        return "code"
    if not has_moved(again if same_code else tonight):
        return None
    if lies == "undecided" and not same_code:
        return "unexplained"
    if passing:  # it may hide what a fact that lasts has done: the next night tells
        return "disturbed"
    return "environment" if lasting else "unexplained"


def to_measure_again(moved: Comparisons, num_series: int) -> tuple[SeriesName, ...]:
    """The series to measure again, of so many in the run: all, or where they are more than
    MOST_AGAIN and than SHARE_AGAIN of the run those that have moved, the furthest first."""
    most = max(MOST_AGAIN, round(SHARE_AGAIN * num_series))

    def order(name: SeriesName) -> tuple[bool, float, SeriesName]:
        return not has_moved(moved[name]), -abs(moved[name].effect or 0.0), name

    return tuple(sorted(moved, key=order)[:most])
