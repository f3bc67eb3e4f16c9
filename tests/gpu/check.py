"""`make gpu-check`, which is `python -m tests.gpu.check -o DIR`: what only a GPU can show.

CUDA code is mostly written where there is no GPU. This is what to run on the day there is one: each
file of these tests in a process of its own, so that neither a CUDA error nor a call that hangs
spoils the others, in order of worth, in under ten minutes. It writes DIR/report.md and
DIR/report.json; the log of each file lies beside them. Needs a Python with torch and pytest, and no
network.

Exit codes: 0 all is well, 2 DIR cannot be written, 3 there is no GPU, 4 a test failed or CUDA does
not work.
"""

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE
from hostbench.facts import collect, nvidia_hardware, probe_torch, to_json
from tests.gpu import report

HERE = Path(__file__).parent
TOTAL_S = 570.0
LEAST_S = 3.0
"""With less time than this left, a file is not started."""
BUDGETS = {"test_cuda_device": 120.0, "test_run": 320.0, "test_nccl": 90.0}
"""Seconds of a file, the ones of most worth first; the others follow."""
OTHERS_S = 60.0
_GRACE_S = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.check", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    folder: Path = parser.parse_args(argv).output.resolve()
    hardware = nvidia_hardware()
    if not hardware.visible:
        print(f"gpu-check: nothing measured: no NVIDIA GPU here: {hardware.why}")
        return EXIT_NOTHING_MEASURED
    torch = probe_torch()
    missing = not importlib.util.find_spec("pytest")
    if missing or not torch.cuda_works:
        why = "pytest is not installed" if missing else f"torch.cuda does not work: {torch.error}"
        print(f"gpu-check: {why}; `make gpu-check` installs what it needs", file=sys.stderr)
        return EXIT_FAILED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / report.LINES).unlink(missing_ok=True)
    except OSError as error:
        print(f"gpu-check: cannot write to {folder}: {error}; choose another -o", file=sys.stderr)
        return EXIT_USAGE
    facts = to_json(collect(torch_state=torch))
    return check(sorted(HERE.glob("test_*.py"), key=_worth), folder, facts)


def check(
    files: Sequence[Path],
    folder: Path,
    facts: Mapping[str, object],
    total_s: float = TOTAL_S,
    others_s: float = OTHERS_S,
) -> int:
    """Run the files in order, and write the report anew after each."""
    began_s = time.monotonic()
    os.environ[report.FOLDER] = str(folder)
    found: list[report.Outcome] = []
    for path in files:
        left_s = total_s - (time.monotonic() - began_s)
        limit_s = min(BUDGETS.get(path.stem, others_s), left_s)
        if limit_s < LEAST_S and left_s < others_s:
            report.note(path.name, "skipped", 0.0, "not reached: the time was spent")
        else:
            _run(path, folder, limit_s)
        before = len(found)
        found = report.write(folder, facts, time.monotonic() - began_s)
        print(f"{path.stem}: {report.in_words(found[before:])}", flush=True)
    print(f"report: {folder / 'report.md'}")
    outcomes = {outcome["outcome"] for outcome in found}
    if "failed" in outcomes:
        return EXIT_FAILED
    return EXIT_OK if "passed" in outcomes else EXIT_NOTHING_MEASURED


def _run(path: Path, folder: Path, limit_s: float) -> None:
    """One file in a process group of its own; its output goes to `NAME.log`."""
    began_s = time.monotonic()
    argv = [sys.executable, "-m", "pytest", "-p", "tests.gpu.report", "-ra", str(path)]
    with (folder / f"{path.stem}.log").open("wb") as log:
        child = subprocess.Popen(
            argv,
            cwd=HERE.parent.parent,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = child.wait(limit_s)
            why = "" if code in (0, 1, 5) else f"its process ended with code {code}; see the log"
        except subprocess.TimeoutExpired:
            why = f"ended after {limit_s:.0f} s: the tests from here on were not reached"
        finally:
            _end(child)
    if why:
        report.note(path.name, "failed", time.monotonic() - began_s, why)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End what is left of the child's session: kindly first, then not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _worth(path: Path) -> tuple[int, str]:
    known = list(BUDGETS)
    return (known.index(path.stem) if path.stem in known else len(known), path.name)


if __name__ == "__main__":
    sys.exit(main())
