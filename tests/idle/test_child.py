"""A command under `hostbench idle`: how it is ended, and by what. No torch is in it."""

import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from hostbench.core.errors import UsageError
from hostbench.idle import child
from hostbench.idle.child import recorded
from hostbench.idle.recording import RecordSettings


def command(*words: str) -> Sequence[str]:
    return [sys.executable, "-m", "hostbench", "idle", *words]


def settings(folder: str) -> RecordSettings:
    return RecordSettings(folder, 2, 3, seconds=60.0, after_s=60.0)


def is_gone(pid: Path) -> bool:
    return not Path(f"/proc/{pid.read_text().strip()}").exists()


SLEEPS = "sleep 1000 & echo $! > pid.new; mv pid.new pid; wait"


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


@pytest.mark.parametrize("number", (signal.SIGTERM, signal.SIGINT))
def test_a_signal_is_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    """To the script and to what it started, where no terminal has sent it; each may end by it,
    and is not killed."""
    trap = f"trap 'kill $!; exit {number + 100}' {number}; {SLEEPS}"
    started = subprocess.Popen(
        command("--", "bash", "-c", trap), cwd=tmp_path, start_new_session=True
    )
    wait_for(tmp_path / "pid")
    started.send_signal(number)
    assert started.wait(120) == number + 100
    assert is_gone(tmp_path / "pid")


def test_what_does_not_end_by_a_signal_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_TO_END_S", 0.5)
    monkeypatch.setattr(child, "_all_recorded", lambda _: (tmp_path / "pid").exists())
    monkeypatch.chdir(tmp_path)
    with recorded(["bash", "-c", f"trap '' TERM; {SLEEPS}"], settings, stop=True) as done:
        assert done.exit_code == 128 + signal.SIGKILL
    assert is_gone(tmp_path / "pid")


def test_ctrl_c_in_a_terminal_arrives_once(tmp_path: Path) -> None:
    """The terminal sends it to all that runs in the foreground."""
    ours, theirs = pty.openpty()
    script = "trap 'echo got >> got' INT; touch pid; for i in 1 2 3 4 5 6 7 8; do sleep 0.2; done"
    inside = shlex.join(command("--", "bash", "-c", script))
    started = subprocess.Popen(
        ["sh", "-c", f"exec < {os.ttyname(theirs)}; exec {inside}"],
        cwd=tmp_path,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_for(tmp_path / "pid")
    os.write(ours, b"\x03")
    assert started.wait(120) == 3
    assert (tmp_path / "got").read_text() == "got\n"
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("keep", ("file", "/proc/new"))
def test_a_folder_that_cannot_be_made(tmp_path: Path, keep: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=rf"cannot write to .*{keep}: "):
        with recorded(["true"], lambda _: pytest.fail("begun"), keep=tmp_path / keep):
            pass
