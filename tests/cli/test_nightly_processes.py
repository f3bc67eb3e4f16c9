"""The long form of `hostbench nightly`: the real program, ended by signals, and on a full disk."""

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REGRESSION
from hostbench.device import simulated_file
from tests.cli.test_nightly import MACHINE, NOISE, project
from tests.turns import git

pytestmark = pytest.mark.soak
ON_A_SMALL_DISK = "mount -t tmpfs -o size=64k tmpfs {0} && for day in 1 2; do {1}; done"

_ = project


@dataclass(kw_only=True)
class Machine:
    """A project, and the program as a process in it."""

    root: Path
    folder: Path
    said: str = ""
    results: Path = field(init=False)

    def __post_init__(self) -> None:
        self.results = self.folder / "results"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.md"

    @property
    def answer(self) -> str:
        return self.summary.read_text().splitlines()[0]

    def commit(self, times: int) -> None:
        (self.root / "mine.py").write_text(f"TIMES = {times}\n")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "--allow-empty", "-m", f"{times} times")

    def command(self) -> list[str]:
        asked = ("--device", "simulated", "--machine", MACHINE, "--results", str(self.results))
        called = (sys.executable, "-m", "hostbench", "nightly")
        return [*called, *asked, "--summary", str(self.summary)]

    def start(self, day: int) -> subprocess.Popen[str]:
        story = self.folder / "night.toml"
        story.write_text(f"seed = {day}\n{NOISE}\n")
        self.summary.unlink(missing_ok=True)
        return subprocess.Popen(
            self.command(),
            cwd=self.root,
            env={**os.environ, simulated_file.VARIABLE: str(story)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def night(self, day: int) -> int:
        process = self.start(day)
        self.said, _ = process.communicate(timeout=120)
        return process.returncode

    def ended(self, day: int, number: signal.Signals, step: str) -> int:
        """A night that gets the signal at that line of its progress."""
        process = self.start(day)
        assert process.stderr is not None
        assert any(re.search(step, line) for line in process.stderr)
        process.send_signal(number)
        process.communicate(timeout=60)
        return process.returncode


@pytest.fixture
def machine(project: Path, tmp_path: Path) -> Machine:
    return Machine(root=project, folder=tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_in_any_step_loses_nothing(machine: Machine, number: signal.Signals) -> None:
    ends = {signal.SIGTERM: EXIT_FAILED, signal.SIGKILL: -signal.SIGKILL}[number]
    machine.commit(1)
    assert machine.night(1) == EXIT_OK
    assert machine.ended(2, number, r"launch 3 of 10") == ends
    assert machine.summary.exists() == (number == signal.SIGTERM)
    for day in range(2, 6):
        assert machine.night(day) == EXIT_OK and "10 launches" in machine.said

    machine.commit(2)
    assert machine.ended(7, number, r"interleaved with") == ends
    assert machine.summary.exists() == (number == signal.SIGTERM)
    assert machine.night(8) == EXIT_REGRESSION and "(code: " in machine.answer

    assert not list((machine.results / ".journals").glob("*.jsonl"))


def test_a_full_disk_is_told(machine: Machine) -> None:
    """The second of two nights has no room left."""
    machine.commit(1)
    machine.results.mkdir()
    (machine.folder / "night.toml").write_text(NOISE)
    unshare = ("unshare", "--mount", *(["--user", "--map-root-user"] * (os.getuid() != 0)))
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("this machine gives no mount namespace")
    fill = f"head -c 1M /dev/zero > {machine.results}/ballast"
    one = f"{' '.join(machine.command())}; echo exit $?; {fill}"
    done = subprocess.run(
        [*unshare, "sh", "-c", ON_A_SMALL_DISK.format(machine.results, one)],
        cwd=machine.root,
        env={**os.environ, simulated_file.VARIABLE: str(machine.folder / "night.toml")},
        text=True,
        capture_output=True,
        check=False,
    )
    codes = re.findall(r"exit (\d)", done.stdout)
    assert codes == [str(EXIT_OK), str(EXIT_FAILED)], done.stdout + done.stderr
    assert "No space left" in machine.answer and "Broken off" in machine.answer
