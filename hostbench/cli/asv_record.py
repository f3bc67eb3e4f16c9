"""Have asv record a run that hostbench has just measured."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec import structs

import hostbench
from hostbench import suite
from hostbench.core.asv_config import without_plugin
from hostbench.core.asv_names import asv_name
from hostbench.core.case import Case
from hostbench.core.errors import EXIT_OK
from hostbench.runner.journal import JournalWriter
from hostbench.store import asv_tree
from hostbench.store.runs import WholeRun

_ASV_BENCHMARK_FAILED = 2
"""asv's exit code when a benchmark failed: the failure is in our records too."""


def record(run: WholeRun, root: Path, results: Path) -> str | None:
    """Run asv on the run's commit; its setup_cache reads the records instead of measuring.

    Returns None, or what went wrong. The archive is complete either way.
    """
    if lacking := without_plugin(root):
        return lacking
    began_ms = time.time() * 1000
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        recorded = Path(folder) / "recorded.journal.jsonl"
        with JournalWriter(recorded, structs.replace(run.header, resumes=None)) as journal:
            for one in run.winners().values():
                journal.case(one)
        package = str(Path(hostbench.__file__).parent.parent)  # of asv's plugin
        cases = [result.case for result in run.results()]
        done = subprocess.run(
            _command(run, cases),
            cwd=root,
            env={**os.environ, suite.RECORDED: str(recorded), "PYTHONPATH": package},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if done.returncode in (EXIT_OK, _ASV_BENCHMARK_FAILED) and _stored(run, results, began_ms):
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    why = lines[-1] if lines else "it said nothing"
    return f"asv ended with {done.returncode}: {why}"


def _stored(run: WholeRun, results: Path, since_ms: float) -> bool:
    """Whether asv's file of the commit has a row of every workload since then."""
    wanted = {asv_name(result.case.workload) for result in run.results()}
    files = asv_tree.files_of_commit(results, str(run.header.commit), run.header.machine)
    found = {name for file in files for name, started in file.started if started >= since_ms - 1}
    return wanted <= found


def _command(run: WholeRun, cases: list[Case]) -> list[str]:
    guard = str(Path(hostbench.__file__).with_name("asv_guard.py"))
    asv = [sys.executable, "-P", guard, "-m", "asv", "run", f"{run.header.commit}^!"]
    options = ["--machine", str(run.header.machine), "--record-samples", "--show-stderr"]
    patterns = [part for pattern in suite.selection(cases) for part in ("-b", pattern)]
    return [*asv, *options, *patterns]
