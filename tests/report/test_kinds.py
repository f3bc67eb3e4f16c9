"""Each kind of question on rows made by hand."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench import families
from hostbench.core.samples import median
from hostbench.core.units import GB, KIB, MIB
from hostbench.families.collectives import BUS as OF_BUS
from hostbench.families.overlap import ideal_s
from hostbench.families.question import Best, Compare, Curve, Finding, Parts, Question, Row
from hostbench.families.transfer import asyncness
from hostbench.report.picture import chart
from hostbench.report.questions import answers, answers_to
from hostbench.report.write import text
from tests import golden
from tests.answers import COPY, printed, row


def copy(seconds: float | None, memory: str, *, blocking: bool = True, **more: Any) -> Row:
    return row(seconds, memory=memory, blocking=blocking, **more)


# ---- what is said of rows made by hand, as tests/data/kinds.txt has it --------------------------

SIZES = [KIB * 4**power for power in range(8)]
RANKS = "collectives.all_reduce"


def line(memory: str, latency_s: float, gb_per_s: float, sizes: list[int] = SIZES) -> list[Row]:
    return [copy(latency_s + n / gb_per_s / GB, memory, nbytes=n) for n in sizes]


def early(*values: object) -> list[Row]:
    """At 1KiB, then at 1MiB."""
    return [
        copy(1.0, "pinned", nbytes=nbytes, call_s=0.25, findings={"asynchronous": value})
        for nbytes, value in zip((KIB, MIB), values, strict=False)
    ]


def ranks(num_ranks: int, nbytes: int, seconds: float | None, **more: Any) -> Row:
    return row(seconds, workload=RANKS, num_ranks=num_ranks, nbytes=nbytes, **more)


LOOPS = Parts(
    text="?",
    workload="overlap.pipeline",
    axis="schedule",
    serial="serial",
    ways=("a", "b"),
    parts=("copy",),
    controls=("c",),
    ideal=lambda copy_s: copy_s,
)
"""Beside an ideal of 0.4 s, which is what the copies take."""


def loop(seconds: float | None, schedule: str, **more: Any) -> Row:
    return row(seconds, workload="overlap.pipeline", schedule=schedule, **more)


def launches(value: float, count: int = 10) -> dict[int, float]:
    return dict.fromkeys(range(count), value)


def measured(*sides: dict[int, float]) -> list[Row]:
    """The serial loop, one way and the copies, by their launches."""
    return [
        loop(median([*own.values()]), name, launches=own)
        for name, own in zip(("serial", "a", "copy"), sides, strict=True)
    ]


def scaled(*seconds: float) -> list[Row]:
    """Launches that are slower in everything."""
    return measured(*({n: s * (1 + n / 10) for n in range(10)} for s in seconds))


def over(times: dict[int, float]) -> list[Row]:
    return [copy(seconds, "pinned", nbytes=nbytes) for nbytes, seconds in times.items()]


def whole(a: float, b: float, **more: Any) -> list[Row]:
    times = {"serial": 1.0, "a": a, "b": b, "c": 0.41, "copy": 0.4}
    return [loop(seconds, schedule, **more) for schedule, seconds in times.items()]


PLAIN = Compare(text="?", workload=COPY, words={"blocking": {True: "sync", False: "async"}})
PAYS = Compare(text="?", workload=COPY, claim={"memory": "pinned"})
CROSSING = replace(PAYS, over="nbytes")
EACH = Compare(text="How fast is {memory}?", workload=COPY, each=("memory",))
RATE = Compare(text="?", workload=COPY, unit="GB/s", note=Row.beside_limit)
WHICH = Best(text="?", workload=COPY, axes=("memory", "blocking"))
LINE = Curve(text="?", workload=COPY, fits="memory")
EARLY = Finding(
    text="?", workload=COPY, also=("transfer.device_to_host",), finding="asynchronous",
    figures=asyncness,
)  # fmt: skip
BUS = Compare(text="?", workload=RANKS, **OF_BUS)
OTHERS = Compare(text="?", workload="collectives.operation", screen="collectives, {nbytes}")
GATHER = row(1.0, workload="collectives.operation", num_ranks=2, operation="gather")
BROKE: dict[str, Any] = {"status": "failed", "reason": "it broke"}
CROWDED: dict[str, Any] = {"flags": "oversubscribed; 2 of 3 launches"}
LIMITS: dict[str, Any] = {
    "ceiling_gb_per_s": 57.6, "ceiling": "PCIe", "published": "50 to 55 GB/s",
    "published_low_gb_per_s": 50.0,
}  # fmt: skip
NVLINK: dict[str, Any] = {
    "ceiling": "NVLink, 18 links together", "ceiling_gb_per_s": 450 / 1.75,
    "published": "365 to 480 GB/s for H100 (who)", "published_low_gb_per_s": 365 / 1.75,
}  # fmt: skip
FEW = [
    copy(seconds, memory, nbytes=n, num=1 if n in SIZES[2:4] else 10)
    for n in SIZES
    for memory, seconds in (("pageable", 2.0), ("pinned", 1.0))
]
NEAR = {n: 65.0 + n / 100 for n in range(9)}
NOISY = {n: 9.0 + 4 * (n % 2) - 1.9 for n in range(10)}
SCATTERED = {2: {0: 0.0170, 1: 0.0340, 2: 0.0296}, 4: {0: 0.0667, 1: 0.0880, 2: 0.0611}}
"""Of a first `make bench`."""

SAYS: dict[str, tuple[Question, Sequence[Row]]] = {
    "sync pageable is the baseline, wherever it stands": (PLAIN, [
        copy(0.25, "pinned", blocking=False), copy(1.0, "pageable"), copy(0.5, "pinned"),
    ]),
    "a claim that holds": (PAYS, [copy(1.0, "pageable"), copy(0.5, "pinned")]),
    "a claim that does not hold": (PAYS, [copy(1.0, "pageable"), copy(2.0, "pinned")]),
    "a claim of rows without launches, which are asv's own": (
        PAYS, [copy(1.0, "pageable", num=0), copy(0.5, "pinned", num=0)],
    ),
    "a claim whose other side failed": (
        PAYS, [copy(None, "pageable", **BROKE), copy(0.5, "pinned")],
    ),
    "a claim without its own side": (PAYS, [copy(1.0, "pageable"), copy(None, "pinned")]),
    "a claim of the memory where not blocking does it": (PAYS, [
        copy(seconds, memory, blocking=blocking)
        for memory in ("pageable", "pinned") for blocking, seconds in ((True, 2.0), (False, 1.0))
    ]),
    "the largest size at which there is something to compare": (PLAIN, [
        copy(1.0, "pageable"), copy(0.5, "pinned"), copy(4.0, "pageable", nbytes=4 * MIB),
        copy(None, "pinned", nbytes=4 * MIB),
    ]),
    "a claim at the largest size, which failed at a larger one": (PAYS, [
        copy(2.0, "pageable"), copy(1.0, "pinned"), copy(9.0, "pageable", nbytes=4 * MIB),
        copy(None, "pinned", nbytes=4 * MIB, **BROKE),
    ]),
    "lines over two sizes": (
        PLAIN, [copy(1.0, memory, nbytes=n) for memory in ("a", "b") for n in (KIB, MIB)],
    ),
    "a single choice keeps its name": (OTHERS, [GATHER]),
    "a rate that is not known": (RATE, [copy(1.0, "pageable", gb_per_s=None), copy(0.5, "pinned")]),
    "a time that failed its proof is drawn and counts for nothing": (PLAIN, [
        copy(1.0, "pageable"), copy(0.1, "pinned", status="failed", reason="proof failed: stale"),
    ]),
    "a failure, a skip and what was not measured": (PLAIN, [
        copy(None, "pageable", status="not measured", reason="over budget"),
        copy(None, "pinned"), copy(None, "registered", **BROKE),
    ]),
    "no case, no answer": (EACH, []),
    "each value has its own": (EACH, [copy(1.0, "pageable"), copy(None, "pinned")]),
    "a question about another device": (replace(EACH, devices=("cpu",)), [copy(1.0, "pageable")]),
    "faster from the first size on": (
        CROSSING, [*line("pageable", 2e-5, 10.0), *line("pinned", 1e-5, 50.0)],
    ),
    "slower at every size": (CROSSING, [*line("pageable", 2e-5, 10.0), *line("pinned", 3e-4, 1.0)]),
    "faster from some size on": (
        CROSSING, [*line("pageable", 2e-5, 10.0), *line("pinned", 5e-5, 50.0)],
    ),
    "sizes with one launch decide nothing": (CROSSING, FEW),
    "what to choose, where a line is as the others": (WHICH, [
        *(copy(s, "pinned", blocking=b) for s, b in ((1.0, True), (0.5, False))),
        copy(1.01, "pageable"), copy(1.01, "odd"),
    ]),
    "what to choose where launches leave one axis open": (WHICH, [
        copy(1.0, "pageable"), copy(0.5, "pageable", blocking=False),
        copy(1.1, "pinned", launches={n: 0.7 + 0.4 * (n % 3) for n in range(8)}),
    ]),
    "one size has no crossing": (CROSSING, [*line("pinned", 1, 5, [MIB]), copy(1.0, "pageable")]),
    "one size has no line": (LINE, [*line("pinned", 1, 5, [MIB]), copy(1.0, "pageable")]),
    "two lines": (LINE, [*line("pinned", 1e-5, 50.0), *line("pageable", 2e-5, 10.0)]),
    "no line through times of too many ranks": (LINE, [
        *line("pinned", 1e-5, 50.0),
        *(replace(own, **CROWDED) for own in line("pageable", 2e-5, 10.0)),
    ]),
    "a limit and what is published": (
        RATE, [copy(n / 50e9, "pinned", nbytes=n, **LIMITS) for n in SIZES],
    ),
    "a limit that is exceeded is none": (RATE, [copy(MIB / 78e9, "pinned", **LIMITS)]),
    "a finding at every size": (EARLY, early(True, True)),
    "a finding at none": (EARLY, early(False, False)),
    "a finding from some size on": (EARLY, early(True, False)),
    "a finding that is not known": (EARLY, early(None, None)),
    "a finding of data has no asyncness": (
        replace(EARLY, also=(), figures=None), [copy(0.1, "pinned")],
    ),
    "no line over sizes that are near": (LINE, over(dict.fromkeys((4, 5, 6, 7), 1.0))),
    "no line where larger copies do not take longer": (LINE, over({n: 1.0 / n for n in SIZES})),
    "no straight line": (LINE, over({n: 1e-12 * n**1.5 for n in SIZES})),
    "no latency below zero": (LINE, over({n: 1e-9 * n**1.02 for n in SIZES[-5:]})),
    "a disturbed size moves the line little": (
        LINE, over({n: (1e-5 + n / 50e9) * (1.2 if n == MIB else 1) for n in SIZES}),
    ),
    "all of the gain that is possible": (LOOPS, scaled(16.0, 9.0, 9.0)),
    "half of the gain that is possible": (LOOPS, scaled(16.0, 12.5, 9.0)),
    "a little more than all of the gain": (LOOPS, scaled(16.0, 8.9, 9.0)),
    "no gain": (LOOPS, scaled(16.0, 16.1, 9.0)),
    "the share is that of the medians": (
        LOOPS, measured(NEAR, launches(60.0, 9), launches(38.6)),
    ),
    "a share on which launches differ too much": (
        LOOPS, measured(launches(16.0, 9), {n: 9.0 + n / 2 for n in range(9)}, launches(9.0)),
    ),
    "launches that hold all three say one share, the medians of all another": (LOOPS, measured(
        {n: 16.0 if n < 8 else 12.0 for n in range(30)}, launches(11.0, 8), launches(9.0),
    )),
    "a gain that is lost in the noise": (LOOPS, measured(NOISY, NOISY, launches(9.0))),
    "a launch in which hardly any gain was possible": (LOOPS, measured(
        launches(16.0), launches(15.0), {n: 9.0 if n else 15.9 for n in range(10)},
    )),
    "too few launches hold all parts": (
        LOOPS, measured(launches(16.0), launches(9.0, 7), launches(9.0)),
    ),
    "the loop beats the ideal": (LOOPS, measured(launches(16.0), launches(7.0), launches(9.0))),
    "the best way, and never a control": (LOOPS, whole(0.5, 0.6, num=10)),
    "the best way hides a part": (LOOPS, whole(0.8, 0.9, num=10)),
    "the best way hides hardly anything": (LOOPS, whole(0.945, 0.95, num=10)),
    "no way is faster": (LOOPS, whole(1.0, 1.2, num=10)),
    "ways beat the ideal that the parts give": (LOOPS, whole(0.2, 0.3, num=10)),
    "no share without an established gain": (LOOPS, whole(0.5, 0.6, num=1)),
    "a way without the serial loop is not asked": (LOOPS, [loop(0.5, "a")]),
    "the serial loop is lost": (LOOPS, [loop(None, "serial"), loop(0.5, "a")]),
    "the ways are lost": (LOOPS, [loop(1.0, "serial"), loop(None, "a")]),
    "all loops are lost": (LOOPS, [loop(None, "serial"), loop(None, "a")]),
    "the rate at the largest size, and its share; one rank sends nothing": (BUS, [
        ranks(4, 16 * MIB, 0.03, flags="oversubscribed"), ranks(2, 16 * MIB, 0.01),
        ranks(1, 16 * MIB, 2e-5), ranks(2, MIB, 0.001),
    ]),
    "one number of ranks is its figure alone": (BUS, [ranks(2, MIB, 0.001), ranks(2, KIB, 0.001)]),
    "one number of too many ranks": (BUS, [ranks(4, MIB, 0.001, **CROWDED), ranks(1, MIB, 1e-5)]),
    "a bus rate beside the link; 1.75 times as many bytes cross it": (
        BUS, [ranks(8, n * MIB, n * MIB * 1.75 / 350e9, **NVLINK) for n in (16, 64)],
    ),
    "launches that scatter establish no share": (BUS, [
        ranks(n, 16 * MIB, median([*own.values()]), launches=own) for n, own in SCATTERED.items()
    ]),
    "the same rate": (BUS, [ranks(2, MIB, 0.01), ranks(4, MIB, 0.015)]),
    "a larger size that failed is named beside the rate": (
        BUS, [ranks(2, MIB, 0.001), ranks(2, 64 * MIB, None, **BROKE)],
    ),
}  # fmt: skip


def lines() -> Iterator[str]:
    for name, (question, rows) in SAYS.items():
        yield name
        for answer in answers_to(question, rows):
            yield from [f"  {answer.question}"] if question.each else []
            yield from printed(answer)


def test_what_the_kinds_say() -> None:
    golden.check("kinds", lines())


# ---- parts --------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(20, 90), min_size=3, max_size=3), min_size=1, max_size=12))
def test_no_share_contradicts_the_times_beside_it(times: list[list[float]]) -> None:
    rows = [
        loop(median(column), name, launches=dict(enumerate(column)))
        for name, column in zip(("serial", "a", "copy"), zip(*times, strict=True), strict=True)
    ]
    (answer,) = answers_to(LOOPS, rows)
    labels = {figure.label: figure for figure in answer.figures}
    assert len(labels) == len(answer.figures)
    share, conclusion = labels["a, hidden share"], labels["a"].conclusion
    if conclusion.verdict == "undecided":
        assert share.value is None and answer.state == "undecided"
    if share.value is not None:
        serial_s, way_s, ideal = (labels[name].value or 0.0 for name in ("serial", "a", "ideal"))
        gained = (serial_s - way_s) / (serial_s - ideal)
        assert share.value == pytest.approx(min(max(gained, 0.0), 1.0))
    if answer.state == "yes":
        assert conclusion.verdict == "faster" and (share.value or 0) >= 0.5


def test_the_ideal_loops() -> None:
    """8 s each way and of compute: two copy engines need 1 + 8 + 1 s for both ways."""
    assert [ideal_s(*parts) for parts in ((8, 8), (8, 16), (16, 8), (8, 8, 8))] == [
        9.0, 17.0, 17.0, 10.0,
    ]  # fmt: skip


def test_a_picture_of_bus_bandwidth_has_the_limit_of_the_bus() -> None:
    """Not that of the bytes which the stored rate counts."""
    rows = [ranks(8, n * MIB, n * MIB * 1.75 / 350e9, **NVLINK) for n in (16, 64)]
    bus = families.pictures()["All-reduce"]
    (rule, *_) = chart(bus, rows, "nbytes", bus.measures[0], 260)["layer"]
    assert rule["data"]["values"] == [{"limit": pytest.approx(450)}]


def test_a_picture_says_which_ranks_have_no_core_of_their_own() -> None:
    rows = [ranks(2, MIB, 1e-3), *(ranks(4, n * MIB, 1e-3, flags="oversubscribed") for n in (1, 4))]
    bus = families.pictures()["All-reduce"]
    spec = chart(bus, rows, "nbytes", bus.measures[0], 260)
    assert spec["description"] == "4 ranks oversubscribed"


# whatever is stored

ODD = st.sampled_from([None, 0.0, -1.0, 1e-300, 1e300, 1.0, 1e-6, math.inf, math.nan])
AXIS = st.sampled_from([0, -1, 1, MIB, 1 << 70, True, "", "pinned", "serial", "1:0", "x:y", 0.5])
TEXT = st.sampled_from(["ok", "failed", "skipped", "not measured", "", "<b>"])


NUMBERS = (
    *("seconds", "ci_low_s", "ci_high_s", "call_s", "nbytes", "gb_per_s", "peak_memory_bytes"),
    *("ceiling_gb_per_s", "published_low_gb_per_s", "published_high_gb_per_s"),
)


@st.composite
def odd_rows(draw: st.DrawFn) -> list[Row]:
    made: list[Row] = []
    works = [work for work in families.load().values()]
    for _ in range(draw(st.integers(1, 8))):
        work = draw(st.sampled_from(works))
        axes: dict[str, Any] = {
            name: draw(st.sampled_from(choices) | AXIS)
            for name, choices in work.axes.items()
            if name != "device" and draw(st.integers(0, 20))
        }
        copies = "1 x H2D pinned, 1KiB in all"
        values: st.SearchStrategy[Any] = st.sampled_from(
            [True, False, None, 3, "much", [1], {}, copies]
        )
        findings = st.dictionaries(
            st.sampled_from(["asynchronous", "overlapped", "both_at_once", "copies"]), values
        )
        launches: st.SearchStrategy[Any] = st.dictionaries(st.integers(0, 9) | st.just("x"), ODD)
        numbers: dict[str, Any] = {name: draw(ODD) for name in NUMBERS}
        made.append(
            Row(
                family=work.family,
                workload=work.name,
                case=f"{work.name}[{len(made)}]",
                axes=axes,
                device=draw(st.sampled_from(["cuda", "cpu", "simulated", "odd"])),
                status=draw(TEXT),
                reason=draw(TEXT | st.none()),
                launches=draw(launches),
                findings=draw(findings),
                **numbers,
            )
        )
    return made


@given(odd_rows())
def test_odd_values_never_raise(rows: list[Row]) -> None:
    """Neither when answered nor when printed."""
    for answer in answers(rows):
        assert answer.state in ("yes", "no", "partly", "figure", "undecided", "unavailable")
        assert answer.verdict or answer.figures
        assert text(answer.blocks())
