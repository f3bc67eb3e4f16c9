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
from hostbench.families.collectives.questions import BUS as OF_BUS
from hostbench.families.overlap.ideal import ideal_round_trip_s, ideal_s
from hostbench.report.answer import Answer, Figure
from hostbench.report.kinds import Compare, Curve, Finding, Parts, Question
from hostbench.report.kinds.curve import fit
from hostbench.report.kinds.parts import hidden_share
from hostbench.report.kinds.question import beside_limit
from hostbench.report.questions import answers
from hostbench.report.rows import Row

COPY = "transfer.host_to_device"
WORDS = {"blocking": {True: "sync", False: "async"}}


def row(seconds: float | None, *, workload: str = COPY, **more: Any) -> Row:
    """A case of one size; what is no field of Row is an axis. `launches`: how many alike."""
    num, nbytes = more.pop("num", 8), more.pop("nbytes", MIB)
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
    by_label = {figure.label: figure for figure in answer.figures}
    assert len(by_label) == len(answer.figures)
    return by_label


def verdicts(answer: Answer) -> dict[str, str]:
    return {
        figure.label: figure.ratio.conclusion.verdict
        for figure in answer.figures
        if figure.ratio is not None
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
        (0.5, 8, "yes", "faster"),
        (2.0, 8, "no", "slower"),
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
    question = Compare(text="?", workload=COPY, unit="GB/s")
    answer = only(question, copy(1.0, "pageable"), copy(0.5, "pinned"))
    pinned = figures(answer)["pinned"]
    assert (pinned.value, pinned.unit, pinned.low) == (MIB / 0.5 / GB, "GB/s", None)
    assert answer.verdict == "; ".join(map(str, answer.figures)), "it asks how fast"
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


# along an axis

SIZES = [KIB * 4**power for power in range(8)]
LINE = Curve(text="?", workload=COPY, fits="memory")
CROSSING = Compare(text="?", workload=COPY, claim={"memory": "pinned"}, over="nbytes")


def line(memory: str, latency_s: float, gb_per_s: float, sizes: list[int] = SIZES) -> list[Row]:
    return [copy(latency_s + n / gb_per_s / GB, memory, nbytes=n) for n in sizes]


@pytest.mark.parametrize(
    ("pinned", "state", "said"),
    [
        ((1e-5, 50.0), "yes", "pinned: up to 4.91x faster from 1KiB to 16MiB"),
        ((3e-4, 1.0), "no", "pinned: up to 15x slower from 1KiB to 16MiB"),
        ((5e-5, 50.0), "partly", "slower from 1KiB to 256KiB, up to 4.4x faster from 1MiB"),
    ],
)
def test_from_which_size_on_one_is_faster(
    pinned: tuple[float, float], state: str, said: str
) -> None:
    answer = only(CROSSING, *line("pageable", 2e-5, 10.0), *line("pinned", *pinned))
    assert answer.state == state and said in answer.verdict
    assert [figure.label for figure in answer.figures][::7] == ["1KiB pinned", "16MiB pinned"]


def test_what_is_undecided_along_an_axis_is_named() -> None:
    """At sizes with one launch nothing is decided."""
    few = {SIZES[2]: 1, SIZES[3]: 1}
    rows = [
        copy(seconds, memory, nbytes=n, num=few.get(n, 8))
        for n in SIZES
        for memory, seconds in (("pageable", 2.0), ("pinned", 1.0))
    ]
    answer = only(CROSSING, *rows)
    assert answer.state == "partly"
    assert "undecided from 16KiB to 64KiB" in answer.verdict
    undecided = [name for name, verdict in verdicts(answer).items() if verdict == "undecided"]
    assert undecided == ["16KiB pinned", "64KiB pinned"]
    answer = only(CROSSING, *(replace(row, launches={0: row.time}) for row in rows))
    assert (answer.state, says_no_factor(answer)) == ("undecided", True)


def test_one_size_asks_for_no_line_and_no_crossing() -> None:
    both = [*line("pinned", 1e-5, 50.0, [MIB]), *line("pageable", 1e-5, 9.0, [MIB])]
    assert list(LINE.answers(both)) == []
    assert list(CROSSING.answers(both)) == []


# curve


def test_a_line_has_latency_and_bandwidth() -> None:
    answer = only(LINE, *line("pinned", 1e-5, 50.0), *line("pageable", 2e-5, 10.0))
    shown = figures(answer)
    assert shown["pinned: latency"].value == pytest.approx(1e-5)
    assert shown["pinned: bandwidth"].value == pytest.approx(50.0)
    assert shown["pinned: half speed at"].value == pytest.approx(5e5)
    assert shown["pageable: bandwidth"].value == pytest.approx(10.0)
    assert answer.chart is not None
    assert {point.series for point in answer.chart.points} == {"pinned", "pageable"}


def test_no_line_goes_through_times_of_too_many_ranks() -> None:
    some = line("pageable", 2e-5, 10.0)
    some[3] = replace(some[3], flags="oversubscribed; 2 of 3 launches")
    answer = only(LINE, *line("pinned", 1e-5, 50.0), *some)
    assert figures(answer)["pageable: latency"].status == "refused"
    assert "pageable: latency: refused, some of the times are oversubscribed" in answer.verdict
    assert figures(answer)["pinned: latency"].value == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({}, "0 sizes; 4 are needed"),
        (dict.fromkeys((4, 5, 6, 7), 1.0), "less than a factor of 64"),
        ({size: 1.0 / size for size in SIZES}, "do not take longer"),
        ({size: 1e-12 * size**1.5 for size in SIZES}, "no straight line"),
        ({size: 1e-9 * size**1.02 for size in SIZES[-5:]}, "latency below zero"),
    ],
)
def test_no_line_where_there_is_none(times: dict[int, float], why: str) -> None:
    assert why in fit(times).refused


def test_a_disturbed_size_moves_the_line_little() -> None:
    times = {size: 1e-5 + size / 50e9 for size in SIZES}
    disturbed = fit({**times, MIB: 1.2 * times[MIB]})
    assert not disturbed.refused and disturbed.bytes_per_s == pytest.approx(50e9, rel=0.05)


def test_the_limit_and_the_published_band_are_lines_of_the_chart() -> None:
    limits: dict[str, Any] = {
        "ceiling_gb_per_s": 57.6,
        "ceiling": "PCIe",
        "published": "50 to 55 GB/s",
        "published_low_gb_per_s": 50.0,
        "published_high_gb_per_s": 55.0,
    }
    rate = Compare(text="?", workload=COPY, unit="GB/s", note=beside_limit)
    rows = [copy(n / 50e9, "pinned", nbytes=n, **limits) for n in SIZES]
    answer = only(rate, *rows)
    assert answer.chart is not None
    assert [(rule.low, rule.high) for rule in answer.chart.rules] == [(57.6, None), (50.0, 55.0)]
    (figure,) = answer.figures
    assert (figure.unit, figure.note) == ("GB/s", "87% of 57.6 GB/s, PCIe")
    assert figure.value == pytest.approx(50.0)
    far = [copy(n / 1e9, "pinned", nbytes=n, **limits) for n in SIZES]
    answer = only(rate, *far)
    assert answer.chart is not None and answer.chart.rules == ()
    assert any("57.6 GB/s" in note for note in answer.notes)
    beyond = copy(MIB / 78e9, "pinned", **limits)
    answer = only(rate, beyond)
    (figure,) = answer.figures
    assert figure.note.startswith("above 57.6 GB/s, PCIe: ") and "%" not in str(figure)
    assert not any("57.6" in note for note in answer.notes), "no limit where it is exceeded"


# finding

EARLY = Finding(
    text="?", workload=COPY, also=("transfer.device_to_host",), finding="asynchronous",
    is_of_call=True,
)  # fmt: skip


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
    of_data = only(replace(EARLY, also=(), is_of_call=False), copy(0.1, "pinned"))
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
        (1.0, 1.2, "no", "no: not faster than serial: a and b"),
        (0.2, 0.3, "partly", "a is 5x faster than serial; how much it hides is not known (a: the"),
    ],
)
def test_the_best_way_and_never_a_control(a: float, b: float, state: str, said: str) -> None:
    answer = only(loops(), *whole(a, b, num=10))
    assert answer.state == state and answer.verdict.startswith(said)
    labels = figures(answer)
    assert "c, hidden share" not in labels and labels["ideal"].value == 0.4
    assert answer.chart is not None
    assert [one.x for one in answer.chart.points] == ["serial", "c", "a", "b", "copy"]


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


def launches(value: float, count: int = 10) -> dict[int, float]:
    return dict.fromkeys(range(count), value)


@pytest.mark.parametrize(
    ("loop_s", "share"), [(9.0, 1.0), (16.0, 0.0), (12.5, 0.5), (8.9, 1.0), (16.1, 0.0)]
)
def test_a_share_is_of_the_gain_that_is_possible(loop_s: float, share: float) -> None:
    """Also of launches that are slower in everything."""
    sides = ({n: s * (1 + n / 10) for n in range(10)} for s in (16.0, loop_s, 9.0))
    assert hidden_share("", *sides).value == pytest.approx(share)


NEAR = {n: 65.0 + n / 100 for n in range(9)}
NOISY = {n: 9.0 + 4 * (n % 2) - 1.9 for n in range(10)}


@pytest.mark.parametrize(
    ("serial", "loop", "ideal", "why"),
    [
        (launches(16.0, 9), {n: 9.0 + n / 2 for n in range(9)}, 9.0, "differ too much"),
        # The launches that hold all three say one share, the medians of all another.
        (
            {n: 16.0 if n < 8 else 12.0 for n in range(30)},
            launches(11.0, 8),
            9.0,
            "medians",
        ),
        (NOISY, NOISY, 9.0, "noise"),
        (launches(16.0), launches(15.0), {n: 9.0 if n else 15.9 for n in range(40)}, "in 1 of 10"),
        (launches(16.0), launches(9.0, 7), {}, "0 launch(es) hold all parts"),
        (launches(16.0), launches(7.0), 9.0, "beats the ideal"),
    ],
)
def test_a_share_that_means_nothing_is_not_said(
    serial: dict[int, float], loop: dict[int, float], ideal: Any, why: str
) -> None:
    at_best = ideal if isinstance(ideal, dict) else launches(ideal, 40)
    share = hidden_share("", serial, loop, at_best)
    assert share.value is None and why in str(share.reason)


def test_the_share_of_the_medians_is_the_one_that_is_said() -> None:
    share = hidden_share("", NEAR, launches(60.0, 9), launches(38.6, 9))
    assert share.value == pytest.approx((65.04 - 60.0) / (65.04 - 38.6))


def test_the_ideal_loops() -> None:
    """8 s each way and of compute: one copy engine needs 16 s for both ways, two 1 + 8 + 1."""
    assert [ideal_s(*parts) for parts in ((8, 8, 8), (8, 16, 8), (16, 8, 8), (5, 3, 1))] == [
        9.0, 17.0, 17.0, 8.0,
    ]  # fmt: skip
    assert [ideal_round_trip_s(8, 8, 8, 8, engines) for engines in (1, 2)] == [16.0, 10.0]


# rates over ranks

RANKS = "collectives.all_reduce"
BUS = Compare(text="?", workload=RANKS, **OF_BUS)
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
    assert (answer.state, answer.notes) == ("figure", ("At 16MiB.",))
    assert found["2 ranks"].value == pytest.approx(16 * MIB / 0.01 / GB)
    assert found["4 ranks"].value == pytest.approx(0.839, abs=0.001)
    assert str(found["4 ranks"]) == (
        "4 ranks 0.839 GB/s (50% (50% to 50%) of that of 2 ranks, oversubscribed)"
    )
    assert "1 rank" not in found, "one rank sends nothing"
    assert answer.chart is not None
    assert [(one.x, one.series) for one in answer.chart.points] == [
        (16.0 * MIB, "4 ranks"),
        (16.0 * MIB, "2 ranks"),
        (1.0 * MIB, "2 ranks"),
    ]


def test_one_number_of_ranks_is_its_figure_alone() -> None:
    answer = only(BUS, ranks(2, MIB, 0.001), ranks(2, KIB, 0.001))
    assert (answer.verdict, answer.notes) == ("2 ranks 1.05 GB/s", ("At 1MiB.",))
    crowded = only(BUS, ranks(4, MIB, 0.001, flags="oversubscribed"), ranks(1, MIB, 1e-5))
    assert crowded.verdict == "4 ranks 1.57 GB/s (oversubscribed)"


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
    assert answer.notes[1] == "Limit: 450 GB/s, NVLink, 18 links together."
    assert answer.notes[2].startswith("Published: 365 to 480 GB/s for H100")


def test_launches_that_scatter_establish_no_share_of_a_rate() -> None:
    """Those of a first `make bench`: 2 ranks 17 to 34 ms, 4 ranks 61 to 88 ms."""
    two, four = {0: 0.0170, 1: 0.0340, 2: 0.0296}, {0: 0.0667, 1: 0.0880, 2: 0.0611}
    rows = [ranks(n, 16 * MIB, median([*s.values()]), launches=s) for n, s in ((2, two), (4, four))]
    answer = only(BUS, *rows)
    assert (answer.state, verdicts(answer)) == ("figure", {"4 ranks": "undecided"})
    assert str(figures(answer)["4 ranks"]) == (
        "4 ranks 0.377 GB/s (undecided: too few launches, beside 2 ranks)"
    )
    alike = only(BUS, ranks(2, MIB, 0.01), ranks(4, MIB, 0.015))
    assert str(figures(alike)["4 ranks"]).endswith("(the same as 2 ranks)")


def test_a_larger_size_that_failed_is_named_beside_the_rate() -> None:
    answer = only(BUS, ranks(2, MIB, 0.001), ranks(2, 64 * MIB, None, **LOST))
    assert answer.notes == ("At 1MiB.",)
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
