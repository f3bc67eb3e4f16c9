"""`hostbench nightly`, night by night: a project of its own on the simulated device, by stories."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from hostbench import facts
from hostbench.cli import measuring
from hostbench.cli import nightly as command
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    EXIT_USAGE,
    Interrupted,
    UsageError,
)
from hostbench.core.own_package import declared, import_from
from hostbench.core.processes import only_one
from hostbench.core.records import CaseRecord, Launch
from hostbench.device import simulated_file
from hostbench.facts.gpu import Hardware
from hostbench.judge.two_sides import LEAST_RUNS
from hostbench.report import nightly as report
from hostbench.report.nightly import START_AGAIN
from hostbench.runner.launcher import Launcher
from hostbench.store import archive, nights
from hostbench.vcs import measure, side
from tests import own_project
from tests.commands import hostbench
from tests.fakes.builders import InProcess, walked
from tests.scratch import git

MACHINE = "simulated-box"
WORKLOAD = """
from hostbench import DEVICES, MIB, workload


@workload(
    axes={"device": DEVICES, "way": ("to", "from")}, moves=lambda **_: MIB, version="1"
)
def copies(device, way):
    import mine

    pair = device.host_buffer(MIB, pinned=False), device.buffer(MIB)
    source, target = pair if way == "to" else reversed(pair)
    times = mine.TIMES if way == "to" else 1

    def step():
        for _ in range(times):
            device.copy(target, source, blocking=True)

    return step
"""
CONFIG = {"version": 1, "project": "mine", "repo": ".", "results_dir": "measured"}
NOISE = "noise = 0.004"
ask_declared = side._declared
CASE = "steps.copies[device=cuda,way=to]"
CASES = (CASE, "steps.copies[device=cuda,way=from]")


class Story:
    """A project, and the nights that it has seen."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.results = folder / "results"
        self.said = self.out = ""
        self.facts: facts.Facts = {}

    def commit(self, message: str, times: int = 1) -> str:
        (self.root / "mine.py").write_text(f"TIMES = {times}  # {message}\n")
        sys.modules.pop("mine", None)  # InProcess has imported it
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "--allow-empty", "-m", message)
        return git(self.root, "rev-parse", "HEAD")

    def night(
        self,
        day: int,
        *more: str,
        torch: str = "2.12",
        throttled: str = "none",
        slower: float = 1.0,
        machine: str = MACHINE,
        does: str = "nightly",
        device: str = "simulated",
    ) -> int:
        lines = (f"seed = {day}", NOISE, f"slowdown.steps = {slower}")
        (self.folder / "night.toml").write_text("\n".join(lines))
        self.facts = {
            "software": {"torch": torch},
            "gpu0": {"name": "Simulated GPU", "throttle_reasons": throttled},
        }
        asked = ("--device", device, "--machine", machine, "--results", self.results)
        code, self.out, err = hostbench(does, *asked, *more, code=None)
        self.said = self.out + err
        return code

    def quiet_nights(self) -> None:
        """As many as tell how much runs differ; the last is night 1. The first test that asks
        makes them."""
        before = self.root.with_name("quiet")
        if before.exists():
            git(self.root, "reset", "-q", "--hard", "quiet")
            shutil.copytree(before, self.results)
            return
        self.commit("begin")
        git(self.root, "tag", "quiet")
        for day in range(2 - LEAST_RUNS, 2):
            assert self.night(day % 1000) == EXIT_OK
        shutil.copytree(self.results, before)

    @property
    def answer(self) -> str:
        return self.said.splitlines()[0]

    def stored(self) -> list[nights.Night]:
        return nights.of_machine(self.results, MACHINE, pytest.fail)


class OfSide(InProcess):
    """With the package of one commit, in this process."""

    def __init__(self, tick: Any, root: Path, variables: Any) -> None:
        super().__init__()
        self.package = declared(variables)

    def run(self, launch: Launch) -> Iterator[CaseRecord]:
        assert self.package is not None
        with pytest.MonkeyPatch.context() as own:
            for name in ("path", "meta_path"):
                own.setattr(sys, name, [*getattr(sys, name)])
            import_from(self.package)
            sys.modules.pop("mine", None)
            records = walked(launch)
            sys.modules.pop("mine", None)
        yield from records


def launcher(*args: Any, of_side: Any = OfSide) -> Any:
    """Of the working tree, and of a side of what is measured again."""
    return of_side(*args) if len(args) > 1 else InProcess()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One for all: its workloads are imported once in this process."""
    root = tmp_path_factory.mktemp("nights") / "project"
    (root / "benchmarks").mkdir(parents=True)
    (root / "benchmarks" / "steps.py").write_text(WORKLOAD)
    (root / "asv.conf.json").write_text(json.dumps(CONFIG))
    (root / ".gitignore").write_text("__pycache__/\n")
    git(root, "init", "-q", "-b", "main")
    with own_project.forgotten():
        yield root


@pytest.fixture
def story(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    monkeypatch.delenv("HOSTBENCH_MACHINE", raising=False)
    monkeypatch.setenv(simulated_file.VARIABLE, str(tmp_path / "night.toml"))
    monkeypatch.setattr(measuring, "become_subreaper", lambda: None)
    monkeypatch.setattr(measure, "Launcher", launcher)
    monkeypatch.setattr(side, "_declared", lambda *_: (dict.fromkeys(CASES, "1"), {}))
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(project))
    made = Story(project, tmp_path)
    monkeypatch.setattr(simulated_file.Simulation, "all_facts", lambda _: made.facts)
    yield made
    sys.modules.pop("mine", None)
    assert not list((made.results / ".journals").glob("*.jsonl"))


def test_a_fortnight(story: Story) -> None:
    """Each night's first line names what happened, and its exit code is right. The first change is
    measured again by real processes."""

    def night(day: int, **more: Any) -> int:
        return story.night(day, "--summary", str(story.folder / f"night-{day:02d}.md"), **more)

    def quiet(day: int, **facts: Any) -> None:
        assert night(day, **facts) == EXIT_OK
        assert story.answer.startswith("No new change: 2 series measured; half of them would not ")

    first = story.commit("begin")
    for day in (20, 21):
        assert night(day) == EXIT_OK
        assert story.answer.startswith("Not judged (too few runs before it): 2 series measured")
    for day in (22, 23, 24, 1, 2):
        assert night(day) == EXIT_OK
    quiet(3)

    story.commit("Copy twice", times=2)
    real = partial(launcher, of_side=Launcher)
    with patch.object(measure, "Launcher", real), patch.object(side, "_declared", ask_declared):
        assert night(5) == EXIT_REGRESSION
    assert story.answer.startswith("Slower: 1 series, steps.copies[device=cuda,way=to] +")
    assert "(code: " in story.answer and "Copy twice)" in story.answer
    night_of_change = story.stored()[-1]
    (change,) = night_of_change.changes
    changed_on = night_of_change.started_at[:10]
    assert (change.case, change.cause) == (CASE, "code") and 0.9 < change.effect < 1.1

    story.commit("day 6", times=2)
    quiet(6)
    assert f"; known and still slower: 1 step, as {CASE}@{MACHINE} +9" in story.answer
    assert f" since {str(night_of_change.commit)[:8]} {changed_on} (" in story.answer
    event = (f"{CASE}@{MACHINE}", str(night_of_change.commit), "accepted")
    hostbench("triage", *event, "--results", story.results)
    quiet(7)
    assert "still slower" not in story.answer

    new_torch: dict[str, Any] = {"torch": "2.13", "slower": 1.1}
    assert night(9, **new_torch) == EXIT_REGRESSION
    assert story.answer.startswith("Slower: 2 series, most of all ")
    assert "(environment: torch: 2.12 -> 2.13)" in story.answer

    assert night(11, torch="2.13", throttled="thermal", slower=1.3) == EXIT_OK
    assert story.answer.startswith("Disturbed: 2 series")
    assert "gpu0.throttle_reasons: none -> thermal" in story.answer
    written = (story.folder / "night-11.md").read_text()
    assert written.startswith("## Disturbed: 2 series")

    quiet(12, **new_torch)
    assert story.stored()[0].commit == first


def test_an_interrupted_night_is_told_and_the_next_is_whole(story: Story) -> None:
    """No later night is held against it."""
    story.commit("begin")
    summary = story.folder / "summary.md"
    said = f"Interrupted, {START_AGAIN}"
    whole = InProcess.run

    def run(self: InProcess, launch: Launch) -> Iterator[CaseRecord]:
        if len(self.launches) == 3:
            raise KeyboardInterrupt
        yield from whole(self, launch)

    with patch.object(InProcess, "run", run):
        assert story.night(1, "--summary", str(summary)) == EXIT_FAILED
    assert story.answer.startswith(said) and "3 of 12 launches" in story.said
    assert summary.read_text().startswith(f"## {said}") and not story.stored()
    assert story.night(1, "--format", "html") == EXIT_OK
    assert len(story.stored()) == 1
    assert "2 series measured" in story.said and "every case" in story.said
    for error in (KeyboardInterrupt(), Interrupted("before the first case")):
        with patch.object(report, "list_differences", side_effect=error):
            assert story.night(2, slower=1.2) == EXIT_FAILED
        assert story.answer.startswith(said) and len(story.stored()) == 1


def test_what_fails_on_the_way_is_told(story: Story) -> None:
    """What fails beside the measuring hides nothing: the night is judged all the same."""
    story.commit("begin")
    summary = story.folder / "summary.md"
    with patch.object(command, "open_history", side_effect=ValueError("odd")):
        assert story.night(1, "--summary", str(summary)) == EXIT_FAILED
    assert story.answer.startswith("Broken off: ValueError: odd [")
    assert summary.read_text().startswith("## Broken off: ValueError: odd")
    with patch.object(archive, "write", side_effect=UsageError("No space left")):
        assert story.night(2) == EXIT_FAILED
    assert story.answer.startswith("Broken off: No space left")
    with patch.object(command, "write_file", side_effect=UsageError("read only")):
        assert story.night(3, "--summary", str(summary)) == EXIT_FAILED
    assert len(list(story.results.glob("*/runs/*.gz"))) == 3, "the second waited in its journal"
    assert story.answer.startswith("Not judged (too few runs before it): 2 series measured")
    assert "the summary is not written: read only" in story.answer


def test_a_second_nightly_measures_nothing(story: Story) -> None:
    story.commit("begin")
    summary = story.folder / "summary.md"
    with only_one(f"simulations into {story.results}"):
        assert story.night(1, "--summary", str(summary)) == EXIT_NOTHING_MEASURED
    assert "another nightly measures simulations into" in story.said
    assert not summary.exists() and not list(story.results.rglob("*.gz"))
    assert story.night(1) == EXIT_OK


def test_what_fails_before_the_measuring_is_told(story: Story) -> None:
    story.commit("begin")
    summary = story.folder / "summary.md"
    assert story.night(1, "--case", "steps.nothing", "--summary", str(summary)) == EXIT_USAGE
    assert story.answer.startswith("Nothing measured: 'steps.nothing' selects no case")
    assert summary.read_text().startswith("## Nothing measured: ")
    assert story.night(1, "--summary", str(story.folder)) == EXIT_USAGE
    assert "--summary" in story.said


def test_neither_a_run_by_hand_nor_a_disturbed_night_hides_what_moved(story: Story) -> None:
    """What moved before it, and is in it, has still moved; what both a disturbance and a new torch
    explain is told by the next night."""
    story.quiet_nights()
    story.night(3, torch="2.13", slower=1.4, does="run")
    assert story.night(4, torch="2.13", throttled="thermal", slower=1.6) == EXIT_OK
    assert story.answer.startswith("Disturbed: 2 series")
    assert story.night(5, torch="2.13", slower=1.4) == EXIT_REGRESSION
    assert "(environment: torch: 2.12 -> 2.13)" in story.answer


@pytest.mark.parametrize("killed", [InProcess, OfSide, None])
def test_what_could_not_be_measured_is_the_next_nights(
    story: Story, killed: type[InProcess] | None
) -> None:
    """A launch of the night's run, one of what is measured again, or all of that."""
    story.quiet_nights()
    story.commit("Copy twice", times=2)
    lost: Any = patch.object(command, "measure_sides", side_effect=UsageError("it was killed"))
    if killed is not None:
        lost = patch.object(killed, "run", _killing(killed.run))
    with lost:
        code = story.night(3)
    fails = killed is InProcess
    answer = f"Failed: 1 series, {CASE} (killed)" if fails else "Not measured again: 1 series"
    assert story.answer.startswith(answer) and code == (EXIT_FAILED if fails else EXIT_OK)
    assert story.night(4) == EXIT_REGRESSION and "(code: " in story.answer


def test_a_commit_that_touches_nothing_measured_is_the_same_code(story: Story) -> None:
    """What its torch has done, and is undone the next night, is told, too: a series is not held
    against runs from before its last confirmed change."""
    story.quiet_nights()
    with (story.root / "benchmarks" / "steps.py").open("a") as file:
        file.write("# the workloads are the working tree's on both sides\n")
    git(story.root, "commit", "-qam", "a comment")
    assert story.night(3, torch="2.13", slower=1.2) == EXIT_REGRESSION
    assert "(environment: torch: 2.12 -> 2.13)" in story.answer
    assert story.night(4, torch="2.12") == EXIT_OK
    assert story.answer.startswith("Faster: 2 series") and "till slower" not in story.said


def test_a_night_that_judges_nothing_says_so(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    story.commit("begin")
    story.night(1)
    assert story.night(2, "--launches", "3") == EXIT_NOTHING_MEASURED
    assert story.answer.startswith("Not judged (3 launches, under 7): 2 series measured")
    monkeypatch.setattr(command, "FOR_THE_RUN", 0.0)
    assert story.night(3, "--budget", "60s") == EXIT_NOTHING_MEASURED
    assert story.answer.startswith("Not judged (1 launch, under 7): ")


def test_what_fails_and_what_is_damaged_is_named(story: Story) -> None:
    story.commit("begin")
    assert story.night(1, "--budget", "60s", "--format", "json") == EXIT_OK
    night = json.loads(story.out)
    assert (night["exit_code"], night["machine"], night["series"]) == (0, MACHINE, [])
    (story.root / "mine.py").write_text("broken\n")
    sys.modules.pop("mine", None)
    git(story.root, "commit", "-qam", "Break it")
    (path,) = story.results.glob("*/nights/*")
    path.write_bytes(gzip.compress(b'{"run_id": 5}'))
    assert story.night(2) == EXIT_FAILED
    assert story.answer.startswith("Failed: 2 series, as ")
    assert "NameError" in story.said and "report --run" in story.said
    assert f"{path} is damaged" in story.answer
    assert "restore it from git or delete it" in story.answer


ON_ITS_DISK = """
cd {folder} && mount -t tmpfs -o size=512k tmpfs disk && cp -r results table disk
(cd disk; {spoil}) 2> /dev/null
cd {project}
{python} -m hostbench nightly --device simulated --machine {machine} --results {folder}/disk/results
echo exit $?
{python} -m hostbench publish file://{folder}/disk/table --results {folder}/results
echo exit $?
"""


SPOILED = {
    "No space left on device": "head -c 1M /dev/zero > ballast",
    "Read-only file system": "mount -o remount,ro {folder}/disk",
}


def test_a_disk_that_cannot_be_written(story: Story) -> None:
    """One line of a night, one of what publishes."""
    unshare = ("unshare", "--mount", *(["--user", "--map-root-user"] * (os.getuid() != 0)))
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("this machine gives no mount namespace")
    folder = story.folder
    (folder / "disk").mkdir()
    story.commit("begin")
    story.night(1)
    hostbench("publish", f"file://{folder}/table", "--results", story.results)
    assert story.night(2) == EXIT_OK
    about = {"project": story.root, "python": sys.executable, "machine": MACHINE}
    for why, spoil in SPOILED.items():
        script = ON_ITS_DISK.format(folder=folder, spoil=spoil.format(folder=folder), **about)
        done = subprocess.run([*unshare, "sh", "-c", script], text=True, capture_output=True)
        night, *_, published = done.stdout.splitlines()
        assert night.startswith("Broken off: cannot write ") and why in night
        assert done.stdout.count(f"exit {EXIT_FAILED}\n") == 2 and published == "exit 4"
        assert "hostbench: cannot write the table at file://" in done.stderr and why in done.stderr
        assert "panicked" not in done.stderr and "Traceback" not in done.stderr


def _killing(run: Callable[..., Iterator[CaseRecord]]) -> Callable[..., Iterator[CaseRecord]]:
    """The worker of a case is killed in the fourth launch."""

    def killing(self: Any, launch: Launch) -> Iterator[CaseRecord]:
        for one in run(self, launch):
            is_killed = launch.number == 3 and str(one.case) == CASE
            yield replace(one, status="failed", reason="killed", seconds=None) if is_killed else one

    return killing


def test_a_machine_that_has_lost_its_gpu_is_a_failure(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a first night on cpu: nothing is measured."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    lost = Hardware(num_gpus=0, why="the NVIDIA driver shows no GPU")
    monkeypatch.setattr(facts, "nvidia_hardware", lambda: lost)
    monkeypatch.setattr(command, "only_one", nullcontext)  # a night of this machine may go on
    assert story.night(1, device="cuda") == EXIT_FAILED
    said = (
        "Broken off: --device cuda: no NVIDIA GPU is visible (the NVIDIA driver shows no GPU): fix"
    )
    assert story.answer.startswith(said)
    assert not story.results.exists()
