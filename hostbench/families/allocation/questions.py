"""What is asked of the family allocation: on the CPU and moved, or directly on the device; what new
memory costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch
from hostbench.core.samples import MIN_FOR_INTERVAL, launch_interval, median
from hostbench.families import load
from hostbench.judge.conclude import conclude
from hostbench.report.answer import Answer, Axis, Chart, Figure, Point, Ratio, Rule, joined
from hostbench.report.kinds import Compare, Question, Scaling
from hostbench.report.kinds.marks import LANES, TIME, chart, time_point
from hostbench.report.kinds.question import NOT_ASKED
from hostbench.report.rows import Row, Rows, first, valid, where

CREATE, PART, MEMORY = "allocation.create", "allocation.part", "allocation.memory"
MIXED, BATCH = "allocation.mixed", "allocation.batch"
_MIXED = load(("allocation",))[MIXED]
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "place": {"cpu_then_move": "moved", "direct": "direct"},
    "cache": {"warm": "warm cache", "cold": "cold cache"},
    "room": {"free": "there is room", "tight": "memory is tight"},
    "setting": {
        case.values["setting"]: conf or "default"
        for case in _MIXED.cases()
        for conf in _MIXED.variables(case).values()  # nothing on the cpu device
    },
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
    make a part alone faster or slower than inside. Asked where the fill was measured alone.
    """

    also: tuple[str, ...] = (PART,)
    """Workloads that no further question has to be asked about."""

    def answers(self, rows: Rows) -> Iterator[Answer]:
        fills = {row.axes["part"] for row in where(rows, PART)}
        mine = where(rows, self.workload, **self.where)
        yield from self.of_rows([row for row in mine if row.axes["fill"] in fills], rows)

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
            f"{joined(said)}; {_left(rest)}",
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
    host = first(rows, PART, nbytes=nbytes, part="host_memory")
    device = first(rows, MEMORY, nbytes=nbytes, memory="device", cache="warm")
    yield str(fill), first(rows, PART, nbytes=nbytes, part=fill)
    yield "the host's memory", host
    yield "the device's memory", host if whole.device == "cpu" else device
    yield "the copy", first(rows, PART, nbytes=nbytes, part="copy")


def _of(part: Launches, whole: Launches) -> Launches:
    return by_launch(lambda part_s, whole_s: part_s / whole_s, part, whole)


def _percent(shares: Launches) -> str:
    if not shares:
        return "an unknown share"
    share = median([*shares.values()])
    return f"{share:.0%}" if share <= 1 else "more alone than all of it"


def _left(rest: Launches) -> str:
    """What the parts alone leave of the whole, where the launches establish that there is any."""
    values = [*rest.values()]
    low, high = launch_interval(values) if len(values) >= MIN_FOR_INTERVAL else (-1.0, 1.0)
    share = median(values) if values else 0.0
    if low < 0 < high:
        return "whether they take as long alone as together is undecided"
    if share < 0:
        return f"alone they take {-share:.0%} more than together"
    return f"{share:.0%} in none of them alone"


def _share(label: str, shares: Launches, note: str) -> Figure:
    """With its interval where there are launches enough for one from order statistics."""
    values = [*shares.values()]
    if not values:
        why = "no launch holds both"
        return Figure(label=label, value=None, unit="share", status="undecided", reason=why)
    share = median(values)
    if not 0 <= share <= 1:  # caches differ between a part alone and inside the whole
        why = f"alone {note.removesuffix(' alone')}, longer than the whole" if note else "none left"
        return Figure(label=label, value=None, unit="share", status="refused", reason=why)
    if len(values) < MIN_FOR_INTERVAL:
        return Figure(label=label, value=share, unit="share", note=note)
    low, high = (min(max(end, 0.0), 1.0) for end in launch_interval(values))
    return Figure(label=label, value=share, unit="share", low=low, high=high, note=note)


def _counted(row: Row, name: str) -> int | None:
    """What the device counted; None where it does not, and where launches contradict each other."""
    value = row.findings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation(Question):
    """How much is reserved for what is allocated, under each setting, and how long that takes."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        known = {str(row.axes["setting"]): row for row in valid(group)}
        shares = {name: share for name, row in known.items() if (share := _reserved(row))}
        figures = [self._figure(known, name, share) for name, share in shares.items()]
        if not shares:
            verdict = "undecided: what was reserved was not counted, or differs between launches"
            return self.made(text, "undecided", verdict, lost=group)
        said = [f"{self.word('setting', name)} {share:.2f}x" for name, share in shares.items()]
        best = min(shares, key=lambda name: shares[name])
        if len(said) > 2:
            said = [f"{self.word('setting', one)} {shares[one]:.2f}x" for one in _ends(shares)]
        helps = f", {self.word('setting', best)} least" if len(shares) > 2 else ""
        return self.made(
            text,
            "figure",
            f"reserved at the peak, for what is allocated: {joined(said)}{helps}",
            figures,
            lost=group,
            chart=self._chart(known),
        )

    def _figure(self, known: Mapping[str, Row], name: str, share: float) -> Figure:
        row, base = known[name], known.get("default")
        reserved, allocated = (_counted(row, f"peak_{what}") or 0 for what in _PEAKS)
        said = [f"{units.about_bytes(reserved)} for {units.about_bytes(allocated)}"]
        split, retries = (
            _counted(row, what) for what in ("peak_inactive_split", "num_alloc_retries")
        )
        if split is not None:
            said.append(f"up to {units.about_bytes(split)} free in segments that are in use")
        if retries:
            said.append(f"the cache was given back {units.number_of(retries, 'time')}")
        taken = units.format_seconds(row.time)
        ratio = None
        if base is not None and base is not row:
            ratio = Ratio(to="default", conclusion=conclude(row.by_launch, base.by_launch))
        note = "; ".join([*said, f"all of it takes {taken}"])
        return Figure(
            label=self.word("setting", name), value=share, unit="x", ratio=ratio, note=note
        )

    def _chart(self, known: Mapping[str, Row]) -> Chart | None:
        points = (
            Point(x=self.word("setting", name), y=float(nbytes), text=f"{row.case}: {nbytes} bytes")
            for name, row in known.items()
            if (nbytes := _counted(row, "peak_reserved")) is not None
        )
        asked = [_counted(row, "peak_allocated") or 0 for row in known.values()]
        rules = (Rule(label="allocated at the peak", low=float(min(asked))),) if asked else ()
        bytes_axis = Axis(title="bytes reserved at the peak", unit="bytes", better="lower")
        return chart("bar", LANES, bytes_axis, points, rules=rules)


_PEAKS = ("reserved", "allocated")


def _reserved(row: Row) -> float | None:
    """Over what is allocated."""
    reserved, allocated = (_counted(row, f"peak_{what}") for what in _PEAKS)
    return reserved / allocated if reserved and allocated else None


def _ends(shares: Mapping[str, float]) -> list[str]:
    """The default and the least, or the most where the default is the least."""
    least = min(shares, key=lambda name: shares[name])
    most = max(shares, key=lambda name: shares[name])
    first_one = "default" if "default" in shares else most
    return [first_one, most if least == first_one else least]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMemory(Question):
    """The peak over batch sizes: what is there whatever the batch, and what each example adds."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        peaks = {
            _num(row): nbytes for row in valid(group) if (nbytes := _counted(row, "peak_allocated"))
        }
        if len(peaks) < 2:
            verdict = "undecided: the peak is known of fewer than two batch sizes"
            return self.made(text, "undecided", verdict, lost=group)
        least, most = min(peaks), max(peaks)
        each = (peaks[most] - peaks[least]) / (most - least)
        fixed = peaks[least] - each * least
        x = Axis(title="examples in a batch", is_log=True)
        y = Axis(title="bytes allocated at the peak", unit="bytes", better="lower")
        points = (
            Point(x=float(num), y=float(nbytes), text=f"{num}: {units.about_bytes(nbytes)}")
            for num, nbytes in sorted(peaks.items())
        )
        return self.made(
            text,
            "figure",
            f"{units.about_bytes(each)} an example beside {units.about_bytes(fixed)} for any batch",
            figures=(
                Figure(label="an example", value=each, unit="bytes"),
                Figure(label="for any batch", value=fixed, unit="bytes"),
                *(
                    Figure(label=f"peak, {num} in a batch", value=float(nbytes), unit="bytes")
                    for num, nbytes in sorted(peaks.items())
                ),
            ),
            lost=group,
            chart=chart("line", x, y, points),
        )


def _num(row: Row) -> int:
    return int(row.axes["num_examples"])


QUESTIONS = (
    Compare(
        text="Create {fill} on the CPU and move it, or directly on the device?",
        workload=CREATE,
        where={"fill": ("zeros", "randn", "full", "arange")},
        each=("fill",),
        note=_peak,
        screen="{fill} {nbytes}, moved or direct",
        both_ends=True,
        learnt="{fill} {choice}",
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
    Fragmentation(
        text="What does fragmentation cost where {room}, and which allocator setting helps?",
        workload=MIXED,
        each=("room",),
    ),
    BatchMemory(
        text="What does a larger batch cost in memory?", workload=BATCH, varies="num_examples"
    ),
    Scaling(
        text="What does a larger batch gain in time?",
        workload=BATCH,
        over="num_examples",
        enough=True,
        per_item=True,
        screen="training step by batch",
    ),
)
