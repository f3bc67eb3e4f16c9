"""`ab --budget`: which cases go on, on a clock that the test turns."""

import math
import random

import pytest

from hostbench.cli import budget
from hostbench.cli.budget import Budget
from hostbench.core.case import Case
from hostbench.judge.sequential import LOOKS
from tests.fakes.builders import copy_case, failed, record

QUIET, NOISY, WILD, SLOWER = (copy_case(nbytes=1 << place) for place in range(10, 14))
CASES = (QUIET, NOISY, WILD, SLOWER)
SPREAD = {QUIET: 0.001, NOISY: 0.03, SLOWER: 0.001}
EVEN = (-0.4, 0.3, 0.1, -0.2, 0.2, -0.1, 0.4)
"""Of the wild case, on both sides: nothing has changed, and nobody can tell."""


class Measured:
    """Measures what a budget asks for; each record takes a second unless `takes` says otherwise."""

    def __init__(self, total_s: float, takes: dict[Case, float] | None = None) -> None:
        self.now_s, self.rng, self.takes = 0.0, random.Random(3), takes or {}
        self.budget = Budget(total_s=total_s, cases=CASES, now_s=lambda: self.now_s)
        self.num = dict.fromkeys(CASES, 0)
        self.goals: list[int] = []

    def launch(self, number: int) -> bool:
        cases = self.budget.next(number)
        self.goals.append(self.budget.goal)
        for side in (0, 1):
            for case in cases:
                self.now_s += self.takes.get(case, 1.0)
                level = 1.2 if side and case == SLOWER else 1.0
                far = self.rng.gauss(0, SPREAD[case]) if case in SPREAD else EVEN[number % 7]
                seconds = level * math.exp(far)
                self.budget.note(side, record(case, number, seconds))
                self.num[case] += 1
        return bool(cases)

    def all(self, number: int = 0) -> "Measured":
        while self.launch(number):
            number += 1
        return self


def test_decided_cases_stop_and_others_go_on_beyond_ten() -> None:
    done = Measured(1000.0).all()
    assert done.num[QUIET] == 2 * 7
    assert done.num[SLOWER] == 2 * 10, "7 launches cannot tell one of four cases"
    assert done.num[NOISY] > 2 * 10 and done.num[NOISY] // 2 in LOOKS
    found = done.budget.found()
    assert found[QUIET].verdict == found[NOISY].verdict == "same"
    assert (found[SLOWER].verdict, found[SLOWER].num) == ("slower", (10, 10))
    assert {*done.goals} <= {*LOOKS} and done.budget.used_s == done.now_s < 1000
    assert [*done.budget.why] == [WILD]


def test_what_the_budget_cannot_decide_stops_at_once() -> None:
    done = Measured(200.0).all()
    assert done.num[WILD] == 2 * 7
    assert "; 56, the most that the budget allows, come to about ±" in done.budget.why[WILD]
    assert "; 160, the most there are, come to about ±" in Measured(9000.0).all().budget.why[WILD]
    (time, why) = [*done.budget.remarks(every=False)]
    assert time == "time used: 1:44 of 3:20; the launches, 130% of what ten a side take"
    assert why.startswith("1 case stopped undecided: ±63.7% after 7 ") and "nbytes=4KiB" in why


def test_where_seven_launches_do_not_fit_the_longest_are_left_out() -> None:
    done = Measured(100.0, {QUIET: 30.0}).all()
    assert done.num[QUIET] == 2 * 1 or done.num[QUIET] == 2 * 2
    assert done.budget.why[QUIET].endswith("no time was left for the look after 7")
    assert done.now_s <= 100 + 2 * 30


def test_those_that_need_the_least_go_on_where_the_time_is_short() -> None:
    done = Measured(2 * 4 * 7 + 2 * 2 * 3 + 1).all()
    assert done.num[NOISY] // 2 == 10 and done.num[WILD] // 2 == 7
    assert done.now_s <= done.budget.total_s
    done = Measured(2 * 4 * 7 + 2 * 3 + 1).all()
    assert (done.num[SLOWER] // 2, done.num[NOISY] // 2) == (10, 7)
    assert done.budget.why[NOISY] == (
        "after 7 launches a side no time was left for the look after 10"
    )
    assert done.now_s <= done.budget.total_s


def test_a_look_is_not_missed_by_a_moment() -> None:
    """The last launch before it may take a little longer than those before."""
    exact = Measured(2 * 4 * 7 + 2 * 2 * 3.0).all()
    assert (exact.num[SLOWER] // 2, exact.num[NOISY] // 2) == (10, 7)


def test_what_starts_the_fork_servers_tells_nothing() -> None:
    slow = Measured(2 * 4 * 8.0 + 20, dict.fromkeys(CASES, 3.5))
    slow.launch(0)
    slow.takes.clear()
    slow.all(1)
    assert slow.num[SLOWER] // 2 >= 7 and slow.num[QUIET] // 2 >= 7


def test_a_case_that_fails_is_no_part_of_it() -> None:
    cases = Measured(1000.0)
    cases.launch(0)
    cases.budget.note(0, failed(NOISY))
    assert NOISY not in cases.budget.next(1) and NOISY not in cases.budget.why
    assert NOISY not in cases.all().budget.found()


def test_an_end_in_the_middle_of_a_launch_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    early = Measured(1000.0)
    for number in range(9):
        early.launch(number)
    early.budget.cut_off("interrupted")
    assert early.budget.why[NOISY] == (
        "interrupted after 9 launches a side; the next look is after 10"
    )
    assert QUIET not in early.budget.why
    early.budget.why |= dict.fromkeys(CASES, "interrupted")
    monkeypatch.setattr(budget, "_FEW", 2)
    said = [[*early.budget.remarks(every)][1] for every in (False, True)]
    assert said[0].startswith("3 cases stopped undecided: interrupted: transfer."), "QUIET is not"
    assert (said[0][-11:], [one.count("nbytes=") for one in said]) == (" and 1 more", [2, 3])


def test_what_has_no_launch_of_both_sides_is_not_measured() -> None:
    early = Measured(1000.0)
    for place, case in ((0, QUIET), (1, QUIET), (0, NOISY)):
        early.budget.note(place, record(case, 0, 1.0))
    early.budget.cut_off("the budget ended")
    _, one, others = early.budget.remarks(every=False)
    assert one.startswith("1 case stopped undecided: the budget ended after 1 launch a side; ")
    assert others.startswith(
        "3 cases not measured: the budget ended before both sides had a launch: "
    )


def test_an_end_right_behind_a_look_counts_the_look() -> None:
    late = Measured(1000.0)
    for number in range(7):
        late.launch(number)
    late.budget.cut_off("the budget ended")
    assert {*late.budget.why} == {NOISY, WILD, SLOWER}
