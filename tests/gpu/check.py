"""`make gpu-check`, which is `python -m tests.gpu.check -o DIR`: what only a GPU can show.

CUDA code is mostly written where there is no GPU. This is what to run on the day there is one: each
file of these tests in a process of its own, so that neither a CUDA error nor a call that hangs
spoils the others, in order of worth, in under ten minutes. It writes DIR/report.md and
DIR/report.json; the log of each file lies beside them. Whatever else a file lacks fails there, with
its reason; no network is needed.

Exit codes: 0 all is well, 2 DIR cannot be written, 3 there is no GPU, 4 a test failed, CUDA does
not work, or a package is missing without which nothing can be run.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE
from tests.gpu import report
from tests.gpu.budget import BUDGETS, GRACE_S, OTHERS_S, TOTAL_S

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SETTINGS = HERE / "check.ini"
EVERY_FILE = ("torch", "msgspec", "numpy", "pytest")
"""Without one of these packages nothing can be run."""
LEAST_S = 3.0
"""With less time than this left, a file is not started."""


def main(argv: Sequence[str] | None = None) -> int:
    began_s = time.monotonic()
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.check", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    folder: Path = parser.parse_args(argv).output.resolve()
    if missing := [name for name in EVERY_FILE if find_spec(name) is None]:
        print(f"gpu-check: nothing can be run: pip install {' '.join(missing)}", file=sys.stderr)
        return EXIT_FAILED
    if why := _no_gpu():
        print(f"gpu-check: nothing measured: no NVIDIA GPU here: {why}")
        return EXIT_NOTHING_MEASURED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / report.LINES).unlink(missing_ok=True)
    except OSError as error:
        print(f"gpu-check: cannot write to {folder}: {error}; choose another -o", file=sys.stderr)
        return EXIT_USAGE
    os.environ.pop("HOSTBENCH_MACHINE", None)  # a name, in a report that is there to be sent
    facts, why = _facts()
    if why:
        print(f"gpu-check: torch.cuda does not work: {why}", file=sys.stderr)
        return EXIT_FAILED
    files = sorted(HERE.glob("test_*.py"), key=_worth)
    print(f"gpu-check: {len(files)} files in under {TOTAL_S / 60:.0f} minutes", flush=True)
    code = check(files, folder, facts, began_s=began_s)
    print(f"to send it: tar -czf {folder.name}.tar.gz -C {folder.parent} {folder.name}")
    return code


def _no_gpu() -> str | None:
    """Why none is visible. Its packages are imported once they are known to be there."""
    from hostbench.facts import nvidia_hardware

    hardware = nvidia_hardware()
    return None if hardware.visible else str(hardware.why)


def _facts() -> tuple[Mapping[str, object], str | None]:
    """The facts of this machine, without names; and why torch.cuda does not work."""
    from hostbench.facts import collect, probe_torch, to_json

    torch = probe_torch()
    if not torch.cuda_works:
        return {}, torch.error or "torch does not say why"
    return to_json(collect(torch_state=torch)), None


def check(
    files: Sequence[Path],
    folder: Path,
    facts: Mapping[str, object],
    total_s: float = TOTAL_S,
    others_s: float = OTHERS_S,
    began_s: float | None = None,
) -> int:
    """Run the files in order, and write the report after each."""
    began_s = time.monotonic() if began_s is None else began_s
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
    settings = ["-c", str(SETTINGS), "--rootdir", str(ROOT), "-p", "tests.gpu.report"]
    argv = [sys.executable, "-m", "pytest", *settings, "-ra", "--no-header", str(path)]
    place = folder / f"{path.stem}.log"
    with place.open("wb") as log:
        child = subprocess.Popen(
            argv,
            cwd=ROOT,
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
    place.write_text(report.without_names(place.read_text(errors="replace")))
    if why:
        report.note(path.name, "failed", time.monotonic() - began_s, why)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End what is left of the child's session: kindly first, then not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _worth(path: Path) -> tuple[int, str]:
    known = list(BUDGETS)
    return (known.index(path.stem) if path.stem in known else len(known), path.name)


if __name__ == "__main__":
    sys.exit(main())
