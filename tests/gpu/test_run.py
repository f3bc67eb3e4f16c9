"""hostbench itself, by the program that people use: every CUDA case, and what is observed of it."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from hostbench.core.records import Run
from hostbench.limits.verdict import LinkVerdict, link_verdicts
from hostbench.store.points import case_rows
from hostbench.store.runs import facts_by_when
from tests.stored import runs_of

pytestmark = pytest.mark.gpu

FOLDER = "HOSTBENCH_GPU_REPORT"
"""Names the folder of `make gpu-check`."""

ROOT = Path(__file__).parent.parent.parent
PARTS = {"overlap loading synchronization": 130, "transfer allocation": 210}
"""Families -> seconds, after which their run ends with the case in hand; those first of which only
an observed case tells anything."""
DEADLINE_S = 25
"""Of one case there."""


@pytest.fixture
def results(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Kept beside the report where there is one, in place of an earlier check's."""
    if FOLDER not in os.environ:
        return tmp_path
    kept = Path(os.environ[FOLDER]) / request.node.callspec.params["families"].replace(" ", "-")
    shutil.rmtree(kept, ignore_errors=True)
    return kept


def measured(results: Path, *args: str) -> Run:
    argv = [sys.executable, "-m", "hostbench", "run", *args, "--device", "cuda"]
    done = subprocess.run([*argv, "--results", str(results)], cwd=ROOT)
    (run,) = runs_of(results)
    assert done.returncode == 0, told(run)
    return run


def told(run: Run) -> str:
    """How many cases of each status, and the link under load; then each failure and each finding
    that was not expected."""
    rows = case_rows(run)
    counts = Counter[str](row["status"] for row in rows)
    lines = [", ".join(f"{num} {word}" for word, num in counts.items())]
    lines[0] += f", {len(run.not_measured())} not reached"
    lines += [f"- {verdict.text}" for verdict in links_of(run)]
    for row in rows:
        if row["status"] == "failed":
            lines.append(f"- failed: {row['case']}: {row['reason']}")
        if "unexpected" in row["flags"]:
            lines.append(f"- {row['case']}: {row['flags']}")
        for name, said in row["proofs"].items():
            if said.startswith("unavailable"):
                lines.append(f"- {name} {said}: {row['case']}")
    return "\n".join(lines)


def links_of(run: Run) -> list[LinkVerdict]:
    facts = facts_by_when(run.facts)
    return link_verdicts(facts["before"], facts.get("during"))


@pytest.mark.parametrize("families", PARTS)
def test_every_case_is_measured(gpu: None, results: Path, families: str) -> None:
    """One launch: each case is observed right after it was timed."""
    limits = ("--budget", f"{PARTS[families]}", "--deadline", f"{DEADLINE_S}")
    run = measured(results, *families.split(), "--launches", "1", *limits)
    print(told(run))
    assert "slow" not in {verdict.kind for verdict in links_of(run)}, "it is awake under load"
