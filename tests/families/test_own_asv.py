"""A project of one's own with asv, by CONTRIBUTING.md alone: its commands, in its order."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hostbench.runner import journal
from tests import dashboard_page, own_project
from tests.scratch import TREE, Scratch

pytestmark = pytest.mark.asv
on_the_path = dashboard_page.on_the_path
FASTER = {"hostbench run steps": "hostbench run steps --launches 7"}
"""Fewer launches, and still a verdict."""


def shell(project: Scratch, line: str) -> str:
    tools = str(Path(sys.executable).parent)
    path = f"{tools}:{project.env()['PATH']}"
    done = subprocess.run(
        ["sh", "-c", FASTER.get(line, line)],
        cwd=project.root,
        env=project.env(PATH=path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    made = own_project.make(tmp_path_factory.mktemp("own"))
    made.environ["HOSTBENCH_MACHINE"] = "mine"
    own_project.with_asv(made)
    return made


@pytest.fixture(scope="module")
def said(project: Scratch) -> dict[str, str]:
    """What each command prints, up to the dashboard, which does not end."""
    *lines, last = own_project.commands()
    assert last == "hostbench dashboard"
    return {line: shell(project, line) for line in lines}


def test_it_is_listed_simulated_and_written_for_asv(project: Scratch, said: dict[str, str]) -> None:
    listed = said["hostbench list steps --cases"].splitlines()
    assert "steps.add[device=cpu,way=sum]" in listed and len(listed) == 4
    assert "device simulated" in said["hostbench run steps --quick --device simulated"]
    written = project.git("ls-files", "benchmarks").splitlines()
    assert written == [f"benchmarks/{name}.py" for name in ("__init__", "copies", "steps")]


def test_asv_records_the_commit(project: Scratch, said: dict[str, str]) -> None:
    commit = project.git("rev-parse", "HEAD")
    assert f"commit {commit[:8]}" in said["hostbench run steps"]
    assert "scratch" not in said["hostbench run steps"]
    assert "steps.Add.track_seconds" in said["asv show HEAD"]
    (stored,) = (project.results / "mine").glob(f"{commit[:8]}-hostbench-py*.json")
    values = json.loads(stored.read_text())["results"]["steps.Add.track_seconds"][0]
    assert sum(isinstance(value, float) and value == value for value in values) == 2


def test_the_package_is_copied_with_times_that_its_bytecode_goes_by(
    project: Scratch, said: dict[str, str]
) -> None:
    copied = (project.root / ".asv/env").glob("*/site/hostbench/families/*/workloads.py")
    times = {path.parent.name: path.stat().st_mtime for path in copied}
    own = (TREE / "hostbench/families").glob("*/workloads.py")
    assert times == {path.parent.name: path.stat().st_mtime for path in own} != {}


def test_it_is_answered_with_a_factor_against_its_baseline(said: dict[str, str]) -> None:
    answer = " ".join(said["hostbench report"].split())
    found = re.search(
        r"Is sum\(\) faster than a loop\? .* sum is ([\d.]+)x faster than python", answer
    )
    assert found and float(found[1]) > 1, answer


def test_it_has_its_card_and_its_page_with_a_chart(
    project: Scratch, said: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page opens with the family that was measured."""
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(project.root / "bench"))
    card = dashboard_page.opened(monkeypatch, "overview", project.results)
    assert not card.exception and "steps" in [one.value for one in card.subheader]
    page = dashboard_page.opened(monkeypatch, "family", project.results)
    assert not page.exception and page.query_params["family"] == "steps"
    assert page.get("vega_lite_chart") or page.get("arrow_vega_lite_chart")


def test_asv_measures_other_commits_too(project: Scratch, said: dict[str, str]) -> None:
    older = project.asv("run", "HEAD~1^!", "-b", "steps", "-m", "mine", HOSTBENCH_LAUNCHES="1")
    assert older.returncode == 0 and older.stdout.count("\u00b1") == 2, older.stdout
    commit = project.git("rev-parse", "--short=8", "HEAD~1")
    assert list((project.results / "mine").glob(f"{commit}-hostbench-py*.json"))


def test_an_existing_environment_finds_the_project(project: Scratch, said: dict[str, str]) -> None:
    """asv tells it neither the project nor the commit, and stores nothing."""
    config = {"version": 1, "project": "mine", "environment_type": "existing"}
    there = project.root / "existing"
    there.mkdir()
    config |= {"repo": "..", "benchmark_dir": "../benchmarks", "launch_method": "forkserver"}
    (there / "asv.conf.json").write_text(json.dumps(config))
    steps = project.root / "benchmarks" / "steps.py"
    other = steps.read_text().replace('"steps', '"unheard')
    (project.root / "benchmarks" / "other.py").write_text(other)
    done = Scratch(there, project.home, project.environ).asv(
        *("run", "--python=same", "-b", "Add", "--machine", "mine", "--show-stderr"),
        HOSTBENCH_LAUNCHES="1",
    )
    assert "no family 'unheard' in this hostbench" in done.stdout
    assert done.stdout.count("\u00b1") == 2, done.stdout
    assert not list(there.rglob(f"{project.git('rev-parse', 'HEAD')[:8]}*.json"))
    held = [journal.read(path).header.scratch for path in journal.find(project.results)]
    assert held.count("asv names no commit") == 1
