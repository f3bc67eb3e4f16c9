"""Checks that run whole programs: the GPU tests, and hostbench itself."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import hostbench
from hostbench.errors import Unavailable
from hostbench.gpu_check.record import Answer

_ROOT = Path(hostbench.__file__).parents[1]
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
    """Three launches of every CUDA case by the program that people use."""
    argv = [sys.executable, "-m", "hostbench", "run", "--launches", "3", "--device", "cuda"]
    code = subprocess.run([*argv, "--results", str(folder / "results")], cwd=_ROOT).returncode
    return Answer(
        status="answered" if code == 0 else "failed",
        text=f"exit code {code}; records in results/, output in the log",
        data={"exit_code": code},
    )
