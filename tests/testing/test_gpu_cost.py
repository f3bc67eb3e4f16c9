"""What runs cost on machines with GPUs, counted from their plans: quick keeps its promise."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hostbench.families import load
from hostbench.runner.plan import QUICK, STANDARD, Plan, Profile, choose
from tests.gpu.cost import Costs, Count, count

ROOT = Path(__file__).parent.parent.parent
PROMISE_S = 120.0


def counted(profile: Profile, num_gpus: int, *families: str) -> Count:
    workloads = load(families or None)
    cases = choose(workloads, "cuda", quick=profile is QUICK)
    return count(Plan(profile=profile, cases=cases), workloads, num_gpus)


@pytest.mark.parametrize("num_gpus", [1, 2, 4, 8])
def test_quick_takes_under_two_minutes_on_any_number_of_gpus(num_gpus: int) -> None:
    found = counted(QUICK, num_gpus)
    assert found.seconds(Costs(), QUICK.settings) < PROMISE_S


@pytest.mark.parametrize("num_gpus", [1, 2, 4, 8])
def test_the_processes_of_quick(num_gpus: int) -> None:
    """A worker a launch for the families without ranks, one that observes them, and a pool of two
    ranks a launch; on one GPU a pool that is refused, once."""
    found, num = counted(QUICK, num_gpus), QUICK.launches
    assert found.starting == num + 1
    assert (found.pools, found.ranks) == ((num, 2 * num) if num_gpus > 1 else (0, 0))
    assert found.workers == found.starting + (num if num_gpus > 1 else 1)
    assert found.cuda_starts == 1 + found.starting + found.ranks


@pytest.mark.parametrize(("num_gpus", "pools", "ranks"), [(1, 1, 1), (2, 2, 3), (8, 4, 15)])
def test_standard_starts_a_pool_for_each_number_of_ranks(
    num_gpus: int, pools: int, ranks: int
) -> None:
    found = counted(replace(STANDARD, launches=3), num_gpus, "collectives")
    assert (found.pools, found.ranks, found.starting) == (3 * pools, 3 * ranks, 0)


def test_standard_keeps_a_worker_for_each_family() -> None:
    found = counted(STANDARD, 1, "transfer", "overlap", "allocation")
    assert found.starting == 3 * (STANDARD.launches + 1)


def test_seconds_are_the_constants_times_the_counts() -> None:
    """Each number by itself: of a pool's ranks the starts overlap."""
    names = ("cuda_start_s", "nccl_start_s", "import_s", "settle_s", "build_s", "observe_s")
    nothing = Costs(**dict.fromkeys((*names, "once_s"), 0.0))
    settings = replace(QUICK.settings, warmup_s=0.0, budget_s=0.0)
    found = Count(starting=2, pools=3, ranks=9, in_workers=5, in_ranks=7, observed=11)
    still_s = found.seconds(nothing, settings)
    each = [found.seconds(replace(nothing, **{name: 1.0}), settings) - still_s for name in names]
    assert each == pytest.approx([1 + 2 + 3, 3, 2, 2 + 3, 5 + 7, 11])
    assert found.seconds(nothing, replace(settings, budget_s=1.0)) - still_s == pytest.approx(12)


def test_the_script_prints_a_row_for_each_run_and_takes_other_constants() -> None:
    argv = [sys.executable, str(ROOT / "scripts/gpu-cost"), "--gpus", "2,8", "--cuda-start"]
    tables = [
        subprocess.run([*argv, start], capture_output=True, text=True, check=True).stdout
        for start in ("3", "8")
    ]
    rows = [[line.split() for line in table.splitlines()[2:]] for table in tables]
    assert [row[:2] for row in rows[0]][:4] == [
        [name, gpus] for name in ("quick", "standard") for gpus in ("2", "8")
    ]
    assert all(int(slow[-1]) > int(fast[-1]) for fast, slow in zip(*rows, strict=True))
