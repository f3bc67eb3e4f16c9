"""What each family's questions say: of the simulated device, whose answers are known, and of cases
made by hand."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from hostbench import families
from hostbench.core.case import Case
from hostbench.core.errors import UsageError
from hostbench.core.records import CaseRecord
from hostbench.core.units import GB, KIB, MIB
from hostbench.families.question import Compare, Curve, Finding, Question, Row, Scaling
from hostbench.limits import published
from hostbench.report.questions import answers, asked, check, rows_of
from tests import answers as golden_answers
from tests import golden
from tests.answers import COPY, printed, repeated, row, simulated
from tests.fakes.builders import FACTS, copy_case, failed, record, run, skipped
from tests.stored import frame_of


@pytest.mark.parametrize("family", families.known())
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
        (finding(also=("a.b",)), "'a.b', which is not a workload"),
        (Scaling(text="?", workload=COPY), "names the axis 'num_ranks'"),
    ],
)
def test_a_name_that_a_workload_lacks_is_said(question: Question, said: str) -> None:
    with pytest.raises(UsageError) as error:
        check(question)
    assert said in str(error.value)


def test_what_the_simulated_device_is_said_to_do() -> None:
    """Every answer and figure of every family that it measures."""
    golden.check("answers", golden_answers.lines())


# ---- cases made by hand -------------------------------------------------------------------------


def rows_from(records: Sequence[CaseRecord], during: Any = None, **changes: Any) -> list[Row]:
    """As a run of these records has them."""
    part = run(records, **{"launches": 10, "device": "simulated", **changes})
    return rows_of(frame_of(replace(part, facts={**part.facts, "during": during or {}})))


ranks = partial(row, num=10, num_ranks=2)
reduced = partial(ranks, workload="collectives.all_reduce")
operation = partial(ranks, workload="collectives.operation", dtype="float32")
pair = partial(ranks, 1e-3, workload="point_to_point.pair", stride=1, direction="both_ways")
trained = partial(ranks, device="cpu", nbytes=None)
HELD = {"parameter_bytes": 4096, "gradient_bytes": 4096, "optimizer_bytes": 2048}


def over_ranks() -> Iterator[tuple[str, str, list[Row]]]:
    queued = partial(ranks, workload="collectives.all_reduce_queued")
    yield "a synchronize each, and of a queue, which nccl-tests has", "", [
        reduced(4e-3, nbytes=512 * MIB), queued(2e-3, nbytes=512 * MIB),
        reduced(3e-5, nbytes=4 * KIB), queued(1e-5, nbytes=4 * KIB),
    ]  # fmt: skip
    yield "a world of any size has latency and bandwidth", "Latency and", [
        operation(1e-4 + n / 1e10, nbytes=n, num_ranks=num, operation="broadcast")
        for num in (3, 24, 1024) for n in (4 * KIB, 64 * KIB, MIB, 16 * MIB)
    ]  # fmt: skip
    sent = {"sends_as_documented": True, "most_sent_bytes": MIB}
    yield (
        "reduce-scatter of gloo sends all, where half would do",
        "",
        [
            reduced(1e-3),
            operation(5e-4, operation="reduce_scatter_tensor", backend="gloo", findings=sent),
        ],
    )
    yield "one way to send is not called the cheapest", "cheapest", [pair(way="batch")]
    yield "two ways to send", "cheapest", [pair(way="batch"), pair(way="x")]
    loops = {"communicate_only": 1.0, "compute_only": 1.0, "serial": 2.0, "overlapped": 1.2}
    late = {"late_rank_named": True, "last_rank": "rank 1", "transfer_s": 5e-4, "waiting_s": 1e-3}
    yield "what hides and who is late", "", [
        *(ranks(own, workload="collectives.with_compute", schedule=name)
          for name, own in loops.items()),
        ranks(2e-3, workload="collectives.arrival", late_us=1000, findings=late),
    ]  # fmt: skip


def of_training() -> Iterator[tuple[str, str, list[Row]]]:
    step = partial(trained, workload="training.step", dtype="float32")
    step = partial(step, findings={**HELD, "held_by_formula": True})
    for batch in ("per_rank", "total"):
        yield (
            f"half of the speed of one process, batch {batch}",
            "scale",
            [
                step(0.010, num_ranks=1, wrap="plain", batch=batch),
                *(step(0.020, num_ranks=n, wrap="ddp", batch=batch) for n in (2, 4)),
            ],
        )
    for what, step_s in (("4 ms of 10 ms are exposed", 0.014), ("less than its parts", 0.009)):
        parts = {"step": step_s, "compute": 0.010, "optimizer": 0.001, "communication": 0.010}
        yield (
            f"a step of {step_s * 1e3:.0f} ms: {what}",
            "hide",
            [
                trained(own, workload="training.exposed", wrap="ddp", part=part)
                for part, own in parts.items()
            ],
        )
    buckets = {1: 0.030, 5: 0.020, 25: 0.020, 100: 0.020}
    fed = {"wait_rank_0": 0.25, "wait_rank_1": 0.5}
    yield "what a rank holds and waits, and which buckets are enough", "", [
        step(0.010, num_ranks=1, wrap="plain", batch="per_rank"),
        step(0.020, wrap="zero1", batch="per_rank"),
        *(trained(own, workload="training.input", num_workers=n, findings=fed)
          for n, own in ((0, 0.030), (2, 0.020))),
        *(trained(own, workload="training.bucket", bucket_cap_mb=n, gradient_as_bucket_view=True)
          for n, own in buckets.items()),
    ]  # fmt: skip


def of_copies() -> Iterator[tuple[str, str, list[Row]]]:
    def not_async(one: CaseRecord) -> CaseRecord:
        axes = one.case.values
        if axes["nbytes"] not in (4 * KIB, 16 * KIB) or axes.get("memory") != "pinned":
            return one
        findings = {**one.measurement.findings, "asynchronous": False}
        return replace(one, measurement=replace(one.measurement, findings=findings))

    back = "transfer.device_to_host"
    both = [one for one in simulated("transfer") if one.case.workload in (COPY, back)]
    there = [one for one in both if one.case.workload == COPY]
    yield "sizes that are not async", "pinned memory async", rows_from([*map(not_async, there)])
    lost: Callable[..., CaseRecord]
    for lost in (failed, skipped):
        one_way = [one if one in there else lost(one.case, "no such copy") for one in both]
        asks = "which size|pinned memory async|link"
        yield f"no copy back: {lost.__name__}", asks, rows_from(repeated(one_way))
        none = [lost(one.case, "no such copy") for one in both]
        yield f"no copy at all: {lost.__name__}", "", rows_from(none)
    works, measured = families.load(), [*simulated("transfer"), *simulated("overlap")]
    quick = [one for one in measured if works[one.case.workload].options(one.case).quick]
    yield (
        "a quick run: no curve back, no serial loop of pageable memory, so no share of it",
        "",
        (rows_from(repeated(quick, 3))),
    )

    def scattered(one: CaseRecord, launch: int) -> CaseRecord:
        factor = (1.0, 2.5, 0.6)[launch % 3] if one.case.values.get("cache") == "cold" else 1.0
        return replace(one, launch=launch, seconds=(one.seconds or 0.0) * factor)

    plain = [
        one for one in simulated("transfer")
        if one.case.workload.endswith(("host_to_device", "and_copy")) and one.status == "ok"
    ]  # fmt: skip
    noisy = [scattered(one, launch) for launch in range(9) for one in plain]
    yield "what pinning costs differs by 9 copies and more", "copies has", rows_from(noisy)


def of_memory() -> Iterator[tuple[str, str, list[Row]]]:
    works = ("allocation.create", "allocation.part")
    parts = [one for one in repeated(simulated("allocation")) if one.case.workload in works]
    some = [one for one in parts if one.case.values.get("part") != "host_memory"]
    yield "a part that was not measured", "time of zeros", rows_from(some)
    none = [one for one in parts if one.case.workload == works[0]]
    yield "no part was measured", "time of zeros", rows_from(none)
    on_cpu = [
        replace(one, case=Case(one.case.workload, {**one.case.values, "device": "cpu"}))
        for one in parts
        if one.case.values.get("memory") != "device"
    ]
    yield "the device's memory is the host's", "time of zeros", rows_from(on_cpu, device="cpu")

    def mixed(setting: str, seconds: float, room: str = "free", **counted: int | None) -> Row:
        findings = {"peak_allocated": 100 * MIB, "num_alloc_retries": 0, **counted}
        axes = {"setting": setting, "room": room, "nbytes": None}
        return row(seconds, workload="allocation.mixed", findings=findings, **axes)

    yield (
        "what fragmentation costs and what helps",
        "cost and reserve",
        [
            mixed("default", 8e-3, peak_reserved=250 * MIB, peak_inactive_split=40 * MIB),
            mixed("expandable_segments", 4e-3, peak_reserved=110 * MIB, peak_inactive_split=0),
            mixed("max_split_size", 8e-3, peak_reserved=300 * MIB, num_alloc_retries=2),
            mixed("default", 9e-3, room="tight", peak_reserved=None),
        ],
    )
    for noise, times in ((0.001, {1: 1e-3, 16: 2e-3, 64: 8e-3}), (0.2, {1: 1e-3, 16: 16e-3})):
        yield f"what a larger batch gains where launches differ by {noise:.1%}", "larger batch", [
            row(own, workload="allocation.batch", num_examples=num, nbytes=None,
                findings={"peak_allocated": 4 * MIB + num * 10 * KIB},
                launches={n: own * (1 + noise * ((n + num // 9) * 7 % 10 - 4.5))
                          for n in range(10)})
            for num, own in times.items()
        ]  # fmt: skip


def of_reads() -> Iterator[tuple[str, str, list[Row]]]:
    """A claim is as sure as the launches."""
    read = partial(row, workload="synchronization.loop", nbytes=None)
    for item in ([30e-6, 31e-6], [10e-6, 10.1e-6], [10e-6, 19e-6, 8e-6]):
        times = {(10, "none"): [10e-6], (10, "item"): item}
        times |= {(1000, "none"): [1e-3], (1000, "item"): [1e-3]}
        yield f".item() after steps of 10 us: {item}", "without .item", [
            read(own[0], step_us=step_us, trap=trap,
                 launches={n: own[n % len(own)] for n in range(10)})
            for (step_us, trap), own in times.items()
        ]  # fmt: skip


def of_loops() -> Iterator[tuple[str, str, list[Row]]]:
    loop = partial(row, workload="overlap.pipeline", nbytes=None, memory="pinned")
    yield "small batches, whose calls take as long as the loop", "batch size", [
        loop(own, batch_bytes=nbytes, schedule=schedule, call_s=call_s,
             findings={"syncs_per_step": 16 * (schedule == "serial")})
        for nbytes, schedule, own, call_s in (
            (512 * KIB, "serial", 500e-6, 499e-6), (512 * KIB, "copy_stream", 350e-6, 304e-6),
            (512 * KIB, "graph", 120e-6, 12e-6), (32 * MIB, "serial", 11e-3, 11e-3),
            (32 * MIB, "copy_stream", 6e-3, 304e-6), (32 * MIB, "graph", 6e-3, 12e-6),
        )
    ]  # fmt: skip


# is my link fine?

NBYTES = 1 << 28
BUSY = {"gpu0": {"pcie_generation": 5, "pcie_width": 16, "throttle_reasons": "none"}}
CAPPED = {"gpu0": {**BUSY["gpu0"], "throttle_reasons": "power-cap"}}
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
}


def linked(gpu: dict[str, Any], during: Any, *rates: float | tuple[float, ...]) -> list[Row]:
    """Eight launches of a blocking copy of 256MiB each way, at so many GB/s; or these launches."""
    records = [
        record(copy_case(f"transfer.{way}", device="cuda", nbytes=NBYTES, memory="pinned"), launch,
               NBYTES / (own * GB))
        for way, rate in zip(("host_to_device", "device_to_host"), rates, strict=False)
        for launch, own in enumerate(rate if isinstance(rate, tuple) else (rate,) * 8)
    ]  # fmt: skip
    return rows_from(records, during, facts={**FACTS, "gpu0": gpu}, device="cuda")


def of_links() -> Iterator[tuple[str, str, list[Row]]]:
    unknown = {**H200, "name": "NVIDIA X1"}
    for name, rows in {
        "healthy": linked(H200, BUSY, 55.4, 55.1),
        "cannot be read": linked(HIDDEN, None, 20),
        "slow": linked(H200, BUSY, 40.0, 30),
        "slow one way": linked(H200, BUSY, 55.4, 30),
        "throttled, which is no fault of the link": linked(H200, CAPPED, 55.4, 55.1),
        "a floor proves no health": linked(V100, None, 9.5, 9.4),
        "C2C as published": linked(GH200, None, 350, 297),
        "C2C of which nothing is known": linked(X1, None, 350, 297),
        "one direction": linked(H200, BUSY, 55.4),
        "launches above 51.8 GB/s, 90 % of it": linked(unknown, BUSY, (55.4, 55.3) * 4),
        "launches on both sides of it": linked(unknown, BUSY, (55.4, 49.0) * 4),
        "few launches": linked(unknown, BUSY, (55.4,) * 6),
    }.items():
        yield f"a link: {name}", "link", rows
    about: dict[str, Any]
    about = {"hardware": "X1", "words": ("x1",), "link": "C2C", "direction": "host_to_device"}
    about |= {"low_gb_per_s": 300, "high_gb_per_s": 320, "source": "our lab"}
    for kind, rate in (("floor", 299), ("floor", 400), ("measured", 310)):
        own = published.PublishedFigure(**{**about, "kind": kind})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(published, "shipped", lambda own=own: (own,))
            yield (
                f"a link: {rate} GB/s where a figure of 300 to 320 is published, {kind}",
                "link",
                linked(X1, None, rate),
            )


def lines() -> Iterator[str]:
    for cases in (over_ranks, of_training, of_copies, of_memory, of_reads, of_loops, of_links):
        for name, asks, rows in cases():
            yield name
            chosen = [one for one in answers(rows) if re.search(asks, one.question)]
            assert len({one.question for one in chosen}) == len(chosen)
            for answer in chosen:
                yield f"  {answer.question}"
                yield from printed(answer)


def test_what_is_said_of_cases_made_by_hand() -> None:
    golden.check("asked", lines())
