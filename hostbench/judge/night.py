"""A night against the level of the runs before it: which series moved, and whether the code moved
them.

A series that seems to have moved (`suspects`) is measured once more in the same night: interleaved
with the code of the night before or, where that is the same code, in a second run. The rule for two
sides (judge.two_sides) says of both whether it has. Pure functions of numbers.
"""

from collections.abc import Mapping

from msgspec import structs

from hostbench.judge.two_sides import CHANGED, Comparison, KeyT, half, side_of
from hostbench.store.nights import NightCause

SUSPECT = 0.01
"""p-value from which on a series is measured again: of 100 that have not moved about one is."""
MOST_AGAIN, SHARE_AGAIN = 12, 0.1
"""Series that are measured again in a night: so many, or so much of the run where that is more."""


def suspects(comparisons: Mapping[KeyT, Comparison]) -> dict[KeyT, Comparison]:
    """Series that moved, and after them those that may have; the furthest first."""
    ranks = {
        key: (one.verdict not in CHANGED, -abs(one.effect or 0.0))
        for key, one in comparisons.items()
        if one.verdict in CHANGED
        or (one.is_large and one.p_value is not None and one.p_value <= SUSPECT)
    }
    return {key: comparisons[key] for key in sorted(ranks, key=lambda key: ranks[key])}


def moved(
    suspects: Mapping[KeyT, Comparison],
    again: Mapping[KeyT, Comparison],
    *,
    same_code: bool,
    lasting: bool,
    passing: bool,
) -> dict[KeyT, Comparison]:
    """The series that moved, with their cause, the furthest first: the code's as they
    were measured again, others as the night's run has them. `again`: see `cause`."""
    rows = {}
    for key, tonight in suspects.items():
        why = cause(tonight, again.get(key), same_code=same_code, lasting=lasting, passing=passing)
        if why is not None:
            shown = again[key] if why == "code" else tonight
            verdict = CHANGED[0] if (shown.effect or 0.0) > 0 else CHANGED[1]
            rows[key] = structs.replace(shown, verdict=verdict, why=why, cause=why)
    return dict(sorted(rows.items(), key=lambda item: -abs(item[1].effect or 0.0)))


def cause(
    tonight: Comparison, again: Comparison | None, *, same_code: bool, lasting: bool, passing: bool
) -> NightCause | None:
    """Why a series moved; None where measured again it has not. `again`: the code before against
    tonight's, interleaved; of the `same_code` the level against both runs of tonight. The code's
    counts as there where its 99 % interval lies beyond half of what was seen (`two_sides.side_of`).
    `lasting`, `passing`: whether such facts differ from the night before."""
    has_moved = tonight.verdict in CHANGED
    if again is None or again.low is None or tonight.effect is None:  # failed or cut short
        return "not measured again" if has_moved else None
    lies = side_of(again, half(tonight.effect))
    if lies == "bad" and not same_code:
        return "code"
    if not (again.verdict in CHANGED if same_code else has_moved):
        return None
    if lies == "undecided" and not same_code:
        return "unexplained"
    if passing:  # it may hide what a fact that lasts has done: the next night tells
        return "disturbed"
    return "environment" if lasting else "unexplained"
