"""One night against the nights before it: which series moved, and whether the code moved them.

A series that seems to have moved (`may_have_moved`) is measured once more in the same night:
interleaved with the code of the night before or, where that is the same code, by a second run. Only
the rule for two sides (judge.two_sides) says that it has. Pure functions of numbers.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hostbench.core.clock import epoch_s
from hostbench.core.records import Run
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.judge.two_sides import CHANGED, Comparison, TwoSides, compare, half, side_of
from hostbench.store.nights import Night, NightChange

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


def launches_of(run: Run) -> LaunchesOf:
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

    runs: Sequence[tuple[float, LaunchesOf]]
    """The oldest first, each with when it began (s since the epoch)."""
    changed_at: Mapping[SeriesName, Sequence[float]] = field(default_factory=dict)
    """When nights have confirmed that a series moved."""

    def newest(self, name: SeriesName) -> int:
        """Of the runs that have it."""
        return max(index for index, (_, run) in enumerate(self.runs) if name in run)

    def compare(self, *tonight: LaunchesOf) -> Comparisons:
        """Each series of the first of tonight's runs against the level of the runs since its last
        change, where there are any; those before it say how much runs differ."""
        sides = {}
        for name in tonight[0]:
            times = self.changed_at.get(name, ())
            levels = [list[float]() for _ in range(len(times) + 1)]
            for at_s, run in self.runs:
                if name in run:
                    levels[bisect_right(times, at_s)].append(median(run[name]))
            *apart, before = levels
            second = [median(run[name]) for run in tonight if name in run]
            if before:
                sides[name] = TwoSides(second=second, before=before, apart=apart)
        return compare(sides)

    def suspects(self, tonight: LaunchesOf) -> Comparisons:
        """Series that seem to have moved; of a few of them the rule says so (`has_moved`). Without
        enough runs for a level the launches of the last one tell what to measure again, and nothing
        else."""
        by_level = self.compare(tonight)
        few_runs = [name for name, own in by_level.items() if own.lacks_runs]
        last = {name: self.runs[self.newest(name)][1][name] for name in few_runs}
        comparisons = by_level | interleaved(last, tonight)
        return {name: own for name, own in comparisons.items() if _may_have_moved(own)}


def runs_before(runs: Iterable[Run], nights: Iterable[Night]) -> RunsBefore:
    """Both the oldest first."""
    changed_at: dict[SeriesName, list[float]] = defaultdict(list)
    for night, change in confirmed(nights):
        changed_at[change.case, change.version].append(epoch_s(night.started_at))
    timed = [(epoch_s(run.header.started_at), launches_of(run)) for run in runs]
    return RunsBefore(runs=timed, changed_at=dict(changed_at))


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
