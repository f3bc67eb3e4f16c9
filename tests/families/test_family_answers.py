"""What the families transfer and overlap say of the simulated device, whose answers are known."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from hostbench.core.case import AxisValue, Case
from hostbench.core.records import CaseRecord
from hostbench.device.simulated import Link
from hostbench.families import load
from hostbench.report.answer import answers
from hostbench.report.conversions import hidden
from hostbench.report.side_stream import QUESTION as SNIPPET
from hostbench.store import archive, frame
from hostbench.testing.builders import failed, run, simulated_records, skipped

PINNED = "Do copies from pinned memory hide behind compute?"
PAGEABLE = "Do copies from pageable memory hide behind compute?"
RATIO = "At which ratio of compute to copy does overlap pay most?"
ORDERING = "How to keep copy and compute in order: which way costs least?"
CROSSOVER = "From which size on is pinned memory faster?"
TRIP = "Do copies in, computes and copies out run at once?"


def told(folder: Path, records: Sequence[CaseRecord], **changes: object) -> dict[str, str]:
    archive.write(folder, run(records, launches=2, device="simulated", **changes))
    return {answer.question: answer.text for answer in answers(frame.read(folder).frame)}


@pytest.fixture(scope="module")
def transfers() -> list[CaseRecord]:
    return simulated_records("transfer", launches=1)


@pytest.fixture(scope="module")
def overlaps() -> list[CaseRecord]:
    return simulated_records("overlap")


@pytest.fixture(scope="module")
def said(transfers: list[CaseRecord], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return told(tmp_path_factory.mktemp("transfer"), transfers)


@pytest.fixture(scope="module")
def loops(overlaps: list[CaseRecord], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return told(tmp_path_factory.mktemp("overlap"), overlaps)


def test_every_answer_ends_with_its_label_said_once(
    said: dict[str, str], loops: dict[str, str]
) -> None:
    assert (len(said), len(loops)) == (19, 6)
    for text in (*said.values(), *loops.values()):
        assert text.endswith(" [simulated]") and text.count("[simulated]") == 1
        assert "nan" not in text.lower()


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (
            "What do latency and bandwidth make of a copy, host to device?",
            "async pinned: latency 10 us, 50 GB/s, half of it from 488 KiB on "
            "(11 sizes, 0% off in all); sync pageable: latency 13 us, 10 GB/s, half of it from "
            "127 KiB on (10 sizes, 0% off in all)",
        ),
        (
            "Is non_blocking=True from pageable memory asynchronous?",
            "no: host to device and device to host at no size from 1 KiB to 1 GiB. 1 GiB host to "
            "device: the call itself takes 107 ms of 107 ms (asyncness 0.00); 1 GiB device to "
            "host: the call itself takes 107 ms of 107 ms (asyncness 0.00)",
        ),
        (
            "Do copies in both directions run at once?",
            "64 MiB each way, pageable: no, one after the other (observed: 0% of the shorter one), "
            "9.99 GB/s in all, 50% of the 20 GB/s of both alone; pinned: yes (observed: 100% of "
            "the shorter one), 99.1 GB/s in all, 100% of the 99.3 GB/s of both alone",
        ),
        (
            CROSSOVER,
            "host to device, pinned is faster from 2.76 KiB on; "
            "device to host, pinned is faster from 2.76 KiB on",
        ),
        (
            'What does tensor.to("cpu") cost beside a copy_ into place?',
            "64 MiB: async pinned (its choice): copy_ 1.35 ms, new, warm cache 1.35 ms (1x), new, "
            "cold cache 34.9 ms (26x); sync pageable (its choice): copy_ 6.72 ms, new, warm cache "
            "6.72 ms (1x)",
        ),
        (
            "How fast is a copy from one GPU to another?",
            "64 MiB: directly 371 GB/s, through the host 24.8 GB/s",
        ),
    ],
)
def test_the_simulated_machine_is_told(said: dict[str, str], question: str, text: str) -> None:
    assert said[question] == f"{text} [simulated]"


def test_pinning_pays_after_as_many_copies_as_it_costs(said: dict[str, str]) -> None:
    text = said["After how many copies has pinning a tensor paid?"]
    assert "64 MiB: after 6.9 (36.9 ms once, 5.37 ms gained per copy)" in text
    assert "64 MiB 0.701x of the pageable copy's time" in text


def test_what_a_conversion_hides(said: dict[str, str]) -> None:
    cast = said["What does a cast on the way (float32 to float16) hide?"]
    through = "through pageable memory that torch allocates"
    assert f"half of the bytes cross, cast before the link, {through}; H2D async pinned" in cast
    assert "D2H async pinned 187 us (0.542x a plain copy's): half of the bytes cross" in cast
    strided = said["What does copying every second element hide?"]
    assert strided.count(through) == 2
    assert "D2H sync pinned 358 us (1.03x a plain copy's): all bytes cross" in strided


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "what crossed was not observed"),
        ({}, "what crossed was not observed"),
        ({"copies": 3}, "what crossed was not observed"),
        ({"copies": "none"}, "observed none"),
        ({"copies": "1 x H2D pinned, huge in all"}, "observed 1 x H2D pinned, huge in all"),
        ({"copies": "1 x H2D pinned, 512 KiB in all"}, "half of the bytes cross"),
    ],
)
def test_odd_observations_break_nothing(found: object, text: str) -> None:
    row = {"findings": found, "nbytes": 1 << 20, "workload": "transfer.strided", "memory": "pinned"}
    assert hidden(row) == text


def test_a_size_that_is_not_async_is_named(transfers: list[CaseRecord], tmp_path: Path) -> None:
    def odd(one: CaseRecord) -> CaseRecord:
        axes = one.case.values
        if axes["nbytes"] not in (4096, 16384) or axes.get("memory") != "pinned":
            return one
        found = {**one.measurement.findings, "asynchronous": False}
        return replace(one, measurement=replace(one.measurement, findings=found))

    plain = [odd(one) for one in transfers if one.case.workload == "transfer.host_to_device"]
    text = told(tmp_path, plain)["Is non_blocking=True from pinned memory asynchronous?"]
    assert text.startswith(
        "not always: host to device async at 1 KiB, not async from 4 KiB to 16 KiB, "
        "async from 64 KiB to 1 GiB. 1 GiB host to device: the call returns after"
    )


@pytest.mark.parametrize("lost", [failed, skipped])
def test_a_direction_without_a_number_is_named_and_takes_the_yes_away(
    lost: Callable[[Case, str], CaseRecord], transfers: list[CaseRecord], tmp_path: Path
) -> None:
    plain = ("transfer.host_to_device", "transfer.device_to_host")
    records = [
        lost(one.case, "no such copy") if one.case.workload == plain[1] else one
        for one in transfers
        if one.case.workload in plain
    ]
    texts = told(tmp_path / "one", records)
    why = f"{'failed' if lost is failed else 'cannot be seen here'}: no such copy"
    assert texts[CROSSOVER] == (
        f"host to device, pinned is faster from 2.76 KiB on; device to host, {why} [simulated]"
    )
    text = texts["Is non_blocking=True from pinned memory asynchronous?"]
    assert text.startswith(f"host to device yes, device to host not known ({why}): host to device")
    assert text.count("no such copy") == 1
    none = [lost(one.case, "no such copy") for one in records]
    assert told(tmp_path / "none", none)[CROSSOVER] == why


def test_a_quick_run_answers_what_it_can(transfers: list[CaseRecord], tmp_path: Path) -> None:
    quick = load(("transfer",))
    records = [one for one in transfers if quick[one.case.workload].is_quick(one.case)]
    assert list(told(tmp_path, records)) == [
        "How fast is a copy, host to device?",
        "How fast is a copy, device to host?",
        "Is non_blocking=True from pageable memory asynchronous?",
        "Is non_blocking=True from pinned memory asynchronous?",
        "Does pinned memory pay?",
        "Is my link fine?",
    ]


def test_each_case_alone_has_its_answer(transfers: list[CaseRecord], tmp_path: Path) -> None:
    for number, one in enumerate(transfers[::7]):
        texts = told(tmp_path / str(number), [one])
        assert texts
        assert "nan" not in "".join(texts.values()).lower()
        assert "cannot be told: the stored" not in "".join(texts.values())


def test_what_is_skipped_says_why(transfers: list[CaseRecord], tmp_path: Path) -> None:
    texts = told(tmp_path, [skipped(one.case, "no CUDA") for one in transfers])
    assert set(texts.values()) == {"cannot be seen here: no CUDA"}


def test_the_verdict_leads(loops: dict[str, str]) -> None:
    start = "yes: 100 % of what could be hidden is hidden by copy stream and compute stream"
    for question in (PINNED, PAGEABLE):
        assert loops[question].startswith(start)
        assert "(efficiency 1.00, 2 launches: no interval)" in loops[question]


def test_the_other_workloads_of_overlap(loops: dict[str, str]) -> None:
    assert loops[SNIPPET] == (
        "8 batches of 32 MiB take 30.3 ms, observed: copies and computes ran side by side for 88% "
        "of the shorter; the calls hold the host for 89 % of the loop (asyncness 0.11) [simulated]"
    )
    assert loops[RATIO].startswith(
        "at 1:1, where it saves 46% of the serial loop's time (no interval). 8 batches of "
    )
    assert [part.split()[0] for part in loops[RATIO].split("), ")][1:] == [
        "1:2",
        "1:1",
        "2:1",
        "4:1",
    ]
    assert loops[ORDERING].startswith(
        "no difference seen (no interval). 8 batches of 32 MiB: events 6.09 ms"
    )
    two = "the device behaves as with two copy engines: 37% faster than one could be [simulated]"
    assert loops[TRIP].endswith(two)
    one = loops[TRIP].partition("with 1 copy engine ideal ")[2].partition("; ")[0]
    assert one.endswith("s, the loop beats it") and "efficiency" not in one


def changed(
    records: Sequence[CaseRecord], to: Callable[[Case], CaseRecord], **axes: AxisValue
) -> list[CaseRecord]:
    def is_meant(case: Case) -> bool:
        return all(case.values.get(axis) == value for axis, value in axes.items())

    return [to(one.case) if is_meant(one.case) else one for one in records]


def test_a_loop_without_a_number_is_named(overlaps: list[CaseRecord], tmp_path: Path) -> None:
    axes: dict[str, AxisValue] = {"batch_bytes": 32 << 20, "memory": "pinned"}
    broken = changed(
        overlaps,
        lambda case: failed(case, "data failed: batches [1]", seconds=1.0),
        **axes,
        schedule="copy_stream",
    )
    gone = [
        one for one in broken if one.case.values != {**axes, "device": "cuda", "schedule": "serial"}
    ]
    names = "copy stream and compute stream with events: failed, data failed: batches [1]"
    assert f"; {names} [simulated]" in told(tmp_path / "failed", broken)[PINNED]
    lost = str(Case.of("overlap.pipeline", {"device": "cuda", **axes, "schedule": "serial"}))
    planned = tuple(dict.fromkeys(str(one.case) for one in broken))
    assert lost in planned
    text = told(tmp_path / "lost", gone, planned=planned)[PINNED]
    assert text.startswith("undecided, because the serial loop has no number in this run. 8 batch")
    assert "; serial: not measured, the run ended before it came to this case" in text
    assert names in text


def test_the_snippet_is_told_without_its_serial_loop(
    overlaps: list[CaseRecord], tmp_path: Path
) -> None:
    quick = load(("overlap",))
    records = [one for one in overlaps if quick[one.case.workload].is_quick(one.case)]
    texts = told(tmp_path, records)
    assert set(texts) == {PINNED, SNIPPET}
    assert "the calls hold the host for 89 % of the loop" in texts[SNIPPET]


def test_one_copy_engine_shows(tmp_path: Path) -> None:
    records = simulated_records("overlap", link=Link(num_copy_engines=1))
    text = told(tmp_path, [one for one in records if "round_trip" in one.case.workload])[TRIP]
    assert "nothing shows a second copy engine" in text
    assert "with 1 copy engine ideal 5.46 ms, efficiency 1.00" in text
