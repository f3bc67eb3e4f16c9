"""Checks that run whole programs: the GPU tests, and hostbench itself."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import hostbench
from hostbench.core.errors import EXIT_OK, Unavailable
from hostbench.gpu_check.record import Answer
from hostbench.store import runs
from hostbench.store.runs import WholeRun

_ROOT = Path(hostbench.__file__).parents[1]
RUN_S = 200
"""How long the run of every case may take; it ends with the case in hand."""
_COUNTS = ("tests", "failures", "errors", "skipped")


def gpu_tests(folder: Path) -> Answer:
    """tests/gpu one after the other; a run in which every test was skipped has failed."""
    tests = _ROOT / "tests" / "gpu"
    if not tests.is_dir():
        raise Unavailable("tests/gpu comes with a checkout, not with an installed hostbench")
    report = folder / "tests.xml"
    argv = [sys.executable, "-m", "pytest", str(tests), "-ra"]
    code = subprocess.run([*argv, f"--junitxml={report}"], cwd=_ROOT).returncode
    counts = junit_counts(report) if report.exists() else dict.fromkeys(_COUNTS, 0)
    text = f"exit code {code}, " + ", ".join(f"{num} {name}" for name, num in counts.items())
    fine = code == 0 and counts["tests"] > counts["skipped"]
    return Answer(
        status="answered" if fine else "failed", text=text, data={"exit_code": code, **counts}
    )


def junit_counts(report: Path) -> dict[str, int]:
    """Sums over the suites of a junit file."""
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    return {name: sum(int(suite.get(name, 0)) for suite in suites) for name in _COUNTS}


def hostbench_run(folder: Path) -> Answer:
    """Three launches of every CUDA case, as far as the time goes, by the program people use."""
    return _run(folder / "results", "--launches", "3", "--stop-after", str(RUN_S))


def observing_pass(folder: Path) -> Answer:
    """One launch of the quick cases, and what was observed of each of them."""
    return _run(folder / "observed", "--quick", "--launches", "1")


def _run(results: Path, *args: str) -> Answer:
    argv = [sys.executable, "-m", "hostbench", "run", *args, "--device", "cuda", "--no-asv"]
    code = subprocess.run([*argv, "--results", str(results)], cwd=_ROOT).returncode
    found = list(told(runs.load(results, print))) if results.is_dir() else []
    text = "\n".join([f"exit code {code}; records in {results.name}/, output in the log", *found])
    fine = code == EXIT_OK and bool(found)
    return Answer(status="answered" if fine else "failed", text=text, data={"exit_code": code})


def told(found: Iterable[WholeRun]) -> Iterator[str]:
    """How many cases of each status; then each failure, surprise and proof that was not passed."""
    for run in found:
        results = run.results()
        counts = Counter[str](result.status for result in results)
        missing = len(run.not_measured())
        yield (
            ", ".join(f"{num} {word}" for word, num in counts.items()) + f", {missing} not reached"
        )
        for result in results:
            for name, value in result.surprises.items():
                yield f"- surprise: {result.case}: {name} is {value}"
            if result.status == "failed":
                yield f"- failed: {result.case}: {result.reason}"
            for name, said in result.proofs.items():
                if said.startswith("unavailable"):
                    yield f"- {name} {said}: {result.case}"
