"""A project of one's own, by CONTRIBUTING.md alone: its example is measured as printed."""

import json

import pytest

from tests import own_project
from tests.scratch import Scratch


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    made = own_project.make(tmp_path_factory.mktemp("own"))
    done = made.hostbench("run", "steps", "--quick", "--machine", "mine")
    assert done.returncode == 0, done.stdout
    return made


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
        (answer,) = answers(project, project)
        assert (answer["family"], answer["question"]) == ("steps", "Is sum() faster than a loop?")
        assert answer["state"] != "unavailable"
        (answer,) = answers(elsewhere, project)
        assert (answer["family"], answer["state"]) == ("steps", "unavailable")
        assert "HOSTBENCH_WORKLOADS" in str(answer["verdict"])
