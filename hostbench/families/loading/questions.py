"""What is asked of the family loading: is the device fed, and what feeds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.families.loading.workloads import BASE, ITEM_BYTES
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report.answer import Answer, Axis, Figure, Point, Ratio, Rule, State, joined
from hostbench.report.kinds import Compare, Question
from hostbench.report.kinds.question import (
    TIME,
    axis_title,
    chart,
    few_launches,
    figure,
    time_point,
    varying,
    without_number,
)
from hostbench.report.rows import Row, Rows, first, valid

WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "num_workers": {0: "no workers"},
    "memory": {"pageable": "pin_memory=False", "pinned": "pin_memory=True"},
    "way": {
        "on_device": "its data on the device",
        "blocking": ".to(device)",
        "non_blocking": ".to(device, non_blocking=True)",
        "side_stream": "a copy on a side stream",
    },
    "prefetch_factor": {number: f"prefetch_factor {number}" for number in (1, 2, 4)},
    "batch_size": {size: f"batches of {size}" for size in (1, 4, 16, 64)},
    "item_bytes": {size: f"{units.format_bytes(size)} an item" for size in ITEM_BYTES.values()},
    "persistent": {True: "persistent workers", False: "starting them each epoch"},
}
_ITEMS = Axis(title="items per second", unit="items/s", better="higher")


def _at_base(*varied: str) -> dict[str, AxisValue]:
    """The base point, but for these axes; memory and bytes are those of the device."""
    return {axis: value for axis, value in BASE.items() if axis not in varied}


def _items_per_s(row: Row) -> float:
    return int(row.axes["batch_size"]) / row.time


def _waits(row: Row) -> str:
    """`waits 1.72 ms for data, device idle 39% of the time`."""
    said = []
    waits_s, idle = row.findings.get("wait_s"), row.findings.get("idle_share")
    if isinstance(waits_s, float):
        said.append(f"waits {units.format_seconds(waits_s)} for data")
    if isinstance(idle, float):
        said.append(f"device idle {idle:.0%} of the time")
    return ", ".join(said)


def _fed(row: Row) -> str:
    """The same and `8,600 items/s`."""
    return ", ".join(filter(None, [_waits(row), f"{_items_per_s(row):,.0f} items/s"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied(Compare):
    """A comparison, where a run has more than one of the cases."""

    def asks(self, group: Rows) -> bool:
        return bool(varying(group))


@dataclass(frozen=True, slots=True, kw_only=True)
class Over(Question):
    """Something that is counted: the fewest of it than which no more is faster.

    Each is held beside the same step with its data on the device already. `per_item` compares the
    time of an item, not that of a step.
    """

    over: str
    per_item: bool = False

    def asks(self, group: Rows) -> bool:
        return self.over in varying(group)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        known = sorted(valid(group), key=lambda row: int(row.axes[self.over]))
        state, verdict = self._conclusion(known)
        floor = first(rows, self.workload, way="on_device", batch_size=BASE["batch_size"])
        at_floor = None if self.per_item else floor
        figures = [self._figure(row, at_floor) for row in known]
        rules = () if at_floor is None else (self._rule(at_floor),)
        x = Axis(title=axis_title(self.over).replace("_", " "))
        y = _ITEMS if self.per_item else replace(TIME, title="seconds per batch")
        return self.made(
            text,
            state,
            verdict,
            figures=(*figures, *without_number(group, self)),
            chart=chart("line", x, y, map(self._point, known), rules=rules),
        )

    def _conclusion(self, known: Sequence[Row]) -> tuple[State, str]:
        best, more = known[0], set[str]()
        for place, best in enumerate(known):
            more = {self._beside(other, best).verdict for other in known[place + 1 :]}
            if "faster" not in more:
                break
        beside_best = [self._beside(row, best) for row in known]
        slower = [
            f"{self.word(self.over, row.axes[self.over])} {units.format_factor(1 / one.factor)}"
            for row, one in zip(known, beside_best, strict=True)
            if one.verdict == "slower"
        ]
        if few := few_launches(known):
            return "undecided", f"undecided: {few}"
        said = "no difference seen with more" if "undecided" in more else "more is no faster"
        most = f", and {said}" if more else ""
        beside = f"; slower: {joined(slower)}" if slower else ""
        name = self.word(self.over, best.axes[self.over])
        return "figure", f"{name}: {self._in_words(best)}{most}{beside}"

    def _beside(self, row: Row, other: Row) -> Conclusion:
        return conclude(self._by_launch(row), self._by_launch(other))

    def _by_launch(self, row: Row) -> Mapping[int, float]:
        num = int(row.axes["batch_size"]) if self.per_item else 1
        return {launch: seconds / num for launch, seconds in row.by_launch.items()}

    def _in_words(self, row: Row) -> str:
        if self.per_item:
            return f"{_items_per_s(row):,.0f} items/s"
        return f"{units.format_seconds(row.time)} a batch"

    def _figure(self, row: Row, floor: Row | None) -> Figure:
        label = self.word(self.over, row.axes[self.over])
        if self.per_item:
            rate = _items_per_s(row)
            return Figure(label=label, value=rate, unit="items/s", note=_waits(row))
        ratio = None
        if floor is not None:
            ratio = Ratio(to=self.word("way", "on_device"), conclusion=self._beside(row, floor))
        return figure(label, row, note=_fed(row), ratio=ratio)

    def _point(self, row: Row) -> Point | None:
        x = float(row.axes[self.over])
        if not self.per_item:
            return time_point(row, x)
        return Point(x=x, y=_items_per_s(row), text=f"{row.case}: {_items_per_s(row):,.0f} items/s")

    def _rule(self, floor: Row) -> Rule:
        return Rule(label=self.word("way", "on_device"), low=floor.time)


QUESTIONS = (
    Over(
        text="How many workers does this step need?",
        workload="loading.loop",
        where=_at_base("num_workers"),
        each=("memory",),
        over="num_workers",
    ),
    Varied(
        text="Does pin_memory=True help, with {way}?",
        workload="loading.loop",
        where={**_at_base("way"), "way": ("blocking", "non_blocking")},
        each=("way",),
        claim={"memory": "pinned"},
        baseline={"memory": "pageable"},
        note=_fed,
    ),
    Varied(
        text="Does a side-stream prefetcher help beyond non_blocking, with {memory}?",
        workload="loading.loop",
        where={**_at_base("way"), "way": ("non_blocking", "side_stream")},
        each=("memory",),
        claim={"way": "side_stream"},
        baseline={"way": "non_blocking"},
        note=_fed,
    ),
    Varied(
        text="What does prefetch_factor change?",
        workload="loading.loop",
        where=_at_base("prefetch_factor"),
        each=("memory",),
        baseline={"prefetch_factor": BASE["prefetch_factor"]},
        note=_fed,
    ),
    Over(
        text="Which batch size?",
        workload="loading.loop",
        where=_at_base("batch_size"),
        each=("memory",),
        over="batch_size",
        per_item=True,
    ),
    Compare(
        text="What does starting {num_workers} cost each epoch?",
        workload="loading.epoch",
        each=("num_workers",),
        baseline={"persistent": True},
    ),
)
