"""Launches of two sides that are looked at more than once: when, what each look may cost, and which
series are worth more launches.

Whoever looks again and again until something differs, finds that something differs. So the false
alarms that one look may give are shared out among all looks beforehand (weighted Bonferroni): if
each look at its own p-value over its share is wrong in at most a share of the cases, all looks
together are wrong in at most the whole, however the looks depend on each other and whatever decides
when to stop. Such a p-value is valid at any stopping time (Johari, Koomen, Pekelis and Walsh 2022,
Always Valid Inference), and such intervals are repeated confidence intervals (Jennison and Turnbull
1989). Between two looks nothing is judged. Pure functions of numbers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import NormalDist

from hostbench.core.samples import MIN_LAUNCHES
from hostbench.judge.compare import SAME_WITHIN, Comparison, KeyT, Shares
from hostbench.judge.rank_test import ALPHA

LOOKS = (MIN_LAUNCHES, 10, 14, 20, 28, 40, 56, 80, 112, 160)
"""Launches a side at each look: from one to the next the interval shrinks by a sixth."""
_TEST_PARTS = (1 / 4, 4 / 5)
"""What each look's test takes of what is left for it and the later ones, then half: 7 launches can
show little after the table's correction, 10 should show what they show without looks."""
_INTERVAL_PARTS = (1 / 2,)
"""The same of the interval: most series have not changed, and 7 launches often show it."""
_DOUBT = 1.5
"""What few launches say of how launches scatter may be wrong by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look of a schedule."""

    launches: int
    """A side."""
    shares: Shares


def looks(schedule: Sequence[int] = LOOKS) -> tuple[Look, ...]:
    """The looks of a schedule, which says after how many launches a side they are."""
    tests, intervals = (
        _shared_out(parts, len(schedule)) for parts in (_TEST_PARTS, _INTERVAL_PARTS)
    )
    return tuple(
        Look(launches=num, shares=Shares(test=test, interval=interval))
        for num, test, interval in zip(schedule, tests, intervals, strict=True)
    )


def last_look(num: int, schedule: Sequence[int] = LOOKS) -> Look | None:
    """The newest of the looks that so many launches a side allow; None before the first."""
    done = [*takewhile(lambda look: look.launches <= num, looks(schedule))]
    return done[-1] if done else None


def next_look(num: int) -> int | None:
    """Launches a side at the first look after so many; None after the last."""
    return next((look for look in LOOKS if look > num), None)


def _shared_out(parts: Sequence[float], num: int) -> list[float]:
    left, found = 1.0, []
    for place in range(num):
        part = parts[place] if place < len(parts) else 1 / 2
        found.append(left * part)
        left *= 1 - part
    return found


def half_width(one: Comparison) -> float | None:
    """Half of the interval, about the smallest change that these launches tell; None without."""
    return None if one.low is None or one.high is None else (one.high - one.low) / 2


def wanted(one: Comparison) -> float:
    """The half of an interval that decides: SAME_WITHIN for the same, the effect for a change."""
    return max(SAME_WITHIN, abs(one.effect or 0.0))


def could_decide(one: Comparison, half: float) -> bool:
    """Whether an interval of this half may decide."""
    return half <= _DOUBT * wanted(one)


def expected_half_width(one: Comparison, look: Look, later: Look) -> float:
    """The half of the interval at a later look, where launches scatter as its narrower side says: a
    far launch widens the other, and counts less among more. It shrinks with the root of the
    launches, and grows with the quantile of its smaller share. Infinite without one now."""
    if one.effect is None or one.low is None or one.high is None:
        return math.inf
    now, then = (
        NormalDist().inv_cdf(1 - ALPHA * at.shares.interval / 2) / math.sqrt(at.launches)
        for at in (look, later)
    )
    return min(one.effect - one.low, one.high - one.effect) * then / now


def within_reach(
    one: Comparison, look: Look, cost_s: float, left_s: float
) -> tuple[Look | None, float]:
    """The farthest look that the time left allows a series whose launch of both sides costs so
    much, if it had all of that time, and the half of the interval expected there. (None, infinity)
    where it allows none."""
    reach = last_look(look.launches + math.floor(left_s / max(cost_s, 1e-9)))
    if reach is None or reach.launches <= look.launches:
        return None, math.inf
    return reach, expected_half_width(one, look, reach)


def fitting(
    costs_s: Mapping[KeyT, float], order: Iterable[KeyT], num: float, left_s: float
) -> list[KeyT]:
    """Of these series, the first in the order first, those whose next `num` launches of both sides
    the time left allows together."""
    kept = []
    for key in order:
        cost_s = costs_s[key] * num
        if cost_s <= left_s:
            kept.append(key)
            left_s -= cost_s
    return kept
