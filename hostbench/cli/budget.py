"""`hostbench ab --budget TIME`: which cases each launch measures, and why others are measured no
more."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from hostbench.core.case import Case, as_typed
from hostbench.core.records import CaseRecord
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.units import format_duration, number_of
from hostbench.judge.compare import Comparison, compare
from hostbench.judge.sequential import (
    Look,
    could_decide,
    fitting,
    half_width,
    last_look,
    next_look,
    wanted,
    within_reach,
)

_STARTED = 1
"""Launches that also start the fork servers: they tell nothing of what later ones take."""
_FEW = 3
"""Cases that are named where there may be many; --all names them all."""
_RESERVE = 0.1
"""Of a launch: the last one before a look may take longer than those before."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """What is known while two sides are measured. A case that is decided, or out of reach, stops;
    where the time that is left does not do for all, those go on that need the least."""

    total_s: float
    cases: tuple[Case, ...]
    now_s: Callable[[], float] = time.monotonic
    why: dict[Case, str] = field(default_factory=dict)
    """Why a case stopped undecided."""
    goal: int = MIN_LAUNCHES
    """Launches a side at the look that is aimed at."""
    _going: list[Case] = field(init=False)
    """The first goes on longest."""
    _seconds: dict[Case, tuple[list[float], list[float]]] = field(init=False)
    """Of each side's launches."""
    _took_s: dict[Case, dict[int, float]] = field(init=False)
    """Case -> launch -> of both sides together."""
    _began_s: float = field(init=False)
    _last_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._going = list(self.cases)
        self._seconds = {case: ([], []) for case in self.cases}
        self._took_s = {case: {} for case in self.cases}
        self._began_s = self._last_s = self.now_s()

    @property
    def late_s(self) -> float:
        """When it is over, of `now_s`."""
        return self._began_s + self.total_s

    @property
    def used_s(self) -> float:
        """Until the newest record."""
        return self._last_s - self._began_s

    def next(self, launch: int) -> tuple[Case, ...]:
        """The cases of this launch, after as many launches a side; none where it is over."""
        if launch > _STARTED:
            look = last_look(launch)
            if look is not None and look.launches == launch:
                self._going = [*self._worth_more(look)]
            self._fit(launch)
        return tuple(case for case in self.cases if case in self._going)

    def note(self, place: int, record: CaseRecord) -> None:
        """A record of one side has come."""
        now_s, case = self.now_s(), record.case
        took = self._took_s[case]
        took[record.launch] = took.get(record.launch, 0.0) + now_s - self._last_s
        self._last_s = now_s
        if record.status == "ok" and record.seconds is not None:
            self._seconds[case][place].append(record.seconds)
        elif case in self._going:
            self._going.remove(case)

    def cut_off(self, what: str) -> None:
        """It ended in the middle of a launch, or right behind a look."""
        found = self.found()
        for case in self._going:
            num = self._num(case)
            if num < self.goal or found[case].verdict == "undecided":
                later = f"after {_launches(num)}; the next look is after {next_look(num)}"
                self.why[case] = f"{what} {later if num else 'before both sides had a launch'}"

    def remarks(self, every: bool) -> Iterator[str]:
        """The time, and the cases that stopped undecided or before both sides had a launch, those
        of one reason together."""
        used, total = format_duration(self.used_s), format_duration(self.total_s)
        ten_s = 10 * sum(map(self._cost_s, self.cases))
        own_s = sum(self._cost_s(case) * len(self._took_s[case]) for case in self.cases)
        share = f"; the launches, {own_s / ten_s:.0%} of what ten a side take" if ten_s else ""
        yield f"time used: {used} of {total}{share}"
        groups: dict[tuple[str, str], list[str]] = {}
        found = self.found()
        for case, why in self.why.items():
            # What others came to later may have decided it: the table is judged as a whole.
            if case not in found or found[case].verdict == "undecided":
                end = "stopped undecided" if self._num(case) else "not measured"
                groups.setdefault((end, why), []).append(as_typed(str(case)))
        for (end, why), cases in groups.items():
            shown = cases if every else cases[:_FEW]
            more = f" and {len(cases) - len(shown)} more" * (len(cases) > len(shown))
            num = number_of(len(cases), "case")
            yield f"{num} {end}: {why}: {', '.join(shown)}{more}"

    def _worth_more(self, look: Look) -> list[Case]:
        """The cases that are undecided and not out of reach, the nearest to a decision first."""
        near: dict[Case, float] = {}
        found = self.found()
        for case in self._going:
            one = found[case]
            if one.verdict != "undecided":
                continue
            left_s = self.late_s - self.now_s()
            reach, half = within_reach(one, look, self._cost_s(case), left_s)
            if one.low is None:
                self.why[case] = one.why
            elif reach is None:
                self.why[case] = self._no_time(look.launches)
            elif not could_decide(one, half):
                is_last = next_look(reach.launches) is None
                which = "the most there are" if is_last else "the most that the budget allows"
                self.why[case] = (
                    f"±{half_width(one):.1%} after {_launches(look.launches)}; {reach.launches}, "
                    f"{which}, come to about ±{half:.1%}, and ±{wanted(one):.1%} decides"
                )
            else:
                near[case] = half / wanted(one)
        return sorted(near, key=lambda case: near[case])

    def found(self) -> Mapping[Case, Comparison]:
        """What `hostbench compare` says of all cases that were looked at so far."""
        both, shares = {}, {}
        for case, (first, second) in self._seconds.items():
            look = last_look(self._num(case))
            if look is not None:
                both[case] = ([first[: look.launches]], [second[: look.launches]])
                shares[case] = look.shares
        return compare(both, both, shares=shares)

    def _num(self, case: Case) -> int:
        """Launches of both sides."""
        return min(map(len, self._seconds[case]))

    def _fit(self, launch: int) -> None:
        """Leave out what the time does not do for: before the first look what takes longest."""
        goal = next_look(launch)
        if goal is None:
            self.why |= dict.fromkeys(self._going, f"{_launches(launch)} are the most")
            self._going = []
            return
        self.goal = goal
        costs = {case: self._cost_s(case) for case in self._going}
        first = launch < MIN_LAUNCHES
        order = sorted(self._going, key=lambda case: costs[case]) if first else self._going
        kept = fitting(costs, order, goal - launch + _RESERVE, self.late_s - self.now_s())
        for case in self._going:
            if case not in kept:
                self.why[case] = self._no_time(launch)
        self._going = kept

    def _no_time(self, launch: int) -> str:
        goal = next_look(launch)
        return f"after {_launches(launch)} no time was left for the look after {goal}"

    def _cost_s(self, case: Case) -> float:
        """Of a launch of both sides."""
        took = self._took_s[case]
        later = [took_s for launch, took_s in took.items() if launch >= _STARTED]
        return fmean(later or took.values()) if took else 0.0


def _launches(num: int) -> str:
    return f"{number_of(num, 'launch', 'launches')} a side"
