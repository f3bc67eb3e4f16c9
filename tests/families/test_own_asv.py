"""docs/your-own.md as it stands: from an empty folder to the first comparison, then with asv."""

import json
import re

import pytest

from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK
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
    """What each command of the first comparison comes to."""
    return {line: shell(project, line) for line in own_project.typed(FIRST, project.root)}


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
        assert "): 2 skipped\n" in page, page
    assert "wrote: benchmarks/startup.py" in compared["hostbench init"][1]
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
    assert re.search(r"What does the DataLoader cost with 32 examples\? .*loader", answer), answer


def test_the_dashboard_opens_with_its_answer_and_chart(
    project: Scratch, said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(project.root / "benchmarks"))
    with own_project.forgotten():
        page = dashboard_page.opened(monkeypatch, "overview", project.results)
    assert not page.exception, page.exception
    assert "What does the DataLoader cost with 32 examples?" in dashboard_page.said(page)
    assert any("<img " in own.proto.body for own in page.get("html"))  # beside the machines
