"""Processes on Linux: how one ends."""

import subprocess
import sys
from pathlib import Path


def test_a_signal_in_code_that_is_made_from_text_leaves_the_exit_code(tmp_path: Path) -> None:
    """As dataclasses does while a module is imported: then `python -m` would end by SIGINT."""
    (tmp_path / "ended.py").write_text(
        "import contextlib, os, sys; from hostbench.core.processes import terminate_as_interrupt\n"
        "with contextlib.suppress(KeyboardInterrupt), terminate_as_interrupt():\n"
        "    exec('os.kill(os.getpid(), 15)')\n"
        "sys.exit(4)"
    )
    assert subprocess.run([sys.executable, "-m", "ended"], cwd=tmp_path).returncode == 4
