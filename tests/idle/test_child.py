"""A command under `hostbench idle`: how it is ended, and by what. No torch is in it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hostbench.core.errors import UsageError
from hostbench.idle import child
from hostbench.idle.child import recorded

SETTINGS: dict[str, Any] = {"warmup": 2, "steps": 3, "seconds": 60.0}


def is_gone(pid: Path) -> bool:
    return not Path(f"/proc/{pid.read_text().strip()}").exists()


SLEEPS = "sleep 1000 & echo $! > pid.new; mv pid.new pid; wait"


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "code"), [("TERM", 115), ("INT", 117)], ids=["SIGTERM", "Ctrl-C of a terminal"]
)
def test_a_signal_is_passed_on(tmp_path: Path, name: str, code: int) -> None:
    """SIGTERM to the script and to what it started; each may end by it, and is not killed. Ctrl-C a
    terminal sends to all that runs; what the script says then is the answer."""
    trap = f"trap 'kill $!; exit {code}' {name}; {SLEEPS}"
    argv = [sys.executable, "-m", "hostbench", "idle", "--", "bash", "-c", trap]
    started = subprocess.Popen(argv, cwd=tmp_path, start_new_session=True)
    wait_for(tmp_path / "pid")
    send = os.killpg if name == "INT" else os.kill
    send(started.pid, signal.Signals[f"SIG{name}"])
    assert started.wait(120) == code
    assert name == "INT" or is_gone(tmp_path / "pid")


def test_what_does_not_end_by_a_signal_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminate() -> None:
        wait_for(tmp_path / "pid")
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(child, "_TO_END_S", 0.5)
    monkeypatch.chdir(tmp_path)
    Thread(target=terminate).start()
    with recorded(["bash", "-c", f"trap '' TERM; {SLEEPS}"], **SETTINGS) as (exit_code, _):
        assert exit_code == 128 + signal.SIGKILL
    assert is_gone(tmp_path / "pid")


@pytest.mark.parametrize(
    ("command", "keep", "why"),
    [
        ("nosuch", None, "cannot run nosuch"),
        ("true", "file", "cannot write to .*file: "),
        ("true", "/proc/new", "cannot write to /proc/new: "),
    ],
)
def test_what_cannot_be_begun(tmp_path: Path, command: str, keep: str | None, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=why):
        with recorded([command], keep=tmp_path / keep if keep else None, **SETTINGS):
            pytest.fail("begun")
