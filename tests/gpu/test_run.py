"""hostbench itself, by the program that people use: every CUDA case, and what is observed of it."""

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from hostbench.core.records import Run
from hostbench.store.runs import case_results
from tests.gpu.budget import DEADLINE_S, run_s
from tests.gpu.conftest import Record
from tests.stored import runs_of

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parent.parent.parent
BEGAN_S = time.monotonic()
"""When this file was imported."""


@pytest.fixture
def results(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Kept beside the report where there is one, in place of an earlier check's."""
    folder = os.environ.get("HOSTBENCH_GPU_REPORT")
    if not folder:
        return tmp_path
    return emptied(Path(folder) / request.node.name.removeprefix("test_"))


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def measured(results: Path, *args: str) -> Run:
    argv = [sys.executable, "-m", "hostbench", "run", *args, "--device", "cuda"]
    done = subprocess.run([*argv, "--results", str(results)], cwd=ROOT)
    (run,) = runs_of(results)
    assert done.returncode == 0, told(run)
    return run


def told(run: Run) -> str:
    """How many cases of each status; then each failure and each finding that was not expected."""
    found = case_results(run)
    counts = Counter[str](result.status for result in found)
    lines = [", ".join(f"{num} {word}" for word, num in counts.items())]
    lines[0] += f", {len(run.not_measured())} not reached"
    for result in found:
        if result.status == "failed":
            lines.append(f"- failed: {result.case}: {result.reason}")
        for name, value in result.unexpected.items():
            lines.append(f"- not expected: {result.case}: {name} is {value}")
        for name, said in result.proofs.items():
            if said.startswith("unavailable"):
                lines.append(f"- {name} {said}: {result.case}")
    return "\n".join(lines)


def test_copies_are_what_the_cases_declare(gpu: None, record: Record, results: Path) -> None:
    """One launch of the quick cases, and what was observed of each of them."""
    record(told(measured(results, "--quick", "--launches", "1")))


def test_every_case_is_measured(gpu: None, record: Record, results: Path) -> None:
    """One launch of every case, then each is observed, as far as the time goes."""
    stop_after_s = run_s(time.monotonic() - BEGAN_S)
    limits = ("--budget", f"{stop_after_s:.0f}", "--deadline", f"{DEADLINE_S:g}")
    record(told(measured(results, "--launches", "1", *limits)))
