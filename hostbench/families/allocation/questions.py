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
from hostbench.report.answer import Answer, Axis, Figure, Ratio, Rule, joined
from hostbench.report.kinds import Compare, Question, Scaling
from hostbench.report.kinds.marks import LANES, TIME, chart, point
from hostbench.report.kinds.question import NOT_ASKED, peak
from hostbench.report.rows import Row, Rows, first, valid, where

CREATE, PART, MEMORY = "allocation.create", "allocation.part", "allocation.memory"
MIXED, BATCH = "allocation.mixed", "allocation.batch"
FILLS = ("zeros", "randn", "full", "arange")
_MIXED = load(("allocation",))[MIXED]
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "place": {"cpu_then_move": "moved", "direct": "direct"},
    "cache": {"warm": "warm cache", "cold": "cold cache"},
    "room": {"free": "there is room", "tight": "memory is tight"},
    "setting": {
        case.values["setting"]: conf or "default"
        for case in _MIXED.cases()
        for conf in _MIXED.options(case).environment.values()  # nothing on the cpu device
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown(Question):
    """Which part of creating on the CPU and moving takes how much of it.

    Each part was measured alone, in the launch of the whole: caches make it faster or slower than
    inside. Asked where the fill was measured alone.
    """

    also: tuple[str, ...] = (PART,)
    """Workloads that no further question has to be asked about."""

    def answers(self, rows: Rows) -> Iterator[Answer]:
        fills = tuple(row.axes["part"] for row in where(rows, PART))
        alone = where(where(rows, self.workload, **self.where), fill=fills)
        yield from self.of_rows(alone, rows)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        """At the largest size at which most of its parts have a number."""
        sizes = [(row, _parts(row, rows)) for row in valid(group)]
        whole, parts = max(
            sizes,
            key=lambda pair: (sum(map(bool, pair[1].values())), int(pair[0].axes["nbytes"])),
        )
        measured = {name: row for name, row in parts.items() if row is not None}
        shares = {
            name: share
            for name, row in measured.items()
            if (share := by_launch(lambda a, b: a / b, row.by_launch, whole.by_launch))
        }
        if not shares:
            return self.made(text, "undecided", "undecided: no part of it was measured alone")
        figures = [Figure("the whole", whole.time, "s")]
        for name, share in shares.items():
            alone = units.format_seconds(measured[name].time)
            figures.append(_share(name, share, f"{alone} alone"))
        figures += [
            Figure(name, None, "share", status="not measured", reason=NOT_ASKED)
            for name in parts
            if name not in shares
        ]
        points = (point(row, name) for name, row in {"the whole": whole, **measured}.items())
        drawn = chart("bar", LANES, TIME, points)
        taken = joined(f"{name} {median([*share.values()]):.0%}" for name, share in shares.items())
        notes = self.at([whole], ())
        return self.made(text, "figure", taken, figures, notes=notes, chart=drawn)


def _parts(whole: Row, rows: Rows) -> dict[str, Row | None]:
    """A device that works in host memory pays for host memory twice."""
    nbytes, fill = whole.axes["nbytes"], whole.axes["fill"]
    host = first(rows, PART, nbytes=nbytes, part="host_memory")
    device = first(rows, MEMORY, nbytes=nbytes, memory="device", cache="warm")
    return {
        str(fill): first(rows, PART, nbytes=nbytes, part=fill),
        "the host's memory": host,
        "the device's memory": host if whole.device == "cpu" else device,
        "the copy": first(rows, PART, nbytes=nbytes, part="copy"),
    }


def _share(label: str, shares: Launches, note: str = "") -> Figure:
    """With its interval where there are launches enough for one from order statistics. Caches
    differ between a part alone and inside the whole: alone it may take more than all of it."""
    values = [*shares.values()]
    ends = launch_interval(values) if len(values) >= MIN_FOR_INTERVAL else (None, None)
    return Figure(label, median(values), "share", low=ends[0], high=ends[1], note=note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragmentation(Question):
    """How much is reserved for what is allocated, under each setting, and how long that takes."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        known = {self.word("setting", row.axes["setting"]): row for row in valid(group)}
        shares = {name: share for name, row in known.items() if (share := _reserved(row))}
        if not shares:
            verdict = "undecided: what was reserved was not counted, or differs between launches"
            return self.made(text, "undecided", verdict, lost=group)
        least = min(shares, key=lambda name: shares[name])
        most = max(shares, key=lambda name: shares[name])
        start = "default" if "default" in shares else most
        ends = [*shares] if len(shares) < 3 else [start, most if least == start else least]
        verdict = joined(f"{name} {shares[name]:.2f}x" for name in ends)
        verdict += f", {least} least" if len(shares) > 2 else ""
        figures = [self._figure(name, share, known) for name, share in shares.items()]
        bars = (point(r, name, "", "bytes", r.number("peak_reserved")) for name, r in known.items())
        asked = min(row.number("peak_allocated") or 0 for row in known.values())
        y = Axis("bytes reserved at the peak", "bytes", better="lower")
        drawn = chart("bar", LANES, y, bars, rules=(Rule("allocated at the peak", asked),))
        verdict = f"reserved at the peak, for what is allocated: {verdict}"
        return self.made(text, "figure", verdict, figures, lost=group, chart=drawn)

    def _figure(self, name: str, share: float, known: Mapping[str, Row]) -> Figure:
        row, base = known[name], known.get("default")
        reserved, allocated, split, retries = (
            row.number(counted) for counted in (*_PEAKS, "peak_inactive_split", "num_alloc_retries")
        )
        notes = [f"{units.about_bytes(reserved or 0)} for {units.about_bytes(allocated or 0)}"]
        if split is not None:
            notes.append(f"up to {units.about_bytes(split)} free in segments that are in use")
        if retries:
            notes.append(f"the cache was given back {units.number_of(int(retries), 'time')}")
        notes.append(f"all of it takes {units.format_seconds(row.time)}")
        ratio = None
        if base is not None and base is not row:
            ratio = Ratio("default", conclude(row.by_launch, base.by_launch))
        return Figure(name, share, "x", ratio=ratio, note="; ".join(notes))


_PEAKS = ("peak_reserved", "peak_allocated")


def _reserved(row: Row) -> float | None:
    """Over what is allocated; None where the device does not count, or launches contradict."""
    reserved, allocated = map(row.number, _PEAKS)
    return reserved / allocated if reserved and allocated else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMemory(Question):
    """The peak over batch sizes: what is there whatever the batch, and what each example adds."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        counted = (
            (int(row.axes["num_examples"]), row.number("peak_allocated")) for row in valid(group)
        )
        peaks = {num: nbytes for num, nbytes in sorted(counted) if nbytes}
        if len(peaks) < 2:
            verdict = "undecided: the peak is known of fewer than two batch sizes"
            return self.made(text, "undecided", verdict, lost=group)
        (least, low), *_, (most, high) = peaks.items()
        each = (high - low) / (most - least)
        fixed = low - each * least
        sizes = {"an example": each, "for any batch": fixed}
        sizes |= {f"peak, {num} in a batch": nbytes for num, nbytes in peaks.items()}
        y = Axis("bytes allocated at the peak", "bytes", better="lower")
        points = (
            point(r, r.axes["num_examples"], "", "bytes", r.number("peak_allocated")) for r in group
        )
        return self.made(
            text,
            "figure",
            f"{units.about_bytes(each)} an example beside {units.about_bytes(fixed)} for any batch",
            [Figure(name, nbytes, "bytes") for name, nbytes in sizes.items()],
            lost=group,
            chart=chart("line", Axis("examples in a batch", is_log=True), y, points),
        )


QUESTIONS = (
    Compare(
        text="Create {fill} on the CPU and move it, or directly on the device?", workload=CREATE,
        where={"fill": FILLS}, each=("fill",), note=peak, screen="{fill} {nbytes}, moved or direct",
        both_ends=True, learnt="{fill} {choice}",
    ),
    Breakdown(
        text="Where the time of {fill} goes, created on the CPU and moved",
        workload=CREATE, where={"fill": FILLS, "place": "cpu_then_move"}, each=("fill",),
    ),
    Compare(
        text="What does device memory cost with a cold allocator cache?",
        workload=MEMORY, where={"memory": "device"},
    ),
    Compare(
        text="What does pinned memory cost to allocate?", workload=MEMORY,
        where={"memory": "pinned"}, beside_name="pageable memory",
        beside=lambda row: (MEMORY, {**row.axes, "memory": "pageable", "cache": "warm"}),
    ),
    Fragmentation(
        text="Which allocator setting wastes least memory, where {room}?",
        workload=MIXED, each=("room",),
    ),
    BatchMemory(
        text="What does a larger batch cost in memory?", workload=BATCH, varies="num_examples"
    ),
    Scaling(
        text="What does a larger batch gain in time?", workload=BATCH, over="num_examples",
        enough=True, per_item=True, screen="training step by batch",
    ),
)  # fmt: skip
