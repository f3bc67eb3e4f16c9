"""What is asked of the family synchronization: what a wait costs a loop, and from which length of
its steps on it does not matter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import Any, TypeAlias

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.judge.two_sides import SAME_WITHIN
from hostbench.report.answer import Answer, Axis, Chart, Point, Ratio, Rule, State, joined
from hostbench.report.kinds import Compare, Question
from hostbench.report.kinds.marks import chart
from hostbench.report.kinds.question import few_launches, figure
from hostbench.report.rows import Row, Rows, first, valid, where

DEAR = 1.5
"""The common claim: 50 % or more in a tight loop."""
LITTLE = 1 + SAME_WITHIN
DRAWN = ("item", "item_every_10", "print", "nonzero", "synchronize", "shape", "graph")
SHOWN = ("item", "print", "bool", "shape", "graph")
LENGTH = Axis(title="compute in a step", unit="s", is_log=True)
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "trap": {
        "none": "nothing",
        "item": ".item()",
        "item_every_10": ".item() every 10 steps",
        "print": "print(t)",
        "bool": "bool(t)",
        "if_greater": "if t > 0",
        "cpu": ".cpu()",
        "tolist": ".tolist()",
        "nonzero": "nonzero",
        "mask": "t[t > 0]",
        "synchronize": "device synchronize",
        "shape": "t.shape",
        "graph": "a CUDA graph",
    },
    "step_us": {us: units.format_seconds(us / 1e6) for us in (10, 100, 1_000, 10_000)},
    "num_queued": {1: "each step", **{num: f"every {num} steps" for num in (2, 5, 10, 50)}},
    "way": {
        "device": "sync",
        "stream": "stream",
        "event": "event",
        "event_query": "polling",
        "blocking_event": "blocking event",
    },
}


def waits(row: Row) -> str:
    """`1 wait a step, device idle 76 %`: what was observed of a loop."""
    num, idle = row.number("syncs_per_step"), row.number("idle_share")
    words = [] if num is None else [f"{num:g} {'wait' if num == 1 else 'waits'} a step"]
    return ", ".join([*words, *([] if idle is None else [f"device idle {idle:.0%}"])])


def _by_length(rows: Rows, traps: Sequence[str]) -> list[Row]:
    """Those with a number, trap by trap, the shortest steps first."""
    known = where(valid(rows), trap=tuple(traps))
    return sorted(known, key=lambda row: (traps.index(row.axes["trap"]), int(row.axes["step_us"])))


def _beside_none(row: Row, group: Rows) -> Conclusion | None:
    """Beside the loop that never waits."""
    base = first(group, row.workload, step_us=row.axes["step_us"], trap="none")
    return conclude(row.by_launch, base.by_launch) if base else None


Costs: TypeAlias = Sequence[tuple[Row, Conclusion]]
"""Steps with a trap, the shortest first, beside those without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown(Question):
    """How many times as long a step takes with a trap as without, by the length of a step: yes
    where that is DEAR at the shortest steps."""

    trap: str

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from (*Question.chosen(self), ("trap", self.trap))

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        steps = [(row, _beside_none(row, group)) for row in _by_length(group, [self.trap])]
        costs = [(row, known) for row, known in steps if known]
        mine = where(group, trap=(self.trap, "none"))
        if not costs:
            return self.unavailable(text, [row for row in mine if not row.is_valid] or mine)
        state, verdict = self._dear(costs)
        if state == "undecided":
            verdict += few_launches([row for row, _ in costs], " (", ")")
        figures = (
            figure(
                f"steps of {self._at(row)}", row, ratio=Ratio("without it", known), note=waits(row)
            )
            for row, known in costs
        )
        lost = where(mine, trap=self.trap)
        return self.made(text, state, verdict, figures, lost=lost, chart=self._chart(group))

    def _at(self, row: Row) -> str:
        return self.word("step_us", row.axes["step_us"])

    def _dear(self, costs: Costs) -> tuple[State, str]:
        """By the shortest steps, with what becomes of it."""
        states: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}
        state = states[_is_more(costs[0][1], DEAR)]
        factors = [(_factor(known), self._at(row)) for row, known in costs]
        times = [
            f"{factor} at {joined(at for _, at in some)}"
            for factor, some in groupby(factors, key=lambda pair: pair[0])
            if factor
        ]
        unsure = joined(at for factor, at in factors if not factor)
        start = f"{state}, " if state != "undecided" else ""
        parts = [f"{start}a step takes {joined(times)}"] if times else []
        parts += [f"undecided at {unsure}"] if unsure else []
        little = [*takewhile(lambda cost: _at_most(cost[1], LITTLE), reversed(costs))]
        if little:
            parts.append(f"under 5 % more from steps of {self._at(little[-1][0])} on")
        elif len(costs) > 1 and _is_more(costs[-1][1], LITTLE):
            parts.append("5 % or more at every length")
        return state, "; ".join(parts)

    def _chart(self, group: Rows) -> Chart | None:
        points = [
            Point(
                x=int(row.axes["step_us"]) / 1e6,
                y=1 / known.factor,
                series=self.word("trap", row.axes["trap"]),
                low=known.high and 1 / known.high,
                high=known.low and 1 / known.low,
                text=f"{row.case}: {units.format_factor(1 / known.factor)}",
            )
            for row in _by_length(group, DRAWN)
            if (known := _beside_none(row, group))
        ]
        rules = (Rule("50 % more", DEAR), Rule("5 % more", LITTLE))
        y = Axis("times as long as without", better="lower")
        return chart("line", LENGTH, y, points, rules=rules)


def _factor(known: Conclusion) -> str:
    """A number only where the launches establish that there is a difference; nothing where they do
    not tell."""
    if known.is_different:
        return f"{units.format_factor(1 / known.factor)} as long"
    return "as long" if known.verdict == "same" else ""


def _at_most(known: Conclusion, slowdown: float) -> bool:
    """Whether the whole interval says that it is no slower than that."""
    return known.low is not None and 1 / known.low <= slowdown


def _is_more(known: Conclusion, slowdown: float) -> bool | None:
    """Whether it is so many times as slow or slower; None where the launches do not tell."""
    if known.verdict == "slower" and known.high is not None and 1 / known.high >= slowdown:
        return True
    return False if known.low is not None and 1 / known.low < slowdown else None


LOOP = "synchronization.loop"
QUESTIONS = (
    Slowdown(
        text="Does .item() in each step cost 50 % or more in a tight loop?", workload=LOOP,
        trap="item",
    ),
    Compare(
        text="What does reading a result cost in steps of {step_us}?", workload=LOOP,
        where={"step_us": (10, 100, 1_000)}, each=("step_us",), note=waits,
        screen="{choice} per {step_us} step", learnt="{what}",
        screen_each=(
            *({"step_us": 10, "trap": trap} for trap in SHOWN), {"step_us": 1_000, "trap": "item"},
        ),
    ),
    Compare(
        text="What does reading less often save?", workload="synchronization.queued",
        note=waits,
    ),
    Compare(
        text="Which way to wait costs least?", workload="synchronization.wait",
        screen="100 us wait",
    ),
    Compare(
        text="Does a CUDA graph speed up steps of {step_us}?", workload=LOOP,
        where={"step_us": 10, "trap": ("none", "graph")}, each=("step_us",), varies="trap",
        claim={"trap": "graph"},
    ),
)  # fmt: skip
