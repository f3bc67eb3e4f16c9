"""One night against the nights before it: which series moved, and whether the code moved them.

A series that seems to have moved (`suspects`) is measured once more in the same night: interleaved
with the code of the night before or, where that is the same code, by a second run. Only the rule
for two sides (judge.two_sides) says that it has. Pure functions of numbers.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from hostbench.core.samples import median
from hostbench.judge.two_sides import CHANGED, Comparison, TwoSides, compare, half, side_of

SUSPECT = 0.01
"""p-value from which on a series is measured again: of 100 that have not moved about one is."""
MOST_AGAIN, SHARE_AGAIN = 12, 0.1
"""Series that are measured again in a night: so many, or so much of the run where that is more."""

SeriesName = tuple[str, str]
"""Case and version, of one machine."""
LaunchesOf = Mapping[SeriesName, Sequence[float]]
"""Of one run: the seconds of each launch."""
LevelsOf = Mapping[SeriesName, Sequence[Sequence[float]]]

NightCause = Literal[
    "code", "environment", "disturbed", "unexplained", "gone", "undecided", "not measured again"
]
"""What moved a series. `code`: interleaved with the code before, the difference is there.
`environment`: not the code, and a fact that lasts has changed (torch, a driver). `disturbed`: not
the code, and a passing fact moved (throttled, other programs). `unexplained`: none of these.
`gone`: not the code, and no more than runs differ by. `undecided`: that it is the code lies too
close to call."""
CONFIRMED: tuple[NightCause, ...] = ("code", "environment")


def interleaved(first: LaunchesOf, second: LaunchesOf) -> dict[SeriesName, TwoSides]:
    """The series that two runs have whose launches were interleaved."""
    return {
        name: TwoSides(interleaved=(first[name], own))
        for name, own in second.items()
        if name in first
    }


def against_level(
    tonight: Sequence[LaunchesOf],
    earlier: Sequence[LaunchesOf],
    apart: LevelsOf = MappingProxyType({}),
) -> dict[SeriesName, TwoSides]:
    """Tonight's runs against those `earlier`, the newest first. `apart`: of each series the seconds
    of the runs before its last confirmed change, those of each level together."""
    return {
        name: TwoSides(
            second=[median(run[name]) for run in tonight if name in run],
            before=[median(run[name]) for run in reversed(earlier) if name in run],
            apart=apart.get(name, ()),
        )
        for name in tonight[0]
        if any(name in run for run in earlier)
    }


def suspects(
    tonight: LaunchesOf, earlier: Sequence[LaunchesOf], apart: LevelsOf = MappingProxyType({})
) -> dict[SeriesName, Comparison]:
    """Series that seem to have moved; of a few of them the rule says so (`has_moved`). Without
    enough runs for a level the launches of the last one tell what to measure again, and nothing
    else."""
    by_level = compare(against_level([tonight], earlier, apart))
    last = {name: own for run in reversed(earlier) for name, own in run.items()}
    few_runs = {name: last[name] for name, comparison in by_level.items() if comparison.lacks_runs}
    return {
        name: comparison
        for name, comparison in (by_level | compare(interleaved(few_runs, tonight))).items()
        if comparison.verdict in CHANGED or _may_have_moved(comparison)
    }


def _may_have_moved(tonight: Comparison) -> bool:
    p_value = tonight.p_value if tonight.unit == "run" else None
    return tonight.is_large and p_value is not None and p_value <= SUSPECT


def has_moved(tonight: Comparison) -> bool:
    """Whether the rule says so of runs, not of launches that were not interleaved."""
    return tonight.unit == "run" and tonight.verdict in CHANGED


def cause(
    tonight: Comparison, again: Comparison | None, *, same_code: bool, lasting: bool, passing: bool
) -> NightCause:
    """Why a series moved. `again`: the code before against tonight's, interleaved; of the
    `same_code` the level against both runs of tonight. The code's counts as there where its 99 %
    interval lies beyond half of what was seen (`two_sides.side_of`). `lasting`, `passing`: whether
    such facts differ from the night before."""
    if again is None or tonight.effect is None:
        return "not measured again"
    lies = side_of(again, half(tonight.effect))
    if lies == "bad" and not same_code:
        return "code"
    if not has_moved(again if same_code else tonight):
        return "gone"
    if lies == "undecided" and not same_code:
        return "undecided"
    if passing:  # it may hide what a fact that lasts has done: the next night tells
        return "disturbed"
    return "environment" if lasting else "unexplained"


def to_measure_again(
    changes: Mapping[SeriesName, Comparison], num_series: int
) -> tuple[SeriesName, ...]:
    """The series to measure again, of so many in the run: all, or where they are more than
    MOST_AGAIN and than SHARE_AGAIN of the run those that have moved, the furthest first."""
    most = max(MOST_AGAIN, round(SHARE_AGAIN * num_series))

    def order(name: SeriesName) -> tuple[bool, float, SeriesName]:
        return not has_moved(changes[name]), -abs(changes[name].effect or 0.0), name

    return tuple(sorted(changes, key=order)[:most])
