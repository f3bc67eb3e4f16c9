"""Each kind of question on rows made by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench import families
from hostbench.core.samples import median
from hostbench.core.units import GB, KIB, MIB
from hostbench.families.collectives.questions import bus_bytes_per_s
from hostbench.report.answer import Answer, Figure
from hostbench.report.kinds import Compare, Curve, Finding, Parts, Question, Scaling
from hostbench.report.questions import answers
from hostbench.report.rows import Row

COPY = "transfer.host_to_device"
WORDS = {"blocking": {True: "sync", False: "async"}}


def row(seconds: float | None, *, workload: str = COPY, **more: Any) -> Row:
    """A case of one size; what is no field of Row is an axis. `launches`: how many alike."""
    num, nbytes = more.pop("num", 3), more.pop("nbytes", MIB)
    fields = {name: more.pop(name) for name in tuple(more) if name in Row.__dataclass_fields__}
    axes: dict[str, Any] = {"nbytes": nbytes, **more}
    status = "ok" if seconds is not None else "skipped"
    own: dict[str, Any] = {
        "device": "cuda",
        "status": status,
        "launches": {} if seconds is None else dict.fromkeys(range(num), seconds),
        "reason": None if seconds is not None else "no such memory",
        "nbytes": nbytes,
        "gb_per_s": nbytes / seconds / GB if seconds else None,
    }
    case = f"{workload}[{','.join(f'{name}={value}' for name, value in axes.items())}]"
    return Row(
        family=workload.partition(".")[0],
        workload=workload,
        case=case,
        axes=axes,
        seconds=seconds,
        **{**own, **fields},
    )


def copy(seconds: float | None, memory: str, *, blocking: bool = True, **more: Any) -> Row:
    return row(seconds, memory=memory, blocking=blocking, **more)


def only(question: Question, *rows: Row) -> Answer:
    (answer,) = question.answers(rows)
    return answer


def figures(answer: Answer) -> dict[str, Figure]:
    found = {one.label: one for one in answer.figures}
    assert len(found) == len(answer.figures)
    return found


def verdicts(answer: Answer) -> dict[str, str]:
    return {
        one.label: one.ratio.conclusion.verdict for one in answer.figures if one.ratio is not None
    }


def says_no_factor(answer: Answer) -> bool:
    texts = [answer.verdict, *map(str, answer.figures)]
    return not any("x faster" in text or "x slower" in text for text in texts)


# compare


def test_the_workloads_baseline_is_what_the_others_are_held_against() -> None:
    """Sync pageable, wherever it stands among the rows; the largest factor leads."""
    answer = only(
        Compare(text="?", workload=COPY, words=WORDS),
        copy(0.25, "pinned", blocking=False),
        copy(1.0, "pageable"),
        copy(0.5, "pinned"),
    )
    assert (answer.state, answer.notes) == ("figure", ("At 1MiB.",))
    assert verdicts(answer) == {"pinned async": "faster", "pinned sync": "faster"}
    best = figures(answer)["pinned async"]
    assert best.ratio is not None
    assert (best.value, best.unit, best.ratio.to) == (0.25, "s", "pageable sync")
    assert best.ratio.conclusion.factor == 4.0
    assert answer.verdict == f"pinned async is {best.ratio}"
    assert answer.chart is not None and answer.chart.mark == "bar"
    assert [one.y for one in answer.chart.points] == [0.25, 1.0, 0.5]


PAYS = Compare(text="?", workload=COPY, claim={"memory": "pinned"})


@pytest.mark.parametrize(
    ("pinned", "num", "state", "verdict"),
    [
        (0.5, 3, "yes", "faster"),
        (2.0, 3, "no", "slower"),
        (0.5, 0, "undecided", "undecided"),
    ],
)
def test_a_claim_is_answered_by_the_rule(pinned: float, num: int, state: str, verdict: str) -> None:
    """Also of rows that have no launches, which are asv's own."""
    answer = only(PAYS, copy(1.0, "pageable", num=num), copy(pinned, "pinned", num=num))
    assert answer.state == state
    assert verdicts(answer) == {"pinned": verdict}
    assert says_no_factor(answer) is (verdict not in ("faster", "slower"))


def test_a_claim_needs_both_sides() -> None:
    lost = copy(None, "pageable", status="failed", reason="it broke")
    answer = only(PAYS, lost, copy(0.5, "pinned"))
    assert (answer.state, verdicts(answer)) == ("undecided", {})
    found = figures(answer)
    assert found["pinned"].value == 0.5
    assert (found["pageable"].status, found["pageable"].reason) == ("failed", "it broke")
    assert says_no_factor(answer)
    answer = only(PAYS, copy(1.0, "pageable"), copy(None, "pinned"))
    assert answer.state == "unavailable"
    assert [(one.status, one.reason) for one in answer.figures] == [("skipped", "no such memory")]


def test_the_largest_size_at_which_there_is_something_to_compare() -> None:
    answer = only(
        Compare(text="?", workload=COPY),
        copy(1.0, "pageable"),
        copy(0.5, "pinned"),
        copy(4.0, "pageable", nbytes=4 * MIB),
        copy(None, "pinned", nbytes=4 * MIB),
    )
    assert answer.notes == ("At 1MiB.",)
    small = (copy(2.0, "pageable"), copy(1.0, "pinned"))
    lost = copy(None, "pinned", nbytes=4 * MIB, status="failed", reason="out of memory")
    assert only(PAYS, *small, copy(9.0, "pageable", nbytes=4 * MIB), lost).state == "yes"
    both = (copy(1.0, m, nbytes=n) for m in ("a", "b") for n in (KIB, MIB))
    answer = only(Compare(text="?", workload=COPY), *both)
    assert answer.notes == ("At 1MiB.",)
    assert answer.chart is not None and answer.chart.mark == "line"
    assert {one.x for one in answer.chart.points} == {float(KIB), float(MIB)}


def test_a_single_choice_keeps_its_name() -> None:
    alone = row(1.0, workload="collectives.operation", num_ranks=2, operation="gather")
    question = Compare(
        text="?",
        workload="collectives.operation",
        baseline={"operation": "all_reduce"},
        screen="collectives, {nbytes}",
    )
    answer = only(question, alone)
    assert answer.verdict == "gather 1 s"
    assert [(one.what, one.figures) for one in answer.lines] == [
        ("collectives, 1MiB", "gather 1 s")
    ]
    of_each = replace(question, each=("operation",), baseline=None)
    assert [one.figures for one in only(of_each, alone).lines] == ["2 ranks 1 s"]


def test_a_rate_is_shown_where_it_is_known() -> None:
    question = Compare(text="?", workload=COPY, show="rate")
    answer = only(question, copy(1.0, "pageable"), copy(0.5, "pinned"))
    found = figures(answer)["pinned"]
    assert (found.value, found.unit, found.low) == (MIB / 0.5 / GB, "GB/s", None)
    assert answer.chart is not None and answer.chart.y.unit == "GB/s"
    answer = only(question, copy(1.0, "pageable", gb_per_s=None), copy(0.5, "pinned"))
    assert figures(answer)["pageable"].unit == "s"


def test_a_failed_number_is_drawn_and_counts_for_nothing() -> None:
    stale = copy(0.1, "pinned", status="failed", reason="proof failed: stale")
    answer = only(Compare(text="?", workload=COPY), copy(1.0, "pageable"), stale)
    assert verdicts(answer) == {}
    assert figures(answer)["pinned"].value is None
    assert answer.chart is not None
    assert [one.status for one in answer.chart.points] == ["ok", "failed"]


# what every kind says of rows without a number


def test_a_failure_a_skip_and_what_was_not_measured_stay_apart() -> None:
    lost = [
        copy(None, "pageable", status="not measured", reason="over budget"),
        copy(None, "pinned", status="skipped", reason="needs a GPU"),
        copy(None, "registered", status="failed", reason="it broke"),
    ]
    answer = only(Compare(text="?", workload=COPY), *lost)
    assert answer.verdict == "failed: it broke; not measured: over budget; skipped: needs a GPU"
    assert [one.status for one in answer.figures] == ["not measured", "skipped", "failed"]


def test_no_case_no_answer_and_each_value_has_its_own() -> None:
    each = Compare(text="How fast is {memory}?", workload=COPY, each=("memory",))
    assert list(each.answers([])) == []
    found = list(each.answers([copy(1.0, "pageable"), copy(None, "pinned")]))
    assert [(one.question, one.state) for one in found] == [
        ("How fast is pageable?", "figure"),
        ("How fast is pinned?", "unavailable"),
    ]
    elsewhere = Compare(text="?", workload=COPY, devices=("cpu",))
    assert list(elsewhere.answers([copy(1.0, "pageable")])) == []


# curve

SIZES = [KIB * 4**power for power in range(8)]
LINE = Curve(text="?", workload=COPY, fits=({"memory": "pinned"}, {"memory": "pageable"}))
CROSSING = Curve(text="?", workload=COPY, crossing=("memory", "pageable", "pinned"))


def line(memory: str, latency_s: float, gb_per_s: float, sizes: list[int] = SIZES) -> list[Row]:
    return [copy(latency_s + n / gb_per_s / GB, memory, nbytes=n) for n in sizes]


def test_a_line_has_latency_bandwidth_and_a_curve() -> None:
    answer = only(LINE, *line("pinned", 1e-5, 50.0), *line("pageable", 2e-5, 10.0))
    found = figures(answer)
    assert found["pinned: latency"].value == pytest.approx(1e-5)
    assert found["pinned: bandwidth"].value == pytest.approx(50.0)
    assert found["pinned: half speed at"].value == pytest.approx(5e5)
    assert found["pageable: bandwidth"].value == pytest.approx(10.0)
    assert answer.chart is not None
    rates = [one.y for one in answer.chart.curve]
    assert rates == sorted(rates) and rates[-1] < 50.0
    assert {one.series for one in answer.chart.points} == {"pinned", "pageable"}


def test_no_line_goes_through_times_of_too_many_ranks() -> None:
    some = line("pageable", 2e-5, 10.0)
    some[3] = replace(some[3], flags="oversubscribed; 2 of 3 launches")
    answer = only(LINE, *line("pinned", 1e-5, 50.0), *some)
    found = figures(answer)["pageable"]
    assert (found.value, found.status) == (None, "refused")
    assert "pageable: no fit: some of the times are over" in (answer.verdict)
    assert figures(answer)["pinned: latency"].value == pytest.approx(1e-5)


def test_one_size_asks_for_no_line_and_no_crossing() -> None:
    both = [*line("pinned", 1e-5, 50.0, [MIB]), *line("pageable", 1e-5, 9.0, [MIB])]
    assert list(LINE.answers(both)) == []
    assert list(CROSSING.answers(both)) == []


@pytest.mark.parametrize(
    ("pinned", "state"),
    [((1e-5, 50.0), "yes"), ((3e-4, 1.0), "no"), ((1e-4, 50.0), "partly")],
)
def test_where_two_lines_cross(pinned: tuple[float, float], state: str) -> None:
    answer = only(CROSSING, *line("pageable", 2e-5, 10.0), *line("pinned", *pinned))
    assert answer.state == state
    found = verdicts(answer)
    assert list(found) == [f"pinned, {4**power}KiB" for power in range(5)] + [
        f"pinned, {4**power}MiB" for power in range(3)
    ]
    if state == "partly":
        assert {"slower", "faster"} <= set(found.values())


def test_a_crossing_is_told_by_decided_sizes_alone() -> None:
    """At sizes with one launch nothing is decided; they are named."""
    few = {SIZES[2]: 1, SIZES[3]: 1}
    rows = [
        copy(seconds, memory, nbytes=n, num=few.get(n, 3))
        for n in SIZES
        for memory, seconds in (("pageable", 2.0), ("pinned", 1.0))
    ]
    answer = only(CROSSING, *rows)
    assert answer.state == "partly"
    assert answer.verdict.endswith("undecided at 16KiB and 64KiB")
    undecided = [name for name, one in verdicts(answer).items() if one == "undecided"]
    assert undecided == ["pinned, 16KiB", "pinned, 64KiB"]
    answer = only(CROSSING, *(replace(one, launches={0: one.time}) for one in rows))
    assert (answer.state, says_no_factor(answer)) == ("undecided", True)


def test_the_limit_and_the_published_band_are_lines_of_the_chart() -> None:
    limits: dict[str, Any] = {
        "ceiling_gb_per_s": 57.6,
        "ceiling": "PCIe",
        "published": "50 to 55 GB/s",
        "published_low_gb_per_s": 50.0,
        "published_high_gb_per_s": 55.0,
    }
    rows = [copy(n / 50e9, "pinned", nbytes=n, **limits) for n in SIZES]
    answer = only(Curve(text="?", workload=COPY), *rows)
    assert answer.chart is not None
    assert [(one.low, one.high) for one in answer.chart.rules] == [(57.6, None), (50.0, 55.0)]
    (figure,) = answer.figures
    assert (figure.unit, figure.note) == ("GB/s", "87% of 57.6 GB/s, PCIe")
    assert figure.value == pytest.approx(50.0)
    far = [copy(n / 1e9, "pinned", nbytes=n, **limits) for n in SIZES]
    answer = only(Curve(text="?", workload=COPY), *far)
    assert answer.chart is not None and answer.chart.rules == ()
    assert any("57.6 GB/s" in note for note in answer.notes)


def test_no_share_of_a_limit_that_is_passed() -> None:
    limited: dict[str, Any] = {"ceiling_gb_per_s": 57.6, "ceiling": "PCIe"}
    answer = only(Curve(text="?", workload=COPY), copy(MIB / 78e9, "pinned", **limited))
    (figure,) = answer.figures
    assert figure.note.startswith("above 57.6 GB/s, PCIe: ") and "%" not in str(figure)


# finding

EARLY = Finding(text="?", workload=COPY, also=("transfer.device_to_host",), finding="asynchronous")


def early(value: object, nbytes: int = MIB, **more: Any) -> Row:
    return copy(1.0, "pinned", nbytes=nbytes, call_s=0.25, findings={"asynchronous": value}, **more)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ((True, True), "yes"),
        ((False, False), "no"),
        ((True, False), "partly"),
        ((None, None), "undecided"),
    ],
)
def test_a_finding_over_sizes(values: tuple[object, ...], state: str) -> None:
    answer = only(EARLY, *(early(one, n) for one, n in zip(values, (KIB, MIB), strict=True)))
    assert answer.state == state
    (figure,) = answer.figures
    assert (figure.value, figure.unit) == (0.75, "share")
    assert answer.chart is not None and len(answer.chart.points) == 2


@pytest.mark.parametrize(("share", "much"), [(0.9, 0.9), (7, None)])
def test_a_finding_with_a_share_shows_that_and_no_asyncness(
    share: object, much: float | None
) -> None:
    of_data = only(replace(EARLY, also=(), of_call=False), copy(0.1, "pinned"))
    assert (of_data.figures, of_data.chart) == ((), None)
    asked = Finding(text="?", workload=COPY, finding="at_once", share="at_once_share")
    seen = {"at_once": True, "at_once_share": share}
    answer = only(asked, copy(1.0, "pinned", call_s=0.25, findings=seen))
    (figure,) = answer.figures
    assert (figure.value, figure.status) == (much, "refused" if much is None else "ok")
    assert "asyncness" not in f"{answer.figures}{answer.chart}"
    drawn = answer.chart.points if answer.chart else ()
    assert [one.y for one in drawn] == ([] if much is None else [much])


# parts


def loops(**more: Any) -> Parts:
    """Beside an ideal of 0.4 s, which is what the copies take."""
    return Parts(
        text="?",
        workload="overlap.pipeline",
        axis="schedule",
        serial="serial",
        ways=("a", "b"),
        parts=("copy",),
        controls=("c",),
        ideal=lambda copy_s: copy_s,
        **more,
    )


def loop(seconds: float | None, schedule: str, **more: Any) -> Row:
    return row(seconds, workload="overlap.pipeline", schedule=schedule, **more)


def whole(a: float, b: float, **more: Any) -> list[Row]:
    times = {"serial": 1.0, "a": a, "b": b, "c": 0.41, "copy": 0.4}
    return [loop(seconds, schedule, **more) for schedule, seconds in times.items()]


@pytest.mark.parametrize(
    ("a", "b", "state", "said"),
    [
        (0.5, 0.6, "yes", "yes: a hides 83 %"),
        (0.8, 0.9, "partly", "in part: a hides 33 %"),
        (0.945, 0.95, "no", "no: at best a hides 9 %"),
        (1.0, 1.2, "no", "no: a and b are not faster than serial"),
        (0.2, 0.3, "partly", "a is 5x faster than serial; how much it hides is not known (a: the"),
    ],
)
def test_the_best_way_and_never_a_control(a: float, b: float, state: str, said: str) -> None:
    answer = only(loops(), *whole(a, b, num=10))
    assert answer.state == state and answer.verdict.startswith(said)
    labels = figures(answer)
    assert "c, hidden share" not in labels and labels["ideal"].value == 0.4
    assert answer.chart is not None
    assert [one.x for one in answer.chart.points] == ["copy", "serial", "c", "a", "b"]


def test_a_share_without_an_established_gain_is_undecided() -> None:
    answer = only(loops(), *whole(0.5, 0.6, num=1))
    assert answer.state == "undecided" and says_no_factor(answer)
    assert "1 launch decides nothing; 7 tell more: hostbench run --launches 7" in answer.verdict
    labels = figures(answer)
    shares = [labels[f"{way}, hidden share"] for way in ("a", "b")]
    assert [(share.value, share.status) for share in shares] == [(None, "undecided")] * 2
    assert "undecided: too few launches, beside serial" in str(labels["a"])


@given(st.lists(st.lists(st.floats(20, 90), min_size=3, max_size=3), min_size=1, max_size=12))
def test_no_share_contradicts_the_times_beside_it(times: list[list[float]]) -> None:
    rows = [
        loop(median(column), name, launches=dict(enumerate(column)))
        for name, column in zip(("serial", "a", "copy"), zip(*times, strict=True), strict=True)
    ]
    answer = only(loops(), *rows)
    labels = figures(answer)
    share, ratio = labels["a, hidden share"], labels["a"].ratio
    assert ratio is not None
    if ratio.conclusion.verdict == "undecided":
        assert share.value is None and answer.state == "undecided"
    if share.value is not None:
        serial_s, way_s, ideal = (labels[name].value or 0.0 for name in ("serial", "a", "ideal"))
        gained = (serial_s - way_s) / (serial_s - ideal)
        assert share.value == pytest.approx(min(max(gained, 0.0), 1.0))
    if answer.state == "yes":
        assert ratio.conclusion.verdict == "faster" and (share.value or 0) >= 0.5


@pytest.mark.parametrize(
    ("rows", "states"),
    [
        ((loop(0.5, "a"),), []),
        ((loop(None, "serial"), loop(0.5, "a")), ["undecided"]),
        ((loop(1.0, "serial"), loop(None, "a")), ["undecided"]),
        ((loop(None, "serial"), loop(None, "a")), ["unavailable"]),
    ],
)
def test_lost_loops_are_named(rows: tuple[Row, ...], states: list[str]) -> None:
    """A run that did not select the serial loop is not asked."""
    found = list(loops().answers(rows))
    assert [one.state for one in found] == states
    for one in found:
        lost = {row.axes["schedule"] for row in rows if row.seconds is None}
        named = {figure.label for figure in one.figures if figure.status == "skipped"}
        assert named == lost or len(lost) == len(rows)
        assert (one.verdict.count("serial") == 1) is ("serial" in lost and len(lost) == 1)


# scaling

RANKS = "collectives.all_reduce"
BUS = Scaling(
    text="?",
    workload=RANKS,
    rate=bus_bytes_per_s,
    rate_name="bus bandwidth",
)
LOST: dict[str, Any] = {"status": "failed", "reason": "rank 1 was lost"}


def ranks(num_ranks: int, nbytes: int, seconds: float | None, **more: Any) -> Row:
    return row(seconds, workload=RANKS, num_ranks=num_ranks, nbytes=nbytes, **more)


def test_the_rate_at_the_largest_size_and_its_share() -> None:
    answer = only(
        BUS,
        ranks(4, 16 * MIB, 0.03, flags="oversubscribed"),
        ranks(2, 16 * MIB, 0.01),
        ranks(1, 16 * MIB, 2e-5),
        ranks(2, MIB, 0.001),
    )
    found = figures(answer)
    assert answer.state == "figure" and answer.verdict.startswith("16MiB, bus bandwidth: ")
    assert found["2 ranks"].value == pytest.approx(16 * MIB / 0.01 / GB)
    assert found["4 ranks"].value == pytest.approx(0.839, abs=0.001)
    assert str(found["4 ranks"]) == "4 ranks 0.839 GB/s (50% of that of 2 ranks, oversubscribed)"
    assert "1 rank" not in found, "one rank sends nothing"
    assert answer.chart is not None
    assert [(one.x, one.series) for one in answer.chart.points] == [
        (16.0 * MIB, "4 ranks"),
        (16.0 * MIB, "2 ranks"),
        (1.0 * MIB, "2 ranks"),
    ]


def test_one_number_of_ranks_is_its_figure_alone() -> None:
    answer = only(BUS, ranks(2, MIB, 0.001), ranks(2, KIB, 0.001))
    assert answer.verdict == "1MiB, bus bandwidth: 2 ranks 1.05 GB/s"
    crowded = only(BUS, ranks(4, MIB, 0.001, flags="oversubscribed"), ranks(1, MIB, 1e-5))
    assert crowded.verdict == "1MiB, bus bandwidth: 4 ranks 1.57 GB/s (oversubscribed)"


def test_a_bus_bandwidth_is_held_against_the_link_and_what_others_reach() -> None:
    """Their rates are of all bytes, of which 1.75 times as many cross the link."""
    limits: dict[str, Any] = {
        "ceiling": "NVLink, 18 links together",
        "ceiling_gb_per_s": 450 / 1.75,
        "published": "365 to 480 GB/s for H100 (who)",
        "published_low_gb_per_s": 365 / 1.75,
        "published_high_gb_per_s": 480 / 1.75,
    }
    rows = [ranks(8, size * MIB, size * MIB * 1.75 / 350e9, **limits) for size in (16, 64)]
    answer = only(BUS, *rows)
    assert answer.chart is not None
    drawn: list[Any] = [(rule.low, rule.high) for rule in answer.chart.rules]
    assert drawn[0] == (pytest.approx(450), None)
    assert drawn[1] == (pytest.approx(365), pytest.approx(480))
    assert answer.notes[0] == "Limit: 450 GB/s, NVLink, 18 links together."
    assert answer.notes[1].startswith("Published: 365 to 480 GB/s for H100")


def test_launches_that_scatter_establish_no_share_of_a_rate() -> None:
    """Those of a first `make bench`: 2 ranks 17 to 34 ms, 4 ranks 61 to 88 ms."""
    two, four = {0: 0.0170, 1: 0.0340, 2: 0.0296}, {0: 0.0667, 1: 0.0880, 2: 0.0611}
    rows = [ranks(n, 16 * MIB, median([*s.values()]), launches=s) for n, s in ((2, two), (4, four))]
    answer = only(BUS, *rows)
    assert (answer.state, verdicts(answer)) == ("undecided", {"4 ranks": "undecided"})
    assert str(figures(answer)["4 ranks"]) == (
        "4 ranks 0.377 GB/s (undecided: too few launches, beside 2 ranks)"
    )
    assert answer.verdict == (
        "16MiB, bus bandwidth: 0.567 GB/s over 2 ranks, 0.377 GB/s over 4 ranks; whether they "
        "differ is undecided (3 launches tell only large differences; 7 tell more: hostbench run "
        "--launches 7)"
    )
    alike = only(BUS, ranks(2, MIB, 0.01), ranks(4, MIB, 0.015))
    assert str(figures(alike)["4 ranks"]).endswith("(the same as 2 ranks)")


def test_a_larger_size_that_failed_is_named_beside_the_rate() -> None:
    answer = only(BUS, ranks(2, MIB, 0.001), ranks(2, 64 * MIB, None, **LOST))
    assert answer.verdict.startswith("1MiB, ")
    (lost,) = (one for one in answer.figures if one.status == "failed")
    assert "64MiB" in lost.label and lost.reason == "rank 1 was lost"


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
    """Neither when answered nor when put into words."""
    for answer in answers(rows):
        assert answer.state in ("yes", "no", "partly", "figure", "undecided", "unavailable")
        assert answer.verdict
        for figure in answer.figures:
            assert str(figure)


def test_a_claim_is_credited_for_its_own_axis_alone() -> None:
    """Not blocking does it here, not the memory."""
    question = Compare(text="Does pinning pay?", workload=COPY, claim={"memory": "pinned"})
    rows = [
        copy(seconds, memory, blocking=blocking)
        for memory in ("pageable", "pinned")
        for blocking, seconds in ((True, 2.0), (False, 1.0))
    ]
    assert only(question, *rows).state in ("no", "undecided")
