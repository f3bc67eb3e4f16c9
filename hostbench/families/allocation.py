"""What is asked of the family allocation: moved or made on the device; what new memory costs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.samples import MIN_FOR_INTERVAL, by_launch, median, median_interval
from hostbench.families import load, question
from hostbench.families.question import Compare, Figure, Finding, Picture, Row, Rows, Scaling

CREATE, PART, MEMORY = "allocation.create", "allocation.part", "allocation.memory"
MIXED, BATCH = "allocation.mixed", "allocation.batch"
FILLS = ("zeros", "randn", "full", "arange")
PINNED = "allocation.pinned"
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "place": {"cpu_then_move": "moved", "direct": "direct"},
    "cache": {"warm": "warm cache", "cold": "cold cache"},
    "room": {"free": "there is room", "tight": "memory is tight"},
    "setting": {
        case.values["setting"]: conf or "default"
        for work in map(load(("allocation",)).__getitem__, (MIXED, PINNED))
        for case in work.cases()
        for conf in work.options(case).environment.values()  # nothing on the cpu device
    },
}


def _parts(whole: Row, rows: Rows) -> dict[str, Row | None]:
    """What creating on the CPU and moving consists of, each alone. A device that works in host
    memory pays for host memory twice."""
    nbytes, fill = whole.axes["nbytes"], whole.axes["fill"]
    host = question.first(rows, PART, nbytes=nbytes, part="host_memory")
    device = question.first(rows, MEMORY, nbytes=nbytes, memory="device", cache="warm")
    return {
        str(fill): question.first(rows, PART, nbytes=nbytes, part=fill),
        "the host's memory": host,
        "the device's memory": host if whole.device == "cpu" else device,
        "the copy": question.first(rows, PART, nbytes=nbytes, part="copy"),
    }


def _wholes(rows: Rows) -> Rows:
    """Of each fill that is measured alone the whole, at the same size."""
    alone = {(row.axes["part"], row.axes["nbytes"]) for row in question.where(rows, PART)}
    moved = question.valid(question.where(rows, CREATE, place="cpu_then_move"))
    wholes = [row for row in moved if (row.axes["fill"], row.axes["nbytes"]) in alone]
    return [replace(row, workload=PART) for row in wholes]


def _shares(whole: Row, rows: Rows) -> Iterator[Figure]:
    """Measured in the launch of the whole: caches make a part alone faster or slower than inside,
    and alone it may take more than all of it."""
    for name, part in _parts(whole, rows).items():
        times = (part.by_launch, whole.by_launch) if part else ({}, {})
        shares = [*by_launch(lambda alone, all_of_it: alone / all_of_it, *times).values()]
        if part is None or not shares:
            yield Figure(name, None, "share", status="not measured", reason=question.NOT_ASKED)
            continue
        low, high = median_interval(shares) if len(shares) >= MIN_FOR_INTERVAL else (None, None)
        alone, all_of_it = map(units.format_seconds, (part.time, whole.time))
        note = f"{alone} alone, the whole {all_of_it}"
        yield Figure(name, median(shares), "share", low=low, high=high, notes=(note,))


def _reserved(row: Row) -> str:
    """At the peak, over what is allocated; where the device does not count, or launches contradict,
    nothing."""
    reserved, allocated = row.number("peak_reserved"), row.number("peak_allocated")
    if not reserved or not allocated:
        return "what was reserved was not counted, or differs between launches"
    notes = [f"{_times(reserved, allocated)} is reserved"]
    if (split := row.number("peak_inactive_split")) is not None:
        notes.append(f"up to {units.format_bytes(split)} free in used segments")
    if retries := row.number("num_alloc_retries"):
        notes.append(f"the cache was given back {units.number_of(int(retries), 'time')}")
    return ", ".join(notes)


def _pinned(row: Row) -> str:
    """By the allocator's own statistics, which older torches have not."""
    pinned = row.number("pinned_bytes")
    return f"{_times(pinned, int(row.axes['nbytes']))} is pinned" if pinned else ""


def _times(nbytes: float, asked: float) -> str:
    """`2.5x (250MiB for 100MiB)`."""
    sizes = f"{units.format_bytes(nbytes)} for {units.format_bytes(asked)}"
    return f"{units.format_factor(nbytes / asked)} ({sizes})"


def _memory(row: Row) -> str:
    """What malloc gives back to the system at once costs new pages each time (cpu: over 32MiB)."""
    pages = "new memory each time" if row.number("new_pages") else ""
    return ", ".join(filter(None, (row.peak(), pages)))


QUESTIONS = (
    Compare(
        text="Create {fill} on the CPU and move it, or directly on the device?", workload=CREATE,
        where={"fill": FILLS}, each=("fill",), note=_memory,
        screen="{fill}, {nbytes}",
    ),
    Finding(
        text="Where the time of {fill} goes, created on the CPU and moved", workload=PART,
        select=_wholes, each=("fill",), figures=_shares,
    ),
    Compare(
        text="What does device memory cost with a cold allocator cache?",
        workload=MEMORY, where={"memory": "device"},
    ),
    Compare(
        text="What does pinned memory cost to allocate?", workload=MEMORY,
        where={"memory": "pinned"},
        beside=question.same("pageable memory", MEMORY, memory="pageable", cache="warm"),
    ),
    Compare(
        text="What does pinned memory cost under settings of its allocator, {cache}?",
        workload=PINNED, each=("cache",), note=_pinned,
    ),
    Compare(
        text="What do settings of the allocator cost and reserve, where {room}?",
        workload=MIXED, each=("room",), note=_reserved,
    ),
    Scaling(
        text="What does a larger batch gain in time, and cost in memory?", workload=BATCH,
        over="num_examples", unit="items/s", work=lambda row: int(row.axes["num_examples"]),
        note=Row.peak, screen="a step",
    ),
)  # fmt: skip
PICTURES = (
    Picture(
        choice="Create", text="CPU then move, or direct", workload=CREATE, has_card=True,
        usual={"fill": ("zeros", "randn")},
    ),
)  # fmt: skip
