"""What runs cost on machines with GPUs, counted from their plans: quick keeps its promise."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hostbench.device import cuda
from hostbench.families import load
from hostbench.families.allocation.workloads import SETTINGS
from hostbench.runner.plan import QUICK, STANDARD, Plan, Profile, choose
from tests.gpu import needs
from tests.gpu.budget import (
    BEFORE_S,
    BUDGETS,
    CUDA_START_S,
    GRACE_S,
    IMPORT_S,
    NCCL_S,
    OTHERS_S,
    OWN_S,
    PROBE_S,
    QUICK_S,
    RUN_S,
    SETTLE_S,
    START_S,
    STICKY_S,
    TOTAL_S,
)
from tests.gpu.cost import ONCE, Costs, Count, count, of_check

ROOT = Path(__file__).parent.parent.parent
PROMISE_S = 120.0
NUM_ENVIRONMENTS = len(SETTINGS) - 1
"""Of allocation.mixed; they are not observed, and the default needs none."""
SLOW = Costs(cuda_start_s=CUDA_START_S, import_s=IMPORT_S, settle_s=SETTLE_S)
"""What the limits of gpu-check are reckoned with."""


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
    assert found.starting == 3 * (STANDARD.launches + 1) + NUM_ENVIRONMENTS * STANDARD.launches
    assert found.servers == 1 + NUM_ENVIRONMENTS


def test_seconds_are_the_constants_times_the_counts() -> None:
    """Each number by itself: of a pool's ranks the starts overlap."""
    names = ("cuda_start_s", "nccl_start_s", "import_s", "settle_s", "build_s", "observe_s")
    nothing = Costs(**dict.fromkeys((*names, "once_s"), 0.0))
    settings = replace(QUICK.settings, warmup_s=0.0, budget_s=0.0)
    found = Count(starting=2, pools=3, ranks=9, in_workers=5, sampled=4.0, in_ranks=7, observed=11)
    still_s = found.seconds(nothing, settings)
    each = [found.seconds(replace(nothing, **{name: 1.0}), settings) - still_s for name in names]
    assert each == pytest.approx([1 + 2 + 3, 3, 2, 2 + 3, 5 + 7, 11])
    assert found.seconds(nothing, replace(settings, budget_s=1.0)) - still_s == pytest.approx(4 + 7)


def test_gpu_check_ends_within_ten_minutes_whatever_hangs() -> None:
    """Each file to its limit and then to its grace, after the probe of `check` itself."""
    files = {path.stem for path in (ROOT / "tests/gpu").glob("test_*.py")}
    assert files == set(BUDGETS)
    most_s = PROBE_S + sum(BUDGETS.values()) + GRACE_S * len(BUDGETS)
    assert TOTAL_S - OTHERS_S < most_s <= TOTAL_S < 600
    assert cuda._SETTLE_LIMIT_S == SETTLE_S


@pytest.mark.parametrize("num_gpus", [1, 2, 4, 8])
def test_no_limit_of_gpu_check_cuts_off_what_it_promises(num_gpus: int) -> None:
    """Every case once, and each observed, where CUDA starts as usual; where it starts slowly that
    run ends by itself, and all else still fits."""
    found = of_check(load(), num_gpus)
    assert found.every.seconds(Costs(), ONCE.settings) <= BEFORE_S + RUN_S
    assert found.quick.seconds(SLOW, ONCE.settings) <= BEFORE_S + QUICK_S
    assert found.nccl.seconds(SLOW, ONCE.settings) <= BEFORE_S + NCCL_S
    assert BUDGETS["test_run"] > IMPORT_S + BEFORE_S + QUICK_S + BEFORE_S + RUN_S
    assert BUDGETS["test_nccl"] >= IMPORT_S + BEFORE_S + NCCL_S
    assert all(BUDGETS[name] >= START_S + own_s for name, own_s in OWN_S.items())
    ended_s = found.every.seconds(SLOW, ONCE.settings) - BEFORE_S - RUN_S
    assert found.seconds(SLOW) - max(0.0, ended_s) < TOTAL_S


def test_the_guide_says_how_long_each_file_may_take_and_what_to_carry() -> None:
    guide = (ROOT / "docs/gpu.md").read_text()
    said = re.findall(r"^\| `(test_\w+)` \|.*\| (\d+) s \|$", guide, flags=re.M)
    assert {name: int(limit) for name, limit in said} == {
        name: round(limit_s) for name, limit_s in BUDGETS.items()
    }
    carried = dict(re.findall(r"'([\w-]+)>=([\d.]+)'", guide))
    assert carried == {
        name: least for name, least in needs.bounds().items() if name not in ("torch", "pluggy")
    }


def test_the_processes_of_gpu_check() -> None:
    """On one GPU: 5 files that work on it, the probe of `check`, the process that breaks CUDA, and
    the three runs that 2 more files wait for."""
    found = of_check(load(), 1)
    alone = len({work.family for work in load().values() if work.ranks is None})
    assert (found.num_starting, found.num_waiting) == (5 + 1 + 1, 2)
    assert found.num_starting + found.num_waiting == len(BUDGETS) + 2
    assert (found.every.starting, found.every.ranks) == (2 * alone + NUM_ENVIRONMENTS, 1)
    assert (found.quick.starting, found.quick.ranks) == (1 + 1, 0)
    assert (found.nccl.workers, found.nccl.ranks, found.nccl.skipped) == (1, 1, 1)
    assert found.cuda_starts == found.num_starting + 3 + 2 * alone + NUM_ENVIRONMENTS + 1 + 2 + 1
    assert STICKY_S >= IMPORT_S + CUDA_START_S


def test_the_script_prints_a_row_for_each_run_and_takes_other_constants() -> None:
    argv = [sys.executable, str(ROOT / "scripts/gpu-cost"), "--gpus", "2,8", "--cuda-start"]
    tables = [
        subprocess.run([*argv, start], capture_output=True, text=True, check=True).stdout
        for start in ("3", "8")
    ]
    rows = [[line.split() for line in table.splitlines()[2:-1]] for table in tables]
    assert [row[:2] for row in rows[0]] == [
        [name, gpus] for name in ("quick", "standard", "gpu-check") for gpus in ("2", "8")
    ]
    assert f"test_run {BUDGETS['test_run']:.0f}" in tables[0].splitlines()[-1]
    assert all(int(slow[-1]) > int(fast[-1]) for fast, slow in zip(*rows, strict=True))
