"""What is asked of the family allocation: on the CPU and moved, or directly on the device; what new
memory costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch
from hostbench.core.samples import MIN_FOR_INTERVAL, launch_interval, median
from hostbench.report.answer import Answer, Figure, joined
from hostbench.report.kinds import Compare, Question
from hostbench.report.kinds.question import LANES, NOT_ASKED, TIME, chart, time_point
from hostbench.report.rows import Row, Rows, first, valid, where

CREATE, PART, MEMORY = "allocation.create", "allocation.part", "allocation.memory"
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "place": {"cpu_then_move": "moved", "direct": "direct"},
    "cache": {"warm": "warm cache", "cold": "cold cache"},
}


def _nothing(row: Row) -> str:
    return "nothing is enqueued or touched" if row.axes["place"] == "direct" else ""


def _peak(row: Row) -> str:
    nbytes = row.peak_memory_bytes
    return f"peak {units.format_bytes(int(nbytes))}" if nbytes else ""


def _pageable(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
    return MEMORY, {"nbytes": row.axes["nbytes"], "memory": "pageable", "cache": "warm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown(Question):
    """Which part of creating on the CPU and moving takes how much of it.

    Each part was measured alone, in the launch of the whole; what they leave is said, too: caches
    make a part alone faster or slower than inside.
    """

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        whole, parts = self._largest(group, rows)
        known = {name: row for name, row in parts.items() if row is not None}
        if not known:
            return self.made(text, "undecided", "undecided: no part of it was measured alone")
        lacking = [
            Figure(label=name, value=None, unit="share", status="not measured", reason=NOT_ASKED)
            for name in parts
            if name not in known
        ]
        shares = {name: _of(row.by_launch, whole.by_launch) for name, row in known.items()}
        rest = by_launch(lambda *taken: 1.0 - sum(taken), *shares.values())
        figures = [
            _share(name, shares[name], f"{units.format_seconds(row.time)} alone")
            for name, row in known.items()
        ]
        others = _share("in none of them alone", rest, "")
        said = [f"{name} {_percent(shares[name])}" for name in known]
        bars = (time_point(row, name) for name, row in {"the whole": whole, **known}.items())
        return self.made(
            text,
            "figure",
            f"{joined(said)}; {_percent(rest)} in none of them alone",
            figures=(
                Figure(label="the whole", value=whole.time, unit="s"),
                *figures,
                others,
                *lacking,
            ),
            notes=self.at([whole], ()),
            chart=chart("bar", LANES, TIME, bars),
        )

    def _largest(self, group: Rows, rows: Rows) -> tuple[Row, dict[str, Row | None]]:
        """The whole at the largest size at which most of its parts have a number."""
        found = [(row, dict(_parts(row, rows))) for row in valid(group)]
        return max(found, key=lambda one: (_num_known(one[1]), int(one[0].axes["nbytes"])))


def _num_known(parts: Mapping[str, Row | None]) -> int:
    return sum(row is not None for row in parts.values())


def _parts(whole: Row, rows: Rows) -> Iterator[tuple[str, Row | None]]:
    """A device that works in host memory pays for host memory twice."""
    nbytes, fill = whole.axes["nbytes"], whole.axes["fill"]
    there = first(rows, MEMORY, nbytes=nbytes, memory="pageable", cache="warm")
    device = where(rows, MEMORY, nbytes=nbytes, memory="device", cache="warm")
    is_host = bool(device) and all(row.status == "skipped" for row in device)
    yield str(fill), first(rows, PART, nbytes=nbytes, part=fill)
    yield "the host's memory", there
    yield "the device's memory", there if is_host else first(device)
    yield "the copy", first(rows, PART, nbytes=nbytes, part="copy")


def _of(part: Launches, whole: Launches) -> Launches:
    return by_launch(lambda part_s, whole_s: part_s / whole_s, part, whole)


def _percent(shares: Launches) -> str:
    return f"{median([*shares.values()]):.0%}" if shares else "an unknown share"


def _share(label: str, shares: Launches, note: str) -> Figure:
    """With its interval where there are launches enough for one from order statistics."""
    values = [*shares.values()]
    if not values:
        why = "no launch holds both"
        return Figure(label=label, value=None, unit="share", status="undecided", reason=why)
    low, high = launch_interval(values) if len(values) >= MIN_FOR_INTERVAL else (None, None)
    return Figure(label=label, value=median(values), unit="share", low=low, high=high, note=note)


QUESTIONS = (
    Compare(
        text="Create {fill} on the CPU and move it, or directly on the device?",
        workload=CREATE,
        where={"fill": ("zeros", "randn", "full", "arange")},
        each=("fill",),
        note=_peak,
    ),
    Compare(
        text="What does an empty tensor cost, created on the CPU and moved, and on the device?",
        workload=CREATE,
        where={"fill": "empty"},
        baseline={},
        note=_nothing,
    ),
    Breakdown(
        text="Where does the time go of {fill} that is created on the CPU and moved?",
        workload=CREATE,
        where={"fill": ("zeros", "randn", "full", "arange"), "place": "cpu_then_move"},
        each=("fill",),
    ),
    Compare(
        text="What does new memory on the device cost where the allocator's cache is cold?",
        workload=MEMORY,
        where={"memory": "device"},
    ),
    Compare(
        text="What does pinned memory cost to allocate?",
        workload=MEMORY,
        where={"memory": "pinned"},
        beside=_pageable,
        beside_name="pageable memory",
    ),
)
