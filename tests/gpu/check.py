"""`make gpu-check`, which is `python -m tests.gpu.check -o DIR`: what only a GPU can show.

CUDA code is mostly written where there is no GPU. This is what to run on the day there is one: each
file of these tests in a process of its own, so that neither a CUDA error nor a call that hangs
spoils the others, in order of worth, in under ten minutes. DIR/report.md has the machine's facts
and what pytest said of each file. It is there to be sent: it holds no name of the machine or its
user, no serial number and no UUID.

Exit codes: 0 all is well, 2 DIR cannot be written, 3 there is no GPU, 4 a test failed, CUDA does
not work, or a package is missing without which nothing can be run.
"""

import argparse
import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOLDER = "HOSTBENCH_GPU_REPORT"
"""Names the folder of the report, in which a test may keep what it measured."""
EVERY_FILE = ("torch", "msgspec", "numpy", "pytest")
"""Without one of these packages nothing can be run."""
BUDGETS = {"test_cuda_device": 60.0, "test_run": 330.0, "test_nccl": 60.0, "test_copies": 35.0,
           "test_facts": 25.0}  # fmt: skip
"""Seconds of a file, the ones of most worth first. At worst torch's import and the start of CUDA
take 14 s of each, and of each `hostbench run` once more."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.check", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    folder: Path = parser.parse_args(argv).output.resolve()
    if missing := [name for name in EVERY_FILE if find_spec(name) is None]:
        print(f"gpu-check: nothing can be run: pip install {' '.join(missing)}", file=sys.stderr)
        return EXIT_FAILED
    from hostbench import facts  # its packages are known to be there now

    if not (hardware := facts.nvidia_hardware()).visible:
        print(f"gpu-check: nothing measured: no NVIDIA GPU here: {hardware.why}")
        return EXIT_NOTHING_MEASURED
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"gpu-check: cannot write to {folder}: {error}; choose another -o", file=sys.stderr)
        return EXIT_USAGE
    os.environ.pop("HOSTBENCH_MACHINE", None)  # a name, in a report that is there to be sent
    torch = facts.probe_torch()
    if not torch.cuda_works:
        why = torch.error or "torch does not say why"
        print(f"gpu-check: torch.cuda does not work: {why}", file=sys.stderr)
        return EXIT_FAILED
    print(f"gpu-check: in under {sum(BUDGETS.values()) / 60:.0f} minutes", flush=True)
    is_well = check(folder, facts.to_json(facts.collect(torch_state=torch)))
    print(f"to send it: tar -czf {folder.name}.tar.gz -C {folder.parent} {folder.name}")
    return EXIT_OK if is_well else EXIT_FAILED


def check(folder: Path, facts: Mapping[str, Mapping[str, object]]) -> bool:
    """Run the files in order, and write the report after each. Whether all have passed."""
    rows = [
        f"| {group}.{name} | {str(value).replace('|', '/')} |"
        for group, members in facts.items()
        for name, value in members.items()
    ]
    report = "\n".join(["# GPU check", "", "| fact | value |", "|---|---|", *rows]) + "\n"
    is_well = True
    for name in BUDGETS:
        said, why = _run(HERE / f"{name}.py", folder)
        is_well &= not why
        print(f"{name}: {why or 'passed'}", flush=True)
        report += f"\n## {name}: {why or 'passed'}\n\n~~~\n{said}\n~~~\n"
        (folder / "report.md").write_text(without_names(report), encoding="utf-8")
    return is_well


def _run(path: Path, folder: Path) -> tuple[str, str]:
    """What pytest says of a file in a process group of its own, and why it is not well."""
    settings = ["-c", str(Path(__file__).with_name("check.ini")), "--rootdir", str(ROOT)]
    argv = [sys.executable, "-m", "pytest", *settings, "-rA", "--no-header", str(path)]
    with subprocess.Popen(
        argv,
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", FOLDER: str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        limit = BUDGETS[path.stem]
        try:
            said, _ = child.communicate(timeout=limit)
            why = {0: "", 1: "FAILED"}.get(child.returncode, f"ended with {child.returncode}")
        except subprocess.TimeoutExpired:
            why = f"ended after {limit:.0f} s: the tests from there on were not reached"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            said, _ = child.communicate()
    return said, why


def without_names(text: str) -> str:
    """The same without this machine's name, this user's folders and any GPU's UUID."""
    node, home = platform.node(), Path.home()
    text = text.replace(str(ROOT), ".")
    if home != Path("/"):
        text = text.replace(str(home), "~")
    for name in {node, node.partition(".")[0]} - {"", "localhost"}:
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "HOST", text)
    return re.sub(r"\b(GPU|MIG)-[0-9a-fA-F]{8}-[0-9a-fA-F-]+", r"\1-UUID", text)


if __name__ == "__main__":
    sys.exit(main())
