"""Runs as they are read: what their launches come to, and what is missing."""

import pytest

from hostbench.core.records import CaseRecord
from hostbench.store.points import case_rows
from tests.fakes.builders import copy_case, create_case, failed, record, run, skipped

A, B, C = (copy_case(nbytes=nbytes) for nbytes in (1, 2, 3))
PLANNED = tuple(map(str, (A, B, C)))


LOST = failed(A, "lost", launch=1)
STALE = failed(A, "proof failed: stale", seconds=2.0)


@pytest.mark.parametrize(
    ("records", "status", "reason", "seconds"),
    [
        ([record(A, 0, 1.0), LOST, record(A, 2, 3.0)], "failed", "lost", ()),
        ([STALE], "failed", "proof failed: stale", (2.0,)),
        ([skipped(A), LOST, record(A, 2)], "failed", "lost", ()),
        ([skipped(A, "why"), record(A, 1)], "skipped", "why", ()),
    ],
)
def test_failed_beats_skipped_beats_ok_and_a_false_number_stays(
    records: list[CaseRecord], status: str, reason: str, seconds: tuple[float, ...]
) -> None:
    (row,) = case_rows(run(records))
    assert (row["status"], row["reason"]) == (status, reason)
    assert (*row.get("launches", {}).values(),) == seconds


def test_results_are_in_the_order_of_the_plan_and_launches_in_theirs() -> None:
    one = run([record(C), record(A, 1, 2.0), record(A, 0, 1.0)], planned=PLANNED)
    assert [row["case"] for row in case_rows(one)] == [str(A), str(C)]
    assert [*case_rows(one)[0]["launches"].items()] == [(0, 1.0), (1, 2.0)]
    assert one.not_measured() == [str(B)]
    extra = run([record(create_case()), record(B)], planned=PLANNED)
    assert [row["case"] for row in case_rows(extra)] == [str(B), str(create_case())]


def test_unexpected_findings() -> None:
    def flags(*findings: bool | None) -> str:
        records = [
            record(A, n, expected={"asynchronous": True}, measurement={"findings": {
                "asynchronous": found, "other": n}})
            for n, found in enumerate(findings)
        ]  # fmt: skip
        (row,) = case_rows(run(records, launches=len(records)))
        return str(row["flags"])

    assert flags(True, True) == ""
    assert flags(False, False) == "unexpected: asynchronous is False"
    assert flags(True, False, False) == "unexpected: asynchronous is True in 1 of 3 launches"
    assert flags(None) == ""


def test_findings_are_what_launches_agree_on_and_the_median_of_numbers() -> None:
    said = [{"asynchronous": n > 0, "copies": "none", "wait_s": n * 1e-3} for n in (0, 5, 1)]
    records = [record(A, n, measurement={"findings": each}) for n, each in enumerate(said)]
    (row,) = case_rows(run(records))
    assert row["findings"] == {"asynchronous": None, "copies": "none", "wait_s": 1e-3}


def test_a_reason_of_any_length_is_shown_to_a_limit() -> None:
    (row,) = case_rows(run([failed(A, "x" * 10**6)]))
    assert row["reason"] == "x" * 4000
