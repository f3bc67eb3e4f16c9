"""The program as a process, killed at random moments: 20 times, 500 in `make soak`."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from hostbench.core import journal
from hostbench.core.clock import epoch_s, iso
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.core.processes import with_descendants
from hostbench.device import simulated_file
from hostbench.judge.two_sides import LEAST_RUNS
from hostbench.store import archive, nights
from hostbench.store.results import Results
from tests import own_project
from tests.cli.test_nightly import CONFIG, MACHINE, WORKLOAD
from tests.conftest import SOAK
from tests.scratch import Scratch
from tests.stored import read_tree

pytestmark = [pytest.mark.soak] if SOAK else []
PATIENCE_S, DAY_S = 600.0, 86_400
NUM_KILLS, ROW = int(os.environ.get("HOSTBENCH_KILLS", "125" if SOAK else "5")), 5
"""Of each command, and of those that many in a row."""
MEASURING = ("--device", "simulated", "--machine", MACHINE, "--results")
COMMANDS = {
    "run": (EXIT_OK, ("run", *MEASURING, "{0}")),
    "ab": (EXIT_REGRESSION, ("ab", "HEAD~1", "main", *MEASURING, "{0}")),
    "nightly": (EXIT_REGRESSION, ("nightly", "--summary", "{0}.md", *MEASURING, "{0}")),
    "publish": (EXIT_OK, ("publish", "file://{0}.published", "--results", "{0}")),
}
"""What each comes to, and its words."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """A project whose second commit copies twice, and in `home/nights` what the first came to, as
    if measured night after night."""
    project = own_project.empty(tmp_path_factory.mktemp("killed"))
    own_project.write(project.root, f"# benchmarks/steps.py\n{WORKLOAD}")
    (project.root / "asv.conf.json").write_text(json.dumps(CONFIG))
    (project.root / ".gitignore").write_text("__pycache__/\n")
    story = project.home / "story.toml"
    project.environ[simulated_file.VARIABLE] = str(story)
    project.git("init", "-q")
    story.write_text("noise = 0.004\n")
    for times in (1, 2):
        (project.root / "mine.py").write_text(f"TIMES = {times}\n")
        project.commit(f"{times} times")
        if times == 1:
            night = start(project, "nightly", project.home / "nights")
            assert night.communicate() and night.returncode == EXIT_OK
            add_runs(project.home / "nights", LEAST_RUNS)
    return project


def start(checkout: Scratch, name: str, results: Path) -> subprocess.Popen[str]:
    _, words = COMMANDS[name]
    return checkout.start("-m", "hostbench", *(word.format(results) for word in words))


def kill(running: subprocess.Popen[str], rng: random.Random) -> str:
    """The command, or a process that it has started."""
    others = with_descendants({running.pid})[1:]
    victim, number = running.pid, rng.choice((signal.SIGKILL, signal.SIGTERM))
    if others and rng.random() < 0.3:
        victim, number = rng.choice(others), signal.SIGKILL
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, number)
    return f"{number.name} of {'the command' if victim == running.pid else 'its child'}"


def measured(results: Path) -> dict[tuple[str, str, int], float | None]:
    """What is stored of it. A journal may become an archive meanwhile."""
    seconds = {}
    for path in [*journal.find(results), *results.glob(f"*/runs/*{archive.SUFFIX}")]:
        with contextlib.suppress(FileNotFoundError):
            run = archive.read(path) if path.suffix == ".gz" else journal.read(path)
            for one in run.records:
                seconds[run.header.run_id, str(one.case), one.launch] = one.seconds
    return seconds


def add_runs(results: Path, num: int) -> None:
    """Copies of one that is there, of the days before."""
    run = archive.read(next(results.glob(f"*/runs/*{archive.SUFFIX}")))
    began_s = epoch_s(run.header.started_at)
    for number in range(num):
        run_id = f"{run.header.run_id[:-4]}{number:04x}"
        at = iso(began_s - DAY_S * (number + 1))
        archive.write(
            results, replace(run, header=replace(run.header, run_id=run_id, started_at=at))
        )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_at_a_random_moment_loses_nothing(
    checkout: Scratch, tmp_path: Path, name: str
) -> None:
    """No process is left, and the next command ends as if there had been no kill; of a row of
    them, each in another part of the command, all but the last are killed as well."""
    rng, ends, whole_s = random.Random(), Counter[str](), 0.0
    first, results = tmp_path / "first", tmp_path / "results"
    shutil.copytree(checkout.home / "nights", first)
    if name == "publish":
        add_runs(first, 120)  # more than it sends at once
    while ends.total() < NUM_KILLS:
        for old in (*tmp_path.glob("results*"), *tmp_path.glob(".results*")):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(first, results)
        code, row = COMMANDS[name][0], ["nobody is killed"]
        parts = rng.sample(range(ROW), min(ROW, NUM_KILLS - ends.total())) if whole_s else []
        for part in [*parts, None]:
            running, began_s = start(checkout, name, results), time.monotonic()
            if part is not None:
                time.sleep(whole_s * rng.uniform(part, part + 1) / ROW)
            before = measured(results)
            is_killed = part is not None and running.poll() is None
            if is_killed:
                row.append(kill(running, rng))
            text, _ = running.communicate(timeout=PATIENCE_S)
            whole_s = whole_s or time.monotonic() - began_s
            assert "Traceback" not in text, (row, text)
            assert checkout.wait_for_no_process() == [], (row, text)
            assert before.items() <= measured(results).items(), row
            if not is_killed:
                whole_s *= 1.0 if part is None else 0.9  # too late: it took longer before
                break
            row[-1] += f": exit code {running.returncode}"
            codes = (code, EXIT_OK, EXIT_NOTHING_MEASURED, EXIT_FAILED)
            assert running.returncode in (*codes, -signal.SIGKILL, -signal.SIGTERM), (row, text)
            ends[row[-1]] += 1
            known = nights.of_machine(results, MACHINE, pytest.fail)
            if any(night.confirmed() for night in known):
                code = EXIT_OK
        assert running.returncode == code, (row, text)
        assert not [*journal.find(results)], row
        tree = read_tree(results)
        assert not tree.warnings, (row, tree.warnings)
        if name == "publish":
            sent = Results(f"file://{results}.published")
            assert len(sent.runs()) == len(tree.runs), row
            assert len(sent.frame()) == len(tree.frame), row
    print(name, *ends.items(), sep="\n  ")
