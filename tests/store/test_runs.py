"""Runs as they are read: what their launches come to, and what is missing."""

import pytest

from hostbench.core.records import CaseRecord
from hostbench.store.runs import case_results
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
    (result,) = case_results(run(records))
    assert (result.status, result.reason, result.seconds) == (status, reason, seconds)


def test_results_are_in_the_order_of_the_plan_and_launches_in_theirs() -> None:
    one = run([record(C), record(A, 1, 2.0), record(A, 0, 1.0)], planned=PLANNED)
    assert [result.case for result in case_results(one)] == [A, C]
    assert case_results(one)[0].seconds == (1.0, 2.0)
    assert one.not_measured() == [str(B)]
    extra = run([record(create_case()), record(B)], planned=PLANNED)
    assert [result.case for result in case_results(extra)] == [B, create_case()]


def test_the_other_clocks_are_medians_per_launch() -> None:
    measurement = {"call_s": [1.0, 3.0, 2.0], "device_s": [], "findings": {}}
    (result,) = case_results(run([record(A, 0, 2.0, measurement=measurement)]))
    assert (result.call_s, result.device_s) == ((2.0,), ())


def test_unexpected_findings() -> None:
    def unexpected(*findings: bool | None) -> dict[str, str]:
        records = [
            record(A, n, expected={"asynchronous": True}, measurement={"findings": {
                "asynchronous": found, "other": n}})
            for n, found in enumerate(findings)
        ]  # fmt: skip
        (result,) = case_results(run(records))
        return result.unexpected

    assert unexpected(True, True) == {}
    assert unexpected(False, False) == {"asynchronous": "False"}
    assert unexpected(True, False, False) == {"asynchronous": "True in 1 of 3 launches"}
    assert unexpected(None) == {}


def test_findings_are_what_launches_agree_on_and_the_median_of_numbers() -> None:
    said = [{"asynchronous": n > 0, "copies": "none", "wait_s": n * 1e-3} for n in (0, 5, 1)]
    records = [record(A, n, measurement={"findings": each}) for n, each in enumerate(said)]
    (result,) = case_results(run(records))
    assert result.findings == {"asynchronous": None, "copies": "none", "wait_s": 1e-3}


def test_a_reason_of_any_length_is_shown_to_a_limit() -> None:
    (result,) = case_results(run([failed(A, "x" * 10**6)]))
    assert result.reason == "x" * 4000
