"""A project of one's own, by CONTRIBUTING.md alone: its example is measured as printed."""

import json

import pytest

from tests import own_project
from tests.scratch import Scratch


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    return own_project.make(tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def said(made: Scratch) -> str:
    """What a run there prints."""
    done = made.hostbench("run", "steps", "copies", "--quick", "--machine", "mine")
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def project(made: Scratch, said: str) -> Scratch:
    """With a run stored."""
    return made


def test_what_it_prints_is_true_where_there_is_no_checkout(project: Scratch, said: str) -> None:
    assert "no commit of hostbench" in said and "no commit," not in said
    assert "hostbench compare run:ID run:ID" in said
    (run,) = (project.results / "mine" / "runs").iterdir()
    name = f"run:{run.name.partition('.')[0]}"
    done = project.hostbench("compare", name, name)
    assert done.returncode == 3 and "undecided" in done.stdout


def test_a_declaration_says_what_is_moved_and_needed_and_proves_that_it_arrived(
    project: Scratch, said: str
) -> None:
    done = project.hostbench("report", "--machine", "mine", "--format", "json")
    cases = {one["case"]: one for one in json.loads(done.stdout)["cases"]}
    copied = cases["copies.into_place[device=cpu,nbytes=1048576,source=host]"]
    assert copied["status"] == "ok" and copied["proofs"]["data"] == "passed"
    assert copied["gb_per_s"] == pytest.approx(1048576 / copied["seconds"] / 1e9)
    refused = cases["copies.into_place[device=cpu,nbytes=1048576,source=device]"]
    assert refused["status"] == "skipped" and "memory is host memory" in refused["reason"]


def answers(there: Scratch, project: Scratch) -> list[dict[str, object]]:
    """What `hostbench report` says in `there` of the project's results."""
    results = ("--results", str(project.results))
    done = there.hostbench("report", "--machine", "mine", "--format", "json", *results)
    assert done.returncode == 0, done.stdout
    found: list[dict[str, object]] = json.loads(done.stdout)["answers"]
    return found


def test_its_family_is_named_wherever_its_results_are_read(project: Scratch) -> None:
    """Elsewhere nobody knows its workloads; who looked last must not decide for the next."""
    elsewhere = Scratch(project.home, project.home)
    for _ in range(2):
        copies, steps = answers(project, project)
        assert (steps["family"], steps["question"]) == ("steps", "Is sum() faster than a loop?")
        assert "unavailable" not in (copies["state"], steps["state"])
        found = {one["family"]: one for one in answers(elsewhere, project)}
        assert {*found} == {"copies", "steps"}
        for answer in found.values():
            assert answer["state"] == "unavailable"
            assert "HOSTBENCH_WORKLOADS" in str(answer["verdict"])
