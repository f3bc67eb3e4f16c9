"""The answer in words: the right figures, and a reason where there is none."""

from pathlib import Path

import pandas as pd
import pytest

from hostbench.core.case import Case
from hostbench.core.records import CaseRecord
from hostbench.report.answer import answers
from hostbench.store import archive, frame
from hostbench.store.columns import COLUMNS
from hostbench.testing.builders import copy_case, create_case, failed, record, run, skipped

MIB = 1 << 20
NBYTES = 256 * MIB
WORKLOADS = ("transfer.host_to_device", "transfer.device_to_host")
NO_PINNED = "the cpu device has no pinned memory; it needs a GPU"


def copies(device: str) -> dict[tuple[str, str, bool], Case]:
    return {
        (workload, memory, blocking): copy_case(
            workload, device=device, nbytes=NBYTES, memory=memory, blocking=blocking
        )
        for workload in WORKLOADS
        for memory in ("pageable", "pinned")
        for blocking in (True, False)
    }


def found(
    case: Case, seconds: float, call_s: float, asynchronous: bool | None = None
) -> CaseRecord:
    clocks = {"end_to_end_s": [seconds], "call_s": [call_s], "device_s": []}
    findings = {"asynchronous": asynchronous}
    return record(case, 0, seconds, measurement={**clocks, "findings": findings})


def gpu_records() -> list[CaseRecord]:
    """Pinned 2.9 times as fast as pageable; only pinned non_blocking returns early."""
    made = []
    for (_, memory, blocking), case in copies("cuda").items():
        seconds = 0.010 if memory == "pinned" else 0.029
        early = (memory, blocking) == ("pinned", False)
        made.append(found(case, seconds, 10e-6 if early else seconds, early))
    for fill, moved_s, direct_s in (("zeros", 0.06, 0.005), ("empty", 0.001, 0.002)):
        for place, seconds in (("cpu_then_move", moved_s), ("direct", direct_s)):
            case = create_case(device="cuda", nbytes=64 * MIB, fill=fill, place=place)
            made.append(record(case, 0, seconds))
    return made


def cpu_records() -> list[CaseRecord]:
    made = []
    for (_, memory, blocking), case in copies("cpu").items():
        if memory == "pinned":
            made.append(skipped(case, NO_PINNED))
        else:
            made.append(found(case, 0.05, 0.05 if blocking else 20e-6, not blocking))
    return made


def told(folder: Path, records: list[CaseRecord], **changes: object) -> dict[str, str]:
    archive.write(folder, run(records, launches=1, **changes))
    said = answers(frame.read(folder).frame)
    texts = {answer.question: answer.text for answer in said}
    assert len(texts) == len(said)
    return texts


def test_a_gpu_run_has_a_figure_for_every_question(tmp_path: Path) -> None:
    texts = told(tmp_path, gpu_records())
    for direction in ("host to device", "device to host"):
        speed = texts[f"How fast is a copy, {direction}?"]
        assert speed.startswith("256 MiB: ")
        assert "sync pageable 9.26 GB/s" in speed  # 2**28 bytes in 29 ms
        assert "async pinned 26.8 GB/s (2.9x)" in speed
    pinned = texts["Is non_blocking=True from pinned memory asynchronous?"]
    assert pinned.startswith("yes: ")
    assert pinned.count("the call returns after 10 us of 10 ms (asyncness 1.00)") == 2
    pageable = texts["Is non_blocking=True from pageable memory asynchronous?"]
    assert pageable.startswith("no: ")
    assert pageable.count("the call itself takes 29 ms of 29 ms (asyncness 0.00)") == 2
    assert texts["Does pinned memory pay?"] == (
        "yes: 256 MiB host to device take 10 ms from pinned memory, 29 ms from pageable "
        "(2.9x, no interval)"
    )
    zeros = texts["Create zeros on the CPU and move it, or directly on the device?"]
    assert zeros == "64 MiB: moved 60 ms, direct 5 ms: direct is faster, 12x"
    empty = texts["Create empty on the CPU and move it, or directly on the device?"]
    assert empty == "64 MiB: moved 1 ms, direct 2 ms: nothing is enqueued or touched"
    assert "cpu device" not in "".join(texts.values())


@pytest.mark.parametrize(
    ("finding", "call_s", "text"),
    [
        (True, 0.001, "yes: the call returns after 1 ms of 10 ms (asyncness 0.90)"),
        (False, 0.009, "no: the call itself takes 9 ms of 10 ms (asyncness 0.10)"),
        (
            True,
            0.009,
            "yes: the delay probe saw it return before its stream was done, yet it takes "
            "9 ms of 10 ms (asyncness 0.10)",
        ),
        (
            False,
            0.001,
            "no: the delay probe saw it wait for its stream, yet it returns after "
            "1 ms of 10 ms (asyncness 0.90)",
        ),
        (
            None,
            0.001,
            "it cannot be told: the call returns after 1 ms of 10 ms (asyncness 0.90)",
        ),
    ],
)
def test_the_delay_probe_answers_and_the_share_is_its_figure(
    tmp_path: Path, finding: bool | None, call_s: float, text: str
) -> None:
    case = copy_case(device="cuda", nbytes=NBYTES, memory="pinned", blocking=False)
    texts = told(tmp_path, [found(case, 0.01, call_s, finding)])
    question = "Is non_blocking=True from pinned memory asynchronous?"
    verdict, _, figures = text.partition(": ")
    assert texts[question] == f"{verdict}: 256 MiB host to device: {figures}"


def test_a_cpu_run_says_what_it_is_and_what_cannot_be_seen(tmp_path: Path) -> None:
    texts = told(tmp_path, cpu_records())
    assert texts["Does pinned memory pay?"] == f"cannot be seen here: {NO_PINNED}"
    assert (
        texts["Is non_blocking=True from pinned memory asynchronous?"]
        == f"cannot be seen here: {NO_PINNED}"
    )
    numbers = [text for text in texts.values() if "cannot be seen" not in text]
    assert len(numbers) == 4
    assert all(text.endswith("[cpu device, no GPU]") for text in numbers)


def test_all_skipped(tmp_path: Path) -> None:
    records = [skipped(case, "no CUDA") for case in copies("cuda").values()]
    records.append(skipped(create_case(device="cuda"), "no CUDA"))
    texts = told(tmp_path, records)
    assert len(texts) == 7
    assert set(texts.values()) == {"cannot be seen here: no CUDA"}


def test_a_failed_case_is_said_to_have_failed(tmp_path: Path) -> None:
    records = [
        failed(r.case, "data failed: stale", seconds=r.seconds)
        if r.case.values.get("memory") == "pinned" or r.case.values.get("place") == "direct"
        else r
        for r in gpu_records()
    ]
    texts = told(tmp_path, records)
    assert texts["Does pinned memory pay?"] == "failed: data failed: stale"
    assert texts["Create zeros on the CPU and move it, or directly on the device?"] == (
        "failed: data failed: stale"
    )
    speed = texts["How fast is a copy, host to device?"]
    assert speed == (
        "256 MiB: sync pageable 9.26 GB/s, async pageable 9.26 GB/s (not async: the call waits); "
        "sync pinned: failed, data failed: stale; async pinned: failed, data failed: stale"
    )


def test_the_largest_size_with_a_number_counts(tmp_path: Path) -> None:
    small = [
        record(copy_case(nbytes=MIB, blocking=blocking), 0, 1e-3, call_s=1e-3)
        for blocking in (True, False)
    ]
    large = [failed(copy_case(nbytes=NBYTES, blocking=blocking)) for blocking in (True, False)]
    texts = told(tmp_path, small + large)
    assert texts["How fast is a copy, host to device?"].startswith("1 MiB: ")


@pytest.mark.parametrize("family", ["transfer", "allocation"])
def test_a_family_the_run_did_not_come_to(tmp_path: Path, family: str) -> None:
    """Its axis columns do not exist: an interrupted run must be answered all the same."""
    records = [r for r in gpu_records() if r.case.family == family]
    planned = tuple(str(r.case) for r in gpu_records())
    texts = told(tmp_path, records, planned=planned)
    assert texts and ("Does pinned memory pay?" in texts) is (family == "transfer")


def test_part_of_a_family(tmp_path: Path) -> None:
    """Only one case was selected, or the run ended after it."""
    for number, one in enumerate(gpu_records()):
        texts = told(
            tmp_path / str(number), [one], planned=tuple(map(str, copies("cuda").values()))
        )
        assert texts
        assert "nan" not in "".join(texts.values()).lower()


def test_without_the_pageable_copy_the_factor_cannot_be_said(tmp_path: Path) -> None:
    records = [r for r in gpu_records() if r.case.values.get("memory") == "pinned"]
    texts = told(tmp_path, records)
    assert "cannot be said" in texts["Does pinned memory pay?"]
    assert "x)" not in texts["How fast is a copy, host to device?"]


def test_nothing_gives_no_answer() -> None:
    assert answers(pd.DataFrame(columns=list(COLUMNS))) == []
