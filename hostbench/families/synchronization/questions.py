"""What is asked of the family synchronization: what a wait costs a loop, and from which length of
its steps on it does not matter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.judge.two_sides import SAME_WITHIN
from hostbench.report.answer import Answer, Axis, Chart, Figure, Point, Ratio, Rule, State, joined
from hostbench.report.kinds import Compare, Question
from hostbench.report.kinds.marks import chart
from hostbench.report.kinds.question import few_launches, figure
from hostbench.report.rows import Row, Rows, first, valid

DEAR = 1.5
"""The common claim: 50 % or more in a tight loop."""
LITTLE = 1 + SAME_WITHIN
DRAWN = ("item", "item_every_10", "print", "nonzero", "synchronize", "shape", "graph")
SHOWN = ("item", "print", "bool", "shape", "graph")
TOLD = ("none", "item", "item_every_10")
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
    "num_queued": {
        1: "each step",
        **{num: f"every {num} steps" for num in (2, 5, 10, 50)},
    },
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
    num, idle = row.findings.get("syncs_per_step"), row.findings.get("idle_share")
    said = [f"{num:g} {'wait' if num == 1 else 'waits'} a step"] if _is(num) else []
    return ", ".join([*said, f"device idle {idle:.0%}"] if _is(idle) else said)


def _is(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at(row: Row) -> int:
    return int(row.axes["step_us"])


@dataclass(frozen=True, slots=True, kw_only=True)
class OverSteps(Question):
    """Cases of the loop over the lengths of its steps, shortest first."""

    def asked_about(self, group: Rows, trap: str) -> list[Row]:
        return sorted((row for row in valid(group) if row.axes["trap"] == trap), key=_at)

    def drawn(self, group: Rows, traps: Sequence[str] = DRAWN) -> Iterator[tuple[str, Row]]:
        """Name and row of each point of a chart, line by line."""
        for trap in traps:
            yield from ((self.word("trap", trap), row) for row in self.asked_about(group, trap))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown(OverSteps):
    """How many times as long a step takes with a trap as without, by the length of a step.

    Yes where the claim holds: of a cost, that it is DEAR at the shortest steps; of a trap that
    `is_free`, that it costs at most LITTLE at every length.
    """

    trap: str
    is_free: bool = False

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        yield "trap", (self.trap,)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        held = [
            (row, said) for row in self.asked_about(group, self.trap) if (said := _held(row, group))
        ]
        if not held:
            mine = [row for row in group if row.axes["trap"] in (self.trap, "none")]
            return self.unavailable(text, [row for row in mine if not row.is_valid] or mine)
        state, verdict = self._free(held) if self.is_free else self._dear(held)
        if state == "undecided" and (few := few_launches([row for row, _ in held])):
            verdict = f"{verdict} ({few})"
        lacking = [row for row in group if row.axes["trap"] == self.trap]
        return self.made(
            text,
            state,
            verdict,
            self._figures(held),
            lost=lacking,
            chart=self._chart(group),
        )

    def _figures(self, held: Sequence[tuple[Row, Conclusion]]) -> Iterator[Figure]:
        for row, said in held:
            ratio = Ratio(to="without it", conclusion=said)
            label = f"steps of {self.word('step_us', _at(row))}"
            yield figure(label, row, ratio=ratio, note=waits(row))

    def _dear(self, held: Sequence[tuple[Row, Conclusion]]) -> tuple[State, str]:
        """By the shortest steps, with what becomes of it."""
        states: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}
        named = [(_factor(said), self.word("step_us", _at(row))) for row, said in held]
        told = [
            f"{factor} at {joined(at for _, at in some)}"
            for factor, some in groupby(named, key=lambda one: one[0])
            if factor
        ]
        unsure = [at for factor, at in named if not factor]
        state = states[_is_more(held[0][1], DEAR)]
        answer = f"{state}, " if state != "undecided" else ""
        parts = [f"{answer}a step takes {joined(told)}"] if told else []
        verdict = "; ".join([*parts, f"undecided at {joined(unsure)}"] if unsure else parts)
        little = [row for row, said in _from_the_end(held) if _at_most(said, LITTLE)]
        if little:
            verdict += f"; under 5 % more from steps of {self.word('step_us', _at(little[-1]))} on"
        elif len(held) > 1:
            verdict += "; 5 % or more at every length" if _is_more(held[-1][1], LITTLE) else ""
        return state, verdict

    def _free(self, held: Sequence[tuple[Row, Conclusion]]) -> tuple[State, str]:
        dear = [self.word("step_us", _at(row)) for row, said in held if said.verdict == "slower"]
        if dear:
            return "no", f"it costs time at steps of {joined(dear)}"
        unsure = [
            self.word("step_us", _at(row)) for row, said in held if not _at_most(said, LITTLE)
        ]
        if unsure:
            return "undecided", f"undecided at steps of {joined(unsure)}"
        return "yes", "it costs no step more than 5 %"

    def _chart(self, group: Rows) -> Chart | None:
        y = Axis(title="times as long as without", better="lower")
        points = [
            Point(
                x=_at(row) / 1e6,
                y=1 / said.factor,
                series=name,
                low=said.high and 1 / said.high,
                high=said.low and 1 / said.low,
                status=row.status,
                text=f"{row.case}: {units.format_factor(1 / said.factor)}",
            )
            for name, row in self.drawn(group, (self.trap,) if self.is_free else DRAWN)
            if (said := _held(row, group))
        ]
        rules = (Rule(label="50 % more", low=DEAR), Rule(label="5 % more", low=LITTLE))
        return chart("line", LENGTH, y, points, rules=rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle(OverSteps):
    """How much of an observed loop the device did nothing, beside the loop that never waits."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        seen = sorted((row for row in valid(group) if _is(row.findings.get("idle_share"))), key=_at)
        if not seen:
            return self.made(text, "unavailable", "no loop was observed in this run")
        shortest = [row for row in seen if _at(row) == _at(seen[0])]
        told = [row for row in shortest if row.axes["trap"] in TOLD] or shortest[:1]
        said = [f"{_idle(row):.0%} with {self.name(row, ['trap'])}" for row in told]
        return self.made(
            text,
            "figure",
            f"in the one loop observed, at steps of {self.word('step_us', _at(seen[0]))}: "
            f"{joined(said)}",
            figures=tuple(self._figure(row) for row in shortest),
            chart=self._chart(group),
            notes=("Observed once, in a pass that is not timed: another pass may differ.",),
        )

    def _figure(self, row: Row) -> Figure:
        note = waits(row).partition(",")[0]
        return Figure(label=self.name(row, ["trap"]), value=_idle(row), unit="share", note=note)

    def _chart(self, group: Rows) -> Chart | None:
        points = [
            Point(
                x=_at(row) / 1e6,
                y=_idle(row),
                series=name,
                status=row.status,
                text=f"{row.case}: idle {_idle(row):.0%}",
            )
            for name, row in self.drawn(group, ("none", *DRAWN))
            if _is(row.findings.get("idle_share"))
        ]
        y = Axis(title="share of time in which the device idles", unit="share", better="lower")
        return chart("line", LENGTH, y, points)


def _factor(said: Conclusion) -> str:
    """A number only where the launches establish that there is a difference; nothing where they do
    not tell."""
    if said.is_different:
        return f"{units.format_factor(1 / said.factor)} as long"
    return "as long" if said.verdict == "same" else ""


def _idle(row: Row) -> float:
    return float(row.findings["idle_share"])


def _held(row: Row, group: Rows) -> Conclusion | None:
    """Beside the loop that never waits."""
    base = first(group, row.workload, step_us=row.axes["step_us"], trap="none")
    return conclude(row.by_launch, base.by_launch) if base else None


def _from_the_end(held: Sequence[tuple[Row, Conclusion]]) -> Iterator[tuple[Row, Conclusion]]:
    """From the longest steps, as long as the cost is little."""
    for row, said in reversed(held):
        if not _at_most(said, LITTLE):
            return
        yield row, said


def _at_most(said: Conclusion, slowdown: float) -> bool:
    """Whether the whole interval says that it is no slower than that."""
    return said.low is not None and 1 / said.low <= slowdown


def _is_more(said: Conclusion, slowdown: float) -> bool | None:
    """Whether it is so many times as slow or slower; None where the launches do not tell."""
    if said.verdict == "slower" and said.high is not None and 1 / said.high >= slowdown:
        return True
    return False if said.low is not None and 1 / said.low < slowdown else None


LOOP = "synchronization.loop"
QUESTIONS = (
    Slowdown(
        text="Does an .item() in each step cost 50 % or more in a tight loop?",
        workload=LOOP,
        trap="item",
    ),
    Compare(
        text="What does each kind of reading cost a step of {step_us}?",
        workload=LOOP,
        where={"step_us": (10, 100, 1_000)},
        each=("step_us",),
        note=waits,
        screen="{choice} per {step_us} step",
        screen_each=(
            *({"step_us": 10, "trap": trap} for trap in SHOWN),
            {"step_us": 1_000, "trap": "item"},
        ),
        learnt="{what}",
    ),
    Idle(text="How much of the time does the device idle?", workload=LOOP),
    Slowdown(
        text="Is access to metadata (t.shape) free?", workload=LOOP, trap="shape", is_free=True
    ),
    Compare(
        text="How much does it save to read less often?",
        workload="synchronization.queued",
        note=waits,
    ),
    Compare(
        text="Which way to wait costs least?",
        workload="synchronization.wait",
        screen="100 us wait",
    ),
    Compare(
        text="Does a CUDA graph save a loop of steps of {step_us} its launches?",
        workload=LOOP,
        where={"step_us": 10, "trap": ("none", "graph")},
        each=("step_us",),
        varies="trap",
        claim={"trap": "graph"},
    ),
)
