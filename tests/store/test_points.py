"""The tidy frame: one row per point, statuses kept apart, nothing twice, rates derived; what the
launches of a run come to, and what is missing."""

import json
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest

from hostbench.core.case import asv_name
from hostbench.core.records import CaseRecord, Run
from hostbench.report import questions
from hostbench.store import archive
from hostbench.store.points import COLUMNS, case_rows
from hostbench.store.results import frame_of_run
from tests.fakes.builders import (
    COMMIT,
    GPU_FACTS,
    copy_case,
    create_case,
    failed,
    record,
    run,
    skipped,
)
from tests.stored import read_tree

MIB = 1 << 20
STARTED_MS = 1_795_262_400_000
OURS, PLAIN = asv_name("transfer.host_to_device"), "copies.Copy.time_it"
OK, SKIP, FAIL, NOT = (
    copy_case(memory=memory, blocking=blocking)
    for memory in ("pageable", "pinned")
    for blocking in (True, False)
)


def read(folder: Path, *runs: Run) -> pd.DataFrame:
    for one in runs:
        archive.write(folder, one)
    tree = read_tree(folder)
    assert tree.warnings == []
    return tree.frame


def by_case(rows: pd.DataFrame) -> pd.DataFrame:
    indexed = rows.set_index("case")
    assert indexed.index.is_unique
    return indexed


def test_columns_and_a_whole_row(tmp_path: Path) -> None:
    seconds = [0.25, 0.5, 0.125]
    records = [record(OK, n, s, call_s=s / 5) for n, s in enumerate(seconds)]
    rows = read(tmp_path, run(records, launches=3, facts=GPU_FACTS, scratch="quick"))
    assert tuple(rows.columns[: len(COLUMNS)]) == COLUMNS
    assert set(rows.columns) - set(COLUMNS) == {"memory", "blocking"}
    (row,) = rows.to_dict("records")
    expected = {
        "machine": "shelf",
        "hardware": "NVIDIA H200",
        "device": "cpu",
        "commit": COMMIT,
        "committed_at": pd.Timestamp("2026-11-20T08:00:00Z"),
        "run_id": "20261121T120000Z-1a2b3c4d-0001",
        "started_at": pd.Timestamp("2026-11-21T12:00:00Z"),
        "torch": "2.13.0+cpu",
        "driver": "580.1",
        "family": "transfer",
        "workload": "transfer.host_to_device",
        "case": str(OK),
        "version": "1",
        "status": "ok",
        "seconds": 0.25,
        "q25_s": 0.1875,
        "q75_s": 0.375,
        "call_s": 0.05,
        "num_samples": 3,
        "nbytes": MIB,
        "gb_per_s": MIB / 0.25 / 1e9,
        "unit": "seconds",
        "source": "archive",
        "scratch": "quick",
        "flags": "",
        "memory": "pageable",
        "blocking": True,
    }
    assert {name: row[name] for name in expected} == expected
    for name in ("reason", "ci_low_s", "ci_high_s", "device_s", "value"):
        assert pd.isna(row[name]), name


def test_a_copy_that_the_cache_holds_is_flagged(tmp_path: Path) -> None:
    cases = [copy_case(nbytes=num * MIB) for num in (4, 16)]
    cached = run([record(case) for case in cases], facts={"host": {"cache_bytes": 32 * MIB}})
    rows = by_case(frame_of_run(tmp_path, cached, warn=pytest.fail))
    few = "1 of 2 launches"
    assert rows["flags"].to_list() == [f"{few}; cached", few]
    answers = [own for own in questions.answers(questions.rows_of(rows.reset_index())) if own.lines]
    assert "up to 4MiB cached" in [line.verdict for own in answers for line in own.lines]


def test_rates_only_where_bytes_move_in_some_time(tmp_path: Path) -> None:
    records = [record(OK, 0, 0.5), record(create_case(), 0, 0.5), record(SKIP, 0, 0.0)]
    rows = by_case(read(tmp_path, run(records)))
    assert set(rows["hardware"]) == {"A Toy CPU"} and rows["driver"].isna().all()
    assert math.isnan(rows["gb_per_s"][str(SKIP)]) and rows["seconds"][str(SKIP)] == 0
    assert rows["gb_per_s"][str(OK)] == MIB / 0.5 / 1e9
    assert math.isnan(rows["gb_per_s"][str(create_case())])
    assert set(rows["nbytes"]) == {MIB}
    assert rows["fill"][str(create_case())] == "zeros" and pd.isna(rows["fill"][str(OK)])


# Beside asv's own files

PARAMS = [["'cpu'"], ["1048576"], ["'pageable'", "'pinned'"], ["True"]]


def asv_file(folder: Path, started_ms: int = STARTED_MS, *, machine: str = "shelf") -> None:
    """What asv writes in our environment, of a workload and of a plain benchmark: one number, one
    skip each."""
    place = folder / machine
    place.mkdir(parents=True, exist_ok=True)
    (place / "machine.json").write_text(json.dumps({"machine": machine, "cpu": "A CPU"}))
    columns = ["result", "params", "version", "started_at", "duration"]
    columns += ["stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75", "n", "stats_repeat"]
    row = [[0.5, math.nan], PARAMS, "1", started_ms, None]
    row += [[0.25, None], [math.inf, None], [0.5, None], [0.5, None], [1, None], [10, None]]
    data = {
        "commit_hash": COMMIT,
        "env_name": "hostbench-py3.11",
        "date": STARTED_MS,
        "result_columns": columns,
        "results": {OURS: row, PLAIN: row},
    }
    (place / f"{COMMIT[:8]}-hostbench-py3.11.json").write_text(json.dumps(data))
    names = ["device", "nbytes", "memory", "blocking"]
    about = {"param_names": names, "params": PARAMS, "unit": "seconds"}
    benchmarks = {OURS: about, PLAIN: about, "version": 2}
    (folder / "benchmarks.json").write_text(json.dumps(benchmarks))


def test_asvs_rows_read_like_ours_and_a_workloads_are_left_to_archives(tmp_path: Path) -> None:
    asv_file(tmp_path)
    rows = read(tmp_path)
    assert set(rows["workload"]) == {PLAIN} and len(rows) == 2
    ok, skip = (row for _, row in rows.iterrows())
    assert (ok["family"], ok["source"], ok["memory"]) == ("copies", "asv", "pageable")
    assert ok["seconds"] == 0.5 and pd.isna(ok["gb_per_s"])
    assert (ok["ci_low_s"], ok["num_samples"], ok["device"]) == (0.25, 10, "cpu")
    assert pd.isna(ok["ci_high_s"])
    assert ok["started_at"] == pd.Timestamp(STARTED_MS, unit="ms", tz="UTC")
    assert (skip["status"], skip["reason"]) == ("skipped", "asv stores no reason")
    assert ok["hardware"] == "A CPU"
    assert pd.isna(ok["scratch"])


def test_an_axis_named_like_a_column_gets_an_underscore(tmp_path: Path) -> None:
    tree = shutil.copytree(Path(__file__).parent.parent / "data" / "asv_tree", tmp_path / "results")
    path = tree / "benchmarks.json"
    about = json.loads(path.read_text())
    about["sorting.Sorting.time_sort"]["param_names"] = ["device", "commit"]
    path.write_text(json.dumps(about))
    rows = read(tree)
    sort = rows[rows["workload"] == "sorting.Sorting.time_sort"]
    assert set(sort["device_"]) == {100, 1000} and sort["device"].isna().all()
    assert set(sort["commit_"]) == {"sorted", "random"}
    assert sort["seconds"].max() < 1e-3


# What launches come to

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
