"""A project of one's own, by docs/your-own.md alone: its examples are measured as printed."""

import dataclasses
import json
import re
from typing import Any

import pytest

from hostbench import Prepared
from tests import own_project
from tests.commands import hostbench
from tests.scratch import Scratch


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    project = own_project.make(tmp_path_factory.mktemp("own"))
    own_project.write_files("Over ranks", project.root)
    project.commit("a step of training over ranks")
    return project


@pytest.fixture(scope="module")
def said(project: Scratch) -> str:
    """What a run there prints; of one launch, for the time's sake."""
    done = project.hostbench("run", "--quick", "--launches", "1", "--machine", "mine")
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def reports(project: Scratch, said: str) -> list[dict[str, Any]]:
    """What `hostbench report` says of that run: in the project, elsewhere, in the project again."""
    found = []
    words = ("--machine", "mine", "--format", "json", "--results", project.results)
    with pytest.MonkeyPatch.context() as patch, own_project.forgotten():
        for folder in (project.root, project.home, project.root):
            patch.chdir(folder)
            done = hostbench("report", *words)
            assert done.code == 0, done.err
            found.append(json.loads(done.out))
    return found


def test_what_it_prints_is_true_where_there_is_no_checkout(project: Scratch, said: str) -> None:
    assert f"commit {project.git('rev-parse', 'HEAD')[:8]}" in said
    assert re.search(r"^steps\n  train +\S", said, re.M)
    assert re.search(r"^  into place +", said, re.M)
    (run,) = (project.results / "mine" / "runs").iterdir()
    name = f"run:{run.name.partition('.')[0]}"
    done = project.hostbench("compare", name, name)
    assert done.returncode == 2 and "name sides that share none" in done.stdout, done.stdout


def test_a_declaration_says_what_is_moved_and_needed_and_proves_that_it_arrived(
    reports: list[dict[str, Any]],
) -> None:
    cases = {one["case"]: one for one in reports[0]["cases"]}
    families = {case.partition(".")[0] for case in cases}
    assert families == {"steps", "copies", "parallel"}  # not hostbench's own
    copied = cases["copies.into_place[device=cpu,nbytes=1048576,source=host]"]
    assert copied["status"] == "ok" and copied["proofs"]["data"] == "passed"
    assert copied["gb_per_s"] == pytest.approx(1048576 / copied["seconds"] / 1e9)
    refused = cases["copies.into_place[device=cpu,nbytes=1048576,source=device]"]
    assert refused["status"] == "skipped" and "no memory of its own" in refused["reason"]


def test_a_model_of_ones_own_is_measured_over_ranks(reports: list[dict[str, Any]]) -> None:
    cases = (one for one in reports[0]["cases"] if one["case"].startswith("parallel."))
    measured = {case["case"]: (case["status"], case["proofs"]) for case in cases}
    passed = ("ok", {"data": "passed"})
    assert measured == {f"parallel.train[device=cpu,num_ranks={num}]": passed for num in (1, 2)}


CRASHING = """
from hostbench import DEVICES, Compare, workload


@workload(axes={"device": DEVICES, "way": ("python", "zero")}, quick=lambda **_: True, version="1")
def divide(device, way):
    return lambda: 1 // (way != "zero")


QUESTIONS = (Compare(text="Is it fast?", workload="crashing.divide", claim={"way": "zz"}),)
"""
HALF_A_CHARACTER = r"""
from hostbench import DEVICES, Prepared, workload


@workload(axes={"device": DEVICES}, quick=lambda **_: True, version="1")
def wrong(device):
    return Prepared(step=int, verify=lambda: "bad \ud800")
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scratch, str]:
    """A project with a family that cannot be imported and one that crashes, and what a run says."""
    made = own_project.make(tmp_path_factory.mktemp("faulty"))
    (made.root / "benchmarks" / "bad.py").write_text("import hostbench\nimport nonesuch\n")
    (made.root / "benchmarks" / "worse.py").write_text("def f(:  # hostbench\n")
    (made.root / "benchmarks" / "quits.py").write_text("raise SystemExit(3)  # hostbench\n")
    (made.root / "benchmarks" / "crashing.py").write_text(CRASHING)
    (made.root / "benchmarks" / "half.py").write_text(HALF_A_CHARACTER)
    words = ("crashing", "half", "--quick", "--device", "simulated", "--machine", "mine")
    done = made.hostbench("run", *words)
    assert done.returncode == 4, done.stdout
    return made, done.stdout


def test_a_workload_that_crashes_names_its_line_and_the_way_to_its_traceback(
    faulty: tuple[Scratch, str],
) -> None:
    project, said = faulty
    line = 1 + CRASHING.splitlines().index('    return lambda: 1 // (way != "zero")')
    error = f"ZeroDivisionError: integer division or modulo by zero (benchmarks/crashing.py:{line})"
    assert error in " ".join(said.split())
    (command,) = (one for one in said.splitlines() if "--tracebacks" in one)
    done = project.hostbench("report", *command.partition(" report ")[2].split())
    assert done.returncode == 0 and "crashing.divide[device=cuda,way=zero]" in done.stdout
    assert "Traceback (most recent call last)" in done.stdout
    assert f'crashing.py", line {line}' in done.stdout
    done = project.hostbench("report", "--machine", "simulated-mine")
    assert r"proof failed: bad \ud800" in done.stdout


def test_a_claim_of_a_value_that_an_axis_never_has_says_so(faulty: tuple[Scratch, str]) -> None:
    assert "way is never 'zz', it is python, zero" in " ".join(faulty[1].split())


def test_a_family_that_cannot_be_imported_names_its_line_and_stops_no_other(
    faulty: tuple[Scratch, str],
) -> None:
    project, _ = faulty
    bad = "ModuleNotFoundError: No module named 'nonesuch' (benchmarks/bad.py:2)"
    listed = project.hostbench("list")
    assert listed.returncode == 0
    assert bad in listed.stdout and "(benchmarks/worse.py:1)" in listed.stdout
    assert "SystemExit: 3 (benchmarks/quits.py:1)" in listed.stdout
    assert re.search(r"^steps\.train +1 +\d", listed.stdout, re.M)
    assert "  no docstring says what is measured\n" in listed.stdout
    named = project.hostbench("list", "bad")
    assert named.returncode == 2 and named.stdout.splitlines() == [
        f"hostbench: the family 'bad' cannot be imported: {bad}"
    ]


def test_its_family_is_named_wherever_its_results_are_read(reports: list[dict[str, Any]]) -> None:
    """Elsewhere nobody knows its workloads; who looked last must not decide for the next."""
    first, elsewhere, again = reports
    found = {one["family"]: one for one in elsewhere["answers"]}
    assert {*found} == {"copies", "steps", "parallel"}
    for answer in found.values():
        assert answer["state"] == "unavailable"
        assert "HOSTBENCH_WORKLOADS" in str(answer["verdict"])
    for answers in (first["answers"], again["answers"]):
        by_family = {one["family"]: one for one in answers}
        assert by_family["steps"]["question"].startswith("What does the DataLoader cost")
        assert "unavailable" not in {one["state"] for one in answers}


def test_every_field_of_prepared_is_explained() -> None:
    named = re.findall(r"`(\w+)(?:=\w+)?`", own_project.section("`Prepared`"))
    of_declaration = {"depth", "host_only"}  # set by it, whatever a workload gives
    fields = {field.name for field in dataclasses.fields(Prepared)}
    assert fields - of_declaration <= {*named}
