"""docs/your-own.md as it stands: from an empty folder to the first comparison, then with asv."""

import json
import re
import time

import pytest

from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK
from hostbench.runner import journal
from tests import dashboard_page, own_project
from tests.conftest import SOAK
from tests.own_project import FIRST, HISTORY
from tests.scratch import Scratch

pytestmark = [pytest.mark.asv, *([pytest.mark.soak] if SOAK else [])]
on_the_path = dashboard_page.on_the_path
AB, RUN = "hostbench ab HEAD~1 HEAD steps --quick", "hostbench run steps"
CHEAPER = {
    AB: f"{AB} --device simulated",  # which has no tensors: every case is skipped
    RUN: f"{RUN} --launches 7 --case 'steps.train[num_examples=32]'",
}
"""`make soak` runs each command as it is printed."""


def shell(project: Scratch, line: str) -> tuple[int, str]:
    return own_project.shell(project, line if SOAK else CHEAPER.get(line, line))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    made = own_project.empty(tmp_path_factory.mktemp("own"))
    made.environ["HOSTBENCH_MACHINE"] = "mine"
    return made


@pytest.fixture(scope="module")
def compared(project: Scratch) -> dict[str, tuple[int, str]]:
    """What each command of the first comparison comes to; the files are written as they come."""
    found = {}
    for language, text in own_project.blocks(FIRST):
        if language == "python":
            own_project.write(project.root, text)
            continue
        for line in text.splitlines():
            found[line] = shell(project, line)
    return found


@pytest.fixture(scope="module")
def said(project: Scratch, compared: dict[str, tuple[int, str]]) -> dict[str, str]:
    """What each command of the history prints, up to the dashboard, which does not end."""
    *lines, last = own_project.commands(HISTORY)
    assert last == "hostbench dashboard"
    found = {line: shell(project, line) for line in lines}
    assert not {line: one for line, one in found.items() if one[0] != EXIT_OK}
    return {line: text for line, (_, text) in found.items()}


def test_ten_commands_to_the_first_comparison(
    project: Scratch, compared: dict[str, tuple[int, str]]
) -> None:
    assert len(compared) <= 10
    *others, (code, page) = compared.values()
    assert not [one for one in others if one[0] != EXIT_OK]
    if SOAK:
        assert (code, page.count("\nfaster ")) == (EXIT_OK, 2), page
    else:
        assert code == EXIT_NOTHING_MEASURED, page
        assert "2 of 2 cases: the simulated device has no tensors of torch's" in page
    assert "wrote: benchmarks/steps.py" in compared["hostbench init"][1], "of the second time"
    files = project.git("ls-files", "benchmarks").splitlines()
    assert files == [f"benchmarks/{name}.py" for name in ("__init__", "startup", "steps")]
    assert not project.git("status", "--porcelain", "--untracked-files=no")


def test_asv_records_the_commit(project: Scratch, said: dict[str, str]) -> None:
    commit = project.git("rev-parse", "HEAD")
    assert f"commit {commit[:8]}" in said[RUN]
    assert "scratch" not in said[RUN]
    assert "steps.Train.track_seconds" in said["asv show HEAD"]
    (stored,) = (project.results / "mine").glob(f"{commit[:8]}-hostbench-py*.json")
    values = json.loads(stored.read_text())["results"]["steps.Train.track_seconds"][0]
    num = sum(isinstance(value, float) and value == value for value in values)
    assert num == (4 if SOAK else 2)


def test_its_question_is_answered(said: dict[str, str]) -> None:
    answer = " ".join(said["hostbench report"].split())
    assert re.search(r"What does the DataLoader cost\? .*loader", answer), answer


def test_the_dashboard_opens_with_its_answer_and_chart(
    project: Scratch, said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(project.root / "bench"))
    with own_project.forgotten():
        page = dashboard_page.opened(monkeypatch, "overview", project.results)
    assert not page.exception, page.exception
    assert "What does the DataLoader cost?" in dashboard_page.said(page)
    assert dashboard_page.charts(page) > 1  # the machines are one


if SOAK:  # else tests/vcs/test_own.py asks the environment itself

    def test_asv_measures_another_commit(project: Scratch, said: dict[str, str]) -> None:
        """What stands in the working tree would be far too slow."""
        started = time.time()
        (project.root / "src" / "mine.py").write_text("raise SystemExit('not this one')")
        older = project.asv("run", "HEAD~1^!", "-b", "steps", "-m", "mine", HOSTBENCH_LAUNCHES="1")
        project.git("checkout", "src/mine.py")
        assert older.returncode == 0 and older.stdout.count("\u00b1") == 4, older.stdout
        commit = project.git("rev-parse", "--short=8", "HEAD~1")
        (stored,) = (project.results / "mine").glob(f"{commit}-hostbench-py*.json")
        assert stored.stat().st_mtime >= started - 1

    def test_an_existing_environment_finds_the_project(
        project: Scratch, said: dict[str, str]
    ) -> None:
        """asv tells it neither the project nor the commit, and stores nothing."""
        config = {"version": 1, "project": "mine", "environment_type": "existing"}
        there = project.root / "existing"
        there.mkdir()
        config |= {"repo": "..", "benchmark_dir": "../benchmarks", "launch_method": "forkserver"}
        config |= {"build_command": []}
        (there / "asv.conf.json").write_text(json.dumps(config))
        steps = project.root / "benchmarks" / "steps.py"
        other = steps.read_text().replace('"steps', '"unheard')
        (project.root / "benchmarks" / "other.py").write_text(other)
        done = Scratch(there, project.home, project.environ).asv(
            *("run", "--python=same", "-b", "Train", "--machine", "mine", "--show-stderr"),
            HOSTBENCH_LAUNCHES="1",
        )
        assert "no family 'unheard' in this hostbench" in done.stdout
        assert done.stdout.count("\u00b1") == 4, done.stdout
        assert not list(there.rglob(f"{project.git('rev-parse', 'HEAD')[:8]}*.json"))
        held = [journal.read(path).header.scratch for path in journal.find(project.results)]
        assert held.count("asv names no commit") == 1
