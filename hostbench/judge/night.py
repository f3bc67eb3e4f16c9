"""One night against the nights before it: which series moved, and whether the code moved them.

A run by itself cannot tell: what drifts from run to run is shared by all its launches. So what
seems to have moved is measured once more in the same night: interleaved with the code of the night
before or, where that is the same code, by a second run. Pure functions of numbers.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Literal

from hostbench.judge.compare import Comparison, compare, half, side_of

LOOK_BACK = 2
"""Runs before tonight that a series must have moved against, each of them: one odd night makes no
candidate the night after."""
MOST_AGAIN, SHARE_AGAIN = 12, 0.1
"""Series that are measured again in a night: so many, or so much of the run where that is more."""

SeriesName = tuple[str, str]
"""Case and version, of one machine."""
LaunchesOf = Mapping[SeriesName, Sequence[float]]
"""Of one run: the seconds of each launch."""

NightCause = Literal[
    "code", "environment", "disturbed", "unexplained", "gone", "undecided", "not measured again"
]
"""What moved a series. `code`: interleaved with the code before, the difference is there.
`environment`: not the code, and a fact that lasts has changed (torch, a driver). `disturbed`: not
the code, and a passing fact moved (throttled, other programs). `unexplained`: none of these.
`gone`: the second run of tonight does not show it. `undecided`: that lies too close to call."""
CONFIRMED: tuple[NightCause, ...] = ("code", "environment")


def sides(
    first: LaunchesOf, second: LaunchesOf
) -> dict[SeriesName, tuple[list[Sequence[float]], list[Sequence[float]]]]:
    """The series that two runs have, as `judge.compare` takes them."""
    return {name: ([first[name]], [own]) for name, own in second.items() if name in first}


def held_against(
    tonight: LaunchesOf, earlier: Sequence[LaunchesOf]
) -> dict[SeriesName, tuple[int, ...]]:
    """Which of the runs `earlier`, the newest first, each series is compared with: the last
    LOOK_BACK that have it."""
    indexes = {
        name: tuple(islice((at for at, run in enumerate(earlier) if name in run), LOOK_BACK))
        for name in tonight
    }
    return {name: own for name, own in indexes.items() if own}


def moved(tonight: LaunchesOf, earlier: Sequence[LaunchesOf]) -> dict[SeriesName, Comparison]:
    """Series whose launches tonight differ, in one direction, from those of each of the runs that
    they are held against; compared with the last."""
    tables: list[dict[SeriesName, tuple[list[Sequence[float]], list[Sequence[float]]]]] = [
        {} for _ in range(LOOK_BACK)
    ]
    for name, indexes in held_against(tonight, earlier).items():
        for table, at in zip(tables, indexes, strict=False):
            table[name] = ([earlier[at][name]], [tonight[name]])
    last, *others = map(compare, tables)
    return {
        name: result
        for name, result in last.items()
        if result.verdict in ("slower", "faster")
        and all(name not in other or other[name].verdict == result.verdict for other in others)
    }


def cause(
    tonight: Comparison, again: Comparison | None, *, same_code: bool, lasting: bool, passing: bool
) -> NightCause:
    """Why a series moved. `again`: the code before against tonight's, interleaved; of the
    `same_code` the night before against tonight's second run. It counts as there again where its
    99 % interval lies beyond half of what was seen (`compare.side_of`). `lasting`, `passing`:
    whether such facts differ from the night before."""
    if again is None or tonight.effect is None:
        return "not measured again"
    lies = side_of(again, half(tonight.effect))
    if lies == "undecided":
        return "undecided"
    if lies == "good" and same_code:
        return "gone"
    if lies == "bad" and not same_code:
        return "code"
    if passing:  # it may hide what a fact that lasts has done: the next night tells
        return "disturbed"
    return "environment" if lasting else "unexplained"


def to_measure_again(
    changes: Mapping[SeriesName, Comparison], num_series: int
) -> tuple[SeriesName, ...]:
    """The series to measure again, of so many in the run: all, or those that moved furthest where
    they are more than MOST_AGAIN and than SHARE_AGAIN of the run."""
    most = max(MOST_AGAIN, round(SHARE_AGAIN * num_series))

    def size(name: SeriesName) -> tuple[float, SeriesName]:
        return -abs(changes[name].effect or 0.0), name

    return tuple(sorted(changes, key=size)[:most])
