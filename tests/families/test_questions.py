"""What each family's questions say: of the simulated device, whose answers are known, and of links
whose facts are given."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostbench import families
from hostbench.core.case import AxisValue, Case
from hostbench.core.errors import UsageError
from hostbench.core.records import CaseRecord, Measurement
from hostbench.core.units import KIB, MIB
from hostbench.families.question import Compare, Curve, Figure, Finding, Question, Row, Scaling
from hostbench.limits import published
from hostbench.report.answer import Answer
from hostbench.report.questions import answers, answers_to, asked, check, rows_of
from tests import answers as golden
from tests.answers import repeated, simulated
from tests.fakes.builders import FACTS, copy_case, failed, record, run, skipped
from tests.stored import frame_of

COPY = "transfer.host_to_device"
PINNED = "Do copies from pinned memory hide behind compute?"
PAGEABLE = "Do copies from pageable memory hide behind compute?"
SNIPPET = "Does a copy stream overlap anything from pageable memory?"
CROSSINGS = tuple(
    f"From which size is pinned memory faster, {way}?"
    for way in ("host to device", "device to host")
)
ASYNC = "Is non_blocking=True from {} memory asynchronous?"
LINK = "Is my link fine?"
PAYS = "Does pinned memory pay?"


def asked_of(
    records: Sequence[CaseRecord],
    during: Any = None,
    folder: Path = Path("nowhere"),
    **changes: Any,
) -> dict[str, Answer]:
    part = run(records, **{"launches": 10, "device": "simulated", **changes})
    if during:
        part = replace(part, facts={**part.facts, "during": during})
    found = answers(rows_of(frame_of(part, folder)))
    by_question = {one.question: one for one in found}
    assert len(by_question) == len(found)
    return by_question


def figure(answer: Answer, label: str) -> Figure:
    (found,) = (one for one in answer.figures if one.label == label)
    return found


def value(answer: Answer, label: str) -> float:
    found = figure(answer, label).value
    assert found is not None
    return found


def verdict(answer: Answer, label: str) -> tuple[str, float]:
    """The rule's word, and the factor to three digits."""
    ratio = figure(answer, label).ratio
    assert ratio is not None
    return ratio.conclusion.verdict, float(f"{ratio.conclusion.factor:.3g}")


@pytest.mark.parametrize("family", families.names())
def test_every_workload_is_asked_about_by_names_that_are_declared(family: str) -> None:
    """A misspelt axis or value would be a question that no run ever answers."""
    own, everything = families.questions(family), asked(family)
    for ask in own:
        check(ask)
    texts = [ask.text for ask in everything]
    assert texts[: len(own)] == [ask.text for ask in own] and len({*texts}) == len(texts)
    works = families.load((family,))
    assert {name for ask in everything for name in (ask.workload, *ask.also)} == set(works)
    for work in works.values():
        base = work.base()
        assert all(base[axis] in work.axes[axis] for axis in base), work.name


compare = partial(Compare, text="?", workload=COPY)
finding = partial(Finding, text="?", workload=COPY, finding="asynchronous")


@pytest.mark.parametrize(
    "question, said",
    [
        (compare(where={"mem": "pinned"}), "names the axis 'mem'; there are"),
        (compare(baseline={"mem": 1}), "names the axis 'mem'"),
        (compare(claim={"memory": "pin"}, over="nbytes"), "is never 'pin'"),
        (Curve(text="?", workload="allocation.batch", fits=()), "has no axis ...bytes"),
        (finding(also=("a.b",)), "'a.b', which is no workload"),
        (Scaling(text="?", workload=COPY), "names the axis 'num_ranks'"),
    ],
)
def test_a_name_that_a_workload_lacks_is_said(question: Question, said: str) -> None:
    with pytest.raises(UsageError) as error:
        check(question)
    assert said in str(error.value)


BREAK_EVEN = "After how many copies has pinning a tensor paid?"


def test_what_the_simulated_device_is_said_to_do() -> None:
    """Every answer and figure of every family that it measures."""
    assert [*golden.lines()] == golden.GOLDEN.read_text().splitlines(), (
        "an answer has changed. If it shall be so, run `python -m tests.answers`"
    )


def reduced(kind: str, num_ranks: int, nbytes: int, seconds: float, **more: Any) -> Row:
    name = f"collectives.{kind}"
    axes: dict[str, AxisValue] = {"num_ranks": num_ranks, "nbytes": nbytes}
    return Row(
        family="collectives",
        workload=name,
        case=str(Case.of(name, {"device": "cuda", **axes})),
        axes=axes,
        device="cuda",
        seconds=seconds,
        nbytes=nbytes,
        **{"status": "ok", **more},
    )


def test_the_bus_bandwidth_with_a_synchronize_each_and_of_a_queue() -> None:
    """The queue's is that of nccl-tests; both at the largest size."""
    rows = [
        reduced("all_reduce", 2, 512 * MIB, 4e-3),
        reduced("all_reduce_queued", 2, 512 * MIB, 2e-3),
        reduced("all_reduce", 2, 4 * KIB, 3e-5),
        reduced("all_reduce_queued", 2, 4 * KIB, 1e-5),
    ]
    scale, queued, small, saved, *_ = (
        one for ask in asked("collectives") for one in answers_to(ask, rows)
    )
    for answer, seconds in ((scale, 4e-3), (queued, 2e-3)):
        assert answer.notes == ("At 512MiB.",)
        assert value(answer, "2 ranks") == pytest.approx(512 * MIB / seconds / 1e9)
    assert value(small, "2 ranks") == 3e-5
    (only,) = saved.figures
    assert only.ratio is not None and only.ratio.to == "one each (30 us)"
    assert only.ratio.conclusion.factor == pytest.approx(3.0)


def over_two(kind: str, seconds: float, findings: dict[str, Any] | None = None, **axes: Any) -> Row:
    """Of ten launches alike."""
    launches = dict.fromkeys(range(10), seconds)
    row = reduced(kind, 2, MIB, seconds, launches=launches, findings=findings or {})
    return row.with_axes(**axes)


@pytest.mark.parametrize("num_ranks", [3, 24, 1024])
def test_a_world_of_any_size_has_latency_and_bandwidth(num_ranks: int) -> None:
    axes = {"operation": "broadcast", "dtype": "float32", "backend": "nccl"}
    rows = [
        reduced("operation", num_ranks, nbytes, 1e-4 + nbytes / 1e10).with_axes(**axes)
        for nbytes in (4 * KIB, 64 * KIB, MIB, 16 * MIB)
    ]
    by_text = {one.question: one for ask in asked("collectives") for one in answers_to(ask, rows)}
    answer = by_text["Latency and bandwidth of broadcast"]
    assert value(answer, f"{num_ranks} ranks: latency") == pytest.approx(1e-4)


def test_operations_stand_beside_all_reduce_with_what_they_send() -> None:
    """On the wire reduce-scatter of gloo sends all of S, where half would do."""
    sent = {"sends_as_documented": True, "most_sent_bytes": MIB}
    more = {"operation": "reduce_scatter_tensor", "dtype": "float32", "backend": "gloo"}
    rows = [over_two("all_reduce", 1e-3), over_two("operation", 0.5e-3, sent, **more)]
    by_text = {one.question: one for ask in asked("collectives") for one in answers_to(ask, rows)}
    beside = by_text["What do other collectives cost over 2 ranks, beside an all-reduce?"]
    assert beside.verdict == "reduce-scatter is 2x faster than all-reduce (1 ms)"
    scale = by_text["Which bus bandwidth has reduce-scatter, by ranks?"]
    assert value(scale, "2 ranks") == pytest.approx(MIB / 0.5e-3 / 2 / 1e9)
    wire = by_text["Does each rank send as many bytes as documented?"]
    (figures,) = wire.figures
    assert (wire.state, figures.value) == ("yes", 1.0)
    assert figures.note == "2.00 of what bus bandwidth counts"


def test_one_way_to_send_is_not_called_the_cheapest() -> None:
    def sent(way: str) -> Row:
        axes: dict[str, Any] = {"way": way, "stride": 1, "direction": "both_ways"}
        row, name = over_two("all_reduce", 1e-3, **axes), "point_to_point.pair"
        return dataclasses.replace(row, workload=name, case=str(Case(name, dict(row.axes))))

    def texts(*rows: Row) -> set[str]:
        return {one.question for ask in asked("point_to_point") for one in answers_to(ask, rows)}

    which = {"Which way to send both ways is cheapest?"}
    assert which.isdisjoint(texts(sent("batch"))) and which <= texts(sent("batch"), sent("x"))


def test_what_hides_and_who_is_late() -> None:
    seconds = {"communicate_only": 1.0, "compute_only": 1.0, "serial": 2.0, "overlapped": 1.2}
    loops = [over_two("with_compute", each, schedule=name) for name, each in seconds.items()]
    findings = {
        "late_rank_named": True, "last_rank": "rank 1", "transfer_s": 0.5e-3, "waiting_s": 1e-3,
    }  # fmt: skip
    rows = [*loops, over_two("arrival", 2e-3, findings, late_us=1000)]
    by_text = {one.question: one for ask in asked("collectives") for one in answers_to(ask, rows)}
    hides = by_text["Does an all-reduce hide behind compute?"]
    assert hides.verdict.startswith("yes: compute beside the all-reduce hides 80 %")
    late = by_text["Is a rank that comes 1 ms late named?"]
    assert (late.state, late.figures[0].value) == ("yes", 0.5e-3)
    assert late.figures[0].note == "after 1 ms of waiting for rank 1"


def test_a_size_that_is_not_async_is_named() -> None:
    def odd(one: CaseRecord) -> CaseRecord:
        axes = one.case.values
        if axes["nbytes"] not in (4 * KIB, 16 * KIB) or axes.get("memory") != "pinned":
            return one
        found = {**one.measurement.findings, "asynchronous": False}
        return replace(one, measurement=replace(one.measurement, findings=found))

    plain = [
        odd(one) for one in simulated("transfer") if one.case.workload == "transfer.host_to_device"
    ]
    answer = asked_of(plain)[ASYNC.format("pinned")]
    assert answer.state == "partly"
    assert answer.verdict == (
        "not always: async at 1KiB, not async from 4KiB to 16KiB, async from 64KiB to 1GiB"
    )


@pytest.mark.parametrize("lost", [failed, skipped])
def test_a_direction_without_a_number_is_named(lost: Callable[[Case, str], CaseRecord]) -> None:
    plain = ("transfer.host_to_device", "transfer.device_to_host")
    records = [
        lost(one.case, "no such copy") if one.case.workload == plain[1] else one
        for one in simulated("transfer")
        if one.case.workload in plain
    ]
    found = asked_of(repeated(records))
    status = "failed" if lost is failed else "skipped"
    there, back = (found[question] for question in CROSSINGS)
    assert there.state == "partly"
    assert (back.state, back.verdict) == ("unavailable", f"{status}: no such copy")
    answer = found[ASYNC.format("pinned")]
    assert answer.state == "partly"
    assert f"device to host unknown ({status}: no such copy)" in answer.verdict
    link = found[LINK]
    assert link.state == "partly"
    assert figure(link, "device to host").status == status
    none = asked_of([lost(one.case, "no such copy") for one in records])
    assert {one.state for one in none.values()} == {"unavailable"}
    assert {one.verdict for one in none.values()} == {f"{status}: no such copy"}


def test_a_quick_run_answers_what_it_can() -> None:
    """A curve to the device, none back; no serial loop from pageable memory, so no share of it."""
    works = families.load()
    quick = [
        one
        for one in simulated("transfer") + simulated("overlap")
        if works[one.case.workload].options(one.case).quick
    ]
    assert set(asked_of(repeated(quick, 3))) == {
        "How fast is a copy, host to device?",
        "How fast is a copy, device to host?",
        ASYNC.format("pageable"),
        ASYNC.format("pinned"),
        PAYS,
        LINK,
        "Latency and bandwidth by size, host to device",
        "From which size is pinned memory faster, host to device?",
        PINNED,
        SNIPPET,
    }


WHERE = "Where the time of {} goes, created on the CPU and moved"


def test_parts_that_were_not_measured_are_named() -> None:
    wanted = ("allocation.create", "allocation.part")
    chosen = [one for one in repeated(simulated("allocation")) if one.case.workload in wanted]
    found = asked_of([one for one in chosen if one.case.values.get("part") != "host_memory"])
    answer = found[WHERE.format("zeros")]
    assert figure(answer, "the host's memory").status == "not measured"
    assert value(answer, "zeros") + value(answer, "the copy") == pytest.approx(1.0, rel=0.01)
    only = [
        one for one in repeated(simulated("allocation")) if one.case.workload == "allocation.create"
    ]
    assert WHERE.format("zeros") not in asked_of(only)


def test_where_the_device_works_in_host_memory_its_memory_is_the_hosts() -> None:
    records = [
        replace(one, case=Case(one.case.workload, {**one.case.values, "device": "cpu"}))
        for one in repeated(simulated("allocation"))
        if one.case.values.get("memory") != "device"
    ]
    answer = asked_of(records, device="cpu")[WHERE.format("zeros")]
    assert value(answer, "the device's memory") == value(answer, "the host's memory") > 0


FRAGMENTS = "How much is reserved at the peak for what is allocated, where {}?"


def mixed(setting: str, ms: float, room: str = "free", **counted: int | None) -> list[CaseRecord]:
    case = Case("allocation.mixed", {"device": "cuda", "setting": setting, "room": room})
    findings: dict[str, Any] = {"peak_allocated": 100 * MIB, "num_alloc_retries": 0, **counted}
    told = Measurement(findings=findings)
    return [
        record(case, launch, (ms + launch / 100) / 1e3, measurement=told) for launch in range(10)
    ]


def test_what_fragmentation_costs_and_what_helps() -> None:
    records = [
        *mixed("default", 8.0, peak_reserved=250 * MIB, peak_inactive_split=40 * MIB),
        *mixed("expandable_segments", 4.0, peak_reserved=110 * MIB, peak_inactive_split=0),
        *mixed("max_split_size", 8.0, peak_reserved=300 * MIB, num_alloc_retries=2),
        *mixed("default", 9.0, room="tight", peak_reserved=None),
    ]
    found = asked_of(records, device="cuda")
    answer = found[FRAGMENTS.format("there is room")]
    assert answer.verdict == (
        "default 2.5x, expandable_segments:True 1.1x and max_split_size_mb:32 3x"
    )
    assert figure(answer, "default").note == (
        "250MiB for 100MiB; up to 40MiB free in segments that are in use; all of it takes 8.04 ms"
    )
    assert "given back 2 times" in figure(answer, "max_split_size_mb:32").note
    said, factor = verdict(answer, "expandable_segments:True")
    assert said == "faster" and factor == pytest.approx(2.0, rel=0.01)
    assert answer.chart is not None and len(answer.chart.points) == 3
    assert found[FRAGMENTS.format("memory is tight")].state == "undecided"


def batches(times_ms: dict[int, float], noise: float = 0.001) -> list[CaseRecord]:
    """Whose peak is 4MiB, and 10KiB an example. Each has a noise of its own."""
    return [
        record(
            Case("allocation.batch", {"device": "cuda", "num_examples": num}),
            launch,
            ms / 1e3 * (1 + noise * ((launch + num // 9) * 7 % 10 - 4.5)),
            measurement=Measurement(findings={"peak_allocated": 4 * MIB + num * 10 * KIB}),
        )
        for num, ms in times_ms.items()
        for launch in range(10)
    ]


GAINS = "What does a larger batch gain in time, and cost in memory?"


@pytest.mark.parametrize(
    ("times_ms", "noise", "said"),
    [
        (
            {1: 1.0, 16: 2.0, 64: 8.0},
            0.001,
            "16 examples: 8,000 items/s, and more is no faster; slower: 1 example 8x",
        ),
        ({1: 1.0, 16: 16.0}, 0.2, "undecided: launches vary 180 %"),
    ],
)
def test_what_a_larger_batch_gains(times_ms: dict[int, float], noise: float, said: str) -> None:
    answer = asked_of(batches(times_ms, noise), device="cuda")[GAINS]
    assert answer.verdict == said
    assert value(answer, "16 examples") == pytest.approx(16e3 / times_ms[16], rel=noise)
    assert "peak 4.16MiB" in figure(answer, "16 examples").note


# is my link fine?

NBYTES = 1 << 28
BUSY = {"gpu0": {"pcie_generation": 5, "pcie_width": 16, "throttle_reasons": "none"}}
H200: dict[str, Any] = {
    "name": "NVIDIA H200",
    "pcie_generation": 1,
    "pcie_width": 16,
    "pcie_max_generation": 5,
    "pcie_max_width": 16,
    "pcie_gpu_max_generation": 5,
}
V100 = {**H200, "name": "Tesla V100", "pcie_max_generation": 3, "pcie_gpu_max_generation": 3}
C2C = {"c2c_enabled": "on", "c2c_max_mb_per_s": 450_000}
GH200, X1 = {**C2C, "name": "NVIDIA GH200 480GB"}, {**C2C, "name": "NVIDIA X1"}
HIDDEN = {
    **{name: {"value": None, "why": "a vGPU does not tell"} for name in H200},
    "name": "NVIDIA X1",
    "virtualization": "vgpu",
}
BOTH_LIMITS = (
    "96% of 57.6 GB/s, PCIe Gen5 x16, 256-byte packets; 88% of the encoded 63 GB/s; published: "
    "55.43 GB/s for H200 (https://github.com/stas00/ml-engineering network/README.md)"
)
UNREADABLE = "its limit: the link cannot be read: a vGPU does not tell"
NOTHING_SAYS = "nothing in the facts says why: look at NUMA placement and other traffic"


def link_copies(rates: dict[str, float], device: str = "cuda", memory: str = "pinned") -> Any:
    """Eight launches of a blocking copy of 256MiB for each workload, at so many GB/s."""
    return [
        record(link_copy(name, device, memory), launch, NBYTES / (rate * 1e9))
        for name, rate in rates.items()
        for launch in range(8)
    ]


def link_copy(name: str, device: str = "cuda", memory: str = "pinned") -> Case:
    return copy_case(f"transfer.{name}", device=device, nbytes=NBYTES, memory=memory)


def linked(folder: Path, gpu: dict[str, Any], during: Any, *rates: float) -> Answer:
    ways = dict(zip(("host_to_device", "device_to_host"), rates, strict=False))
    facts = {**FACTS, "gpu0": gpu}
    return asked_of(link_copies(ways), during, folder, facts=facts, device="cuda")[LINK]


@pytest.mark.parametrize(
    ("gpu", "during", "rates", "state", "note"),
    [
        pytest.param(H200, BUSY, (55.4, 55.1), "yes", BOTH_LIMITS, id="healthy"),
        pytest.param(HIDDEN, None, (20,), "undecided", UNREADABLE, id="cannot be read"),
        pytest.param(H200, BUSY, (40.0, 30), "no", NOTHING_SAYS, id="slow"),
        pytest.param(H200, BUSY, (55.4, 30), "partly", NOTHING_SAYS, id="slow one way"),
        pytest.param(
            H200,
            {"gpu0": {**BUSY["gpu0"], "throttle_reasons": "power-cap"}},
            (55.4, 55.1),
            "yes",
            "gpu0: throttled while copies ran (power-cap)",
            id="throttled, which is no fault of the link",
        ),
        pytest.param(V100, None, (9.5, 9.4), "no", NOTHING_SAYS, id="a floor proves no health"),
        pytest.param(GH200, None, (350, 297), "yes", None, id="C2C as published"),
        pytest.param(X1, None, (350, 297), "undecided", None, id="C2C of which nothing is known"),
        pytest.param(H200, BUSY, (55.4,), "yes", None, id="one direction"),
    ],
)
def test_the_link_is_judged_by_what_it_can_carry(
    tmp_path: Path,
    gpu: dict[str, Any],
    during: Any,
    rates: tuple[float, ...],
    state: str,
    note: str | None,
) -> None:
    answer = linked(tmp_path, gpu, during, *rates)
    assert answer.state == state
    assert note is None or any(note in figure.note for figure in answer.figures)
    assert [figure.value for figure in answer.figures] == pytest.approx(list(rates))


@pytest.mark.parametrize(
    ("rates", "state"),
    [((55.4, 55.3) * 4, "yes"), ((55.4, 49.0) * 4, "undecided"), ((55.4,) * 6, "undecided")],
)
def test_launches_on_both_sides_of_the_limit_leave_the_link_undecided(
    rates: tuple[float, ...], state: str
) -> None:
    """90 % of what Gen5 x16 carries is 51.8 GB/s."""
    facts = {**FACTS, "gpu0": {**H200, "name": "NVIDIA X1"}}
    records = [
        record(link_copy("host_to_device"), launch, NBYTES / (rate * 1e9))
        for launch, rate in enumerate(rates)
    ]
    answer = asked_of(records, BUSY, facts=facts, device="cuda")[LINK]
    assert answer.state == state
    few = "7 tell more: hostbench run --launches 7" in answer.figures[0].note
    assert few == (len(rates) < 7)


def test_how_many_copies_is_said_only_where_the_launches_agree() -> None:
    """What pinning costs differs from launch to launch, by 9 copies and more."""
    plain = [
        one
        for one in simulated("transfer")
        if one.case.workload.endswith(("host_to_device", "and_copy"))
    ]

    def noisy(one: CaseRecord, launch: int) -> CaseRecord:
        is_cold = one.case.values.get("cache") == "cold"
        factor = (1.0, 2.5, 0.6)[launch % 3] if is_cold else 1.0
        return replace(one, launch=launch, seconds=(one.seconds or 0.0) * factor)

    records = [noisy(one, launch) for launch in range(9) for one in plain if one.status == "ok"]
    answer = asked_of(records)[BREAK_EVEN]
    assert {(one.value, one.status) for one in answer.figures} == {(None, "undecided")}
    assert answer.state == "undecided" and "launches differ" in answer.verdict


@pytest.mark.parametrize(
    ("kind", "rate", "state"),
    [("floor", 299, "no"), ("floor", 400, "undecided"), ("measured", 310, "yes")],
)
def test_what_is_published_decides_where_no_limit_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, rate: float, state: str
) -> None:
    """A floor without a packet model only refutes."""
    about: dict[str, Any]
    about = {"hardware": "X1", "words": ("x1",), "link": "C2C", "direction": "host_to_device"}
    about |= {"low_gb_per_s": 300, "high_gb_per_s": 320, "kind": kind, "source": "our lab"}
    figure = published.PublishedFigure(**about)
    monkeypatch.setattr(published, "shipped", lambda: (figure,))
    answer = linked(tmp_path, X1, None, rate)
    assert answer.state == state
    assert "for X1 (our lab)" in answer.figures[0].note
