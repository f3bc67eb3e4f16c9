"""Stored rows on common columns: order, reruns, holes, baseline resets, and what is left out."""

from dataclasses import replace

import numpy as np
import pandas as pd

from hostbench.judge.grid import Grid, Reset, grids, marked
from hostbench.judge.history import judge_history
from tests.fakes.history import CASES, NightlyRun, flat, grid, nightly, rows, sha


def places(found: Grid) -> list[tuple[int, str]]:
    return [(int(column.commit[:8], 16), column.run_id) for column in found.columns]


def test_columns_are_runs_in_the_order_of_their_commits() -> None:
    runs = [NightlyRun(commit=2, day=5), NightlyRun(commit=1, day=4), NightlyRun(commit=2, day=6)]
    assert places(grid(runs)) == [(1, "run0004.0"), (2, "run0005.0"), (2, "run0006.0")]
    assert grid(runs).logs.shape == (len(CASES), 3) and not np.isnan(grid(runs).logs).any()


def test_a_rerun_of_an_older_commit_is_evidence_and_no_point() -> None:
    runs = [*nightly(20), NightlyRun(commit=5, day=30)]
    slower = grid(runs, lambda case, run: 1.1 if run.day == 30 else 1.0)
    assert np.isnan(slower.logs[:, [c.run_id for c in slower.columns].index("run0030.0")]).all()
    (again,) = np.flatnonzero(np.isfinite(slower.reruns).all(axis=0))
    assert slower.columns[again].commit == sha(5) and np.isfinite(slower.reruns).sum() == len(CASES)
    assert (abs(slower.reruns[:, again] - 0.095) < 0.03).all()


def test_a_backfill_fills_its_holes() -> None:
    """Odd commits were measured each night, the even ones all at once much later."""
    runs = [NightlyRun(commit=n, day=n) for n in range(1, 20, 2)]
    late = [NightlyRun(commit=n, day=100 + n) for n in range(0, 20, 2)]
    found = grid([*runs, *late])
    assert [number for number, _ in places(found)] == list(range(20))
    assert np.isnan(found.reruns).all() and not np.isnan(found.logs).any()


def test_what_may_not_be_judged_is_left_out() -> None:
    runs = [
        *nightly(5),
        NightlyRun(commit=5, day=5, row={"scratch": "quick"}),
        NightlyRun(commit=6, day=6, row={"status": "failed"}),
        NightlyRun(commit=7, day=7, cases=(3,), row={"unit": "bytes"}),
        NightlyRun(commit=8, day=8, cases=(0, 1), row={"num_samples": 3}),
    ]
    assert len(grid(runs).columns) == 5
    again = [*runs, NightlyRun(commit=1, day=9), NightlyRun(commit=9, day=9, row={"scratch": "x"})]
    history = judge_history([("box", rows(again, flat))], {}, lambda run: {})
    assert history.left_out["box"] == {
        "scratch": 10 + 10,
        "failed": 10,
        "of fewer than 7 launches": 2,
        "without a time": 1,
        "of a commit or version measured again": 10,
    }


def test_where_versions_interleave_the_newer_one_goes_on() -> None:
    """asv ran today's benchmarks on older commits."""
    runs = [NightlyRun(commit=n, day=n, row={"version": "a" * 64}) for n in range(10)]
    late = [NightlyRun(commit=n, day=50 + n, row={"version": "b" * 64}) for n in (4, 6, 8)]
    found = grid([replace(run, commit=2 * run.commit) for run in runs] + [
        replace(run, commit=2 * run.commit + 1) for run in late
    ])  # fmt: skip
    assert [int(c.commit[:8], 16) for c in found.columns if c.run_id > "run0050"] == [9, 13, 17]
    assert np.isfinite(found.logs[0]).sum() == 5 + 3
    assert found.resets[0] == {5: Reset("version aaaaaaaa -> bbbbbbbb", is_version=True)}


def test_another_machine_under_the_same_name_resets_every_baseline() -> None:
    runs = nightly(12)
    known = {f"run{n:06.1f}": {"gpu": "A" if n < 6 else "B"} for n in range(12) if n != 4}
    found = grid(runs, hardware=known)
    assert found.resets == ({6: Reset("gpu: A -> B", is_version=False)},) * len(CASES)
    later = [NightlyRun(commit=n, day=n, cases=(0,) if n == 6 else range(10)) for n in range(12)]
    assert [*grid(later, hardware=known).resets[1]] == [7]


def test_environments_of_another_project_are_lines_of_their_own() -> None:
    def asv(day: int, env: str) -> NightlyRun:
        return NightlyRun(commit=day, day=day, row={"run_id": f"asv-{sha(day)[:8]}-{env}"})

    def lines(*runs: NightlyRun) -> list[tuple[str, int]]:
        every = grids(rows(runs, flat), "box", {})
        return [(own.group, len(own.columns)) for own in every]

    one = [asv(n, "conda-py3.11") for n in range(3)]
    assert lines(*one) == [("box", 3)]
    two = [("box/conda-py3.11", 3), ("box/conda-py3.12", 1)]
    assert lines(*one, asv(1, "conda-py3.12")) == two
    assert lines(*nightly(3), asv(4, "hostbench-py3.11")) == [("box", 4)]  # as the runs'


def test_points_of_few_launches_are_marked_wherever_they_come_from() -> None:
    """Samples of another project's benchmark are no launches."""
    ids = ["20261121T120000Z-a-1", "asv-aaaaaaaa-hostbench-py3.11", "asv-aaaaaaaa-venv-py3", "b"]
    stored = pd.DataFrame({"run_id": ids, "num_samples": [3.0, 6.0, 1.0, 7.0], "status": "ok"})
    found = marked(stored.assign(scratch=None))["scratch"]
    assert found.tolist() == ["3 launches, under 7", "6 launches, under 7", None, None]
    skipped = marked(stored.assign(scratch=None, status="skipped"))["scratch"]
    assert skipped.isna().all()
