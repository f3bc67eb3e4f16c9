"""Processes on Linux: what is seen of one from outside."""

import subprocess
import sys
from pathlib import Path

import pytest

from hostbench.core import processes


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({1: "Z", 2: "D"}, "it waits inside the kernel (a driver or a disk)"),
        ({1: "T"}, "it is stopped (SIGSTOP or a debugger)"),
        ({1: "S", 2: "R"}, ""),
        ({}, ""),
    ],
)
def test_why_a_process_is_still_there_is_told_by_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: dict[int, str], expected: str
) -> None:
    """The first one is a zombie while the driver holds another."""
    for thread, state in states.items():
        folder = tmp_path / "proc" / "1" / "task" / str(thread)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{thread} (a (name) of it) {state} 1 1 1")
    monkeypatch.setattr(processes, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert processes.why_alive(1) == expected


def test_a_signal_in_code_that_is_made_from_text_leaves_the_exit_code(tmp_path: Path) -> None:
    """As dataclasses does while a module is imported: then `python -m` would end by SIGINT."""
    (tmp_path / "ended.py").write_text(
        "import contextlib, os, sys; from hostbench.core.processes import terminate_as_interrupt\n"
        "with contextlib.suppress(KeyboardInterrupt), terminate_as_interrupt():\n"
        "    exec('os.kill(os.getpid(), 15)')\n"
        "sys.exit(4)"
    )
    assert subprocess.run([sys.executable, "-m", "ended"], cwd=tmp_path).returncode == 4
