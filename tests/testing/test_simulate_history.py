"""simulate-history: the tree is whole, it holds what was told, and that can be found in it."""

import hashlib
import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostbench import facts
from hostbench.core.errors import UsageError
from hostbench.core.noise_family import FAMILIES, Family
from hostbench.judge.detector import log_seconds
from hostbench.judge.machine import judge_machine
from hostbench.store import runs
from hostbench.store.damage import damage
from hostbench.store.history import History
from tests.fakes.histories import story, tree
from tests.fakes.histories.commits import names
from tests.fakes.histories.made_up import made_up
from tests.fakes.histories.nights import nights, seconds
from tests.stored import Tree, read_tree

PAGE = Path(__file__).parent.parent.parent / "docs" / "simulation.md"
SHORT = """
commits = 20
series = 12
[[machine]]
sigma = 0.002
[[event]]
kind = "code"
at = 10
effect = 0.10
series = "transfer.device_to_host"
"""
QUIET = """
commits = 80
series = 12
seed = 3

[[machine]]
name = "one"
sigma = 0.002
facts.host.governor = "performance"

[[machine]]
name = "two"
sigma = 0.002
generation = 4

[[event]]
kind = "code"
at = 25
effect = 0.10
series = "transfer.device_to_host"
cause = "Wait twice"

[[event]]
kind = "code"
at = 15
until = 45
effect = 0.20
series = "overlap.pipeline"

[[event]]
kind = "environment"
machine = "simulated-one"
at = 60
fact = "nvml.driver"
value = "590.7"
effect = 0.05
rerun = true

[[event]]
kind = "environment"
machine = "simulated-two"
at = 65
fact = "software.torch"
value = "2.13"
"""
GAPS = """
commits = 12
series = 12

[[machine]]

[[event]]
kind = "failed"
at = 2
series = "transfer.strided"

[[event]]
kind = "skipped"
at = 3
until = 5
series = "transfer.strided"

[[event]]
kind = "missing"
machine = "simulated-1"
at = 6
until = 8

[[event]]
kind = "partial"
machine = "simulated-1"
at = 9
share = 0.1

[[event]]
kind = "version"
at = 10
effect = -0.5
series = "transfer.strided"
"""


def written(folder: Path, text: str) -> tuple[dict[str, Any], Tree]:
    """The truth of a story and the tree that was written of it."""
    folder.mkdir(exist_ok=True)
    (folder / "story.toml").write_text(text)
    made = tree.write(folder / "tree", story.read(folder / "story.toml"))
    return json.loads(made.truth.read_text()), read_tree(made.results)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Tree]:
    return written(tmp_path_factory.mktemp("quiet"), QUIET)


# What was told is there


def test_a_detector_finds_the_truth_and_nothing_else(quiet: tuple[dict[str, Any], Tree]) -> None:
    told, stored = quiet
    for number in (1, 2):
        machine = f"simulated-{('one', 'two')[number - 1]}"
        rows = stored.frame[stored.frame["machine"] == machine]
        table = rows.pivot(index="case", columns="started_at", values="seconds")
        logs = [log_seconds(row) for row in table.to_numpy()]
        judged = judge_machine(logs)
        assert judged.common is not None
        changes = [
            (case, c) for case, j in zip(table.index, judged.own, strict=True) for c in j.changes
        ]
        changes += [("machine", change) for change in judged.common.changes]
        assert {change.state for _, change in changes} == {"confirmed"}
        found = {(case, c.index): math.log1p(c.effect) for case, c in changes}
        assert found == pytest.approx(expected(told, machine), abs=0.004), machine


def expected(told: dict[str, Any], machine: str) -> dict[tuple[str, int], float]:
    """(case or `machine`, index) -> logarithm of the effect, of every step that was told."""
    steps = {}
    for event in told["events"]:
        if event["machine"] != machine or not event["effect"]:
            continue
        whose = event["series"] if event["kind"] != "environment" else ["machine"]
        for one in whose:
            steps[one, event["index"]] = math.log1p(event["effect"])
            if event["until_index"] is not None:
                steps[one, event["until_index"]] = -math.log1p(event["effect"])
    return steps


def test_facts_and_commits_tell_the_cause(quiet: tuple[dict[str, Any], Tree]) -> None:
    """A driver changes between two runs of one commit; the code between two of the same facts."""
    told, stored = quiet
    by_machine: dict[str, list[runs.WholeRun]] = {}
    for run in stored.runs:
        by_machine.setdefault(str(run.header.machine), []).append(run)
    seen = {}
    for event in told["events"]:
        every = by_machine[event["machine"]]
        before, after = every[event["index"] - 1], every[event["index"]]
        assert after.run_id == event["first_bad_run"]
        assert after.header.commit == event["first_bad_commit"]
        moved = facts.differences(facts.from_json(before.facts), facts.from_json(after.facts))
        same_commit = before.header.commit == after.header.commit
        values = [(f"{d.group}.{d.name}", str(d.before), str(d.after)) for d in moved]
        seen[event["kind"], event["machine"], event["fact"]] = (same_commit, values)
        assert (event["fact"] is None) == (not moved)
    driver, torch = ("nvml.driver", "580.1", "590.7"), ("software.torch", "2.12", "2.13")
    assert seen["environment", "simulated-one", "nvml.driver"] == (True, [driver])
    assert seen["environment", "simulated-two", "software.torch"] == (False, [torch])
    assert seen["code", "simulated-one", None] == (False, [])


def test_every_machine_says_that_it_is_simulated(quiet: tuple[dict[str, Any], Tree]) -> None:
    told, stored = quiet
    assert told["simulated"] is True
    rows = stored.frame
    assert {str(name)[:10] for name in rows["machine"]} == {"simulated-"}
    assert {str(name)[:10] for name in rows["hardware"]} == {"Simulated "}
    assert set(rows["device"]) == {"simulated"}
    assert rows["scratch"].isna().all() and not stored.warnings
    assert rows["published"].isna().all()


def test_gaps_are_what_they_are(tmp_path: Path) -> None:
    told, stored = written(tmp_path, GAPS)
    rows = stored.frame
    commits = {commit: number for number, commit in enumerate(told["commits"])}
    rows["number"] = rows["commit"].map(commits)
    tensors = rows[rows["workload"] == "transfer.strided"].set_index("number")
    assert tensors.loc[2, "status"] == "failed" and "simulated" in str(tensors.loc[2, "reason"])
    assert set(tensors.loc[3:4, "status"]) == {"skipped"}
    assert not {6, 7} & set(rows["number"]) and {5, 8} <= set(rows["number"])
    partial = rows[rows["number"] == 9]
    assert set(partial["status"]) == {"ok", "not measured"}
    assert set(rows[rows["number"] == 8]["status"]) == {"ok"}
    assert (tensors.loc[8, "version"], tensors.loc[10, "version"]) == ("1", "2")
    took = tensors["seconds"].to_dict()
    assert took[10] < 0.6 * took[8]
    kinds = {event["kind"]: (event["index"], event["until_index"]) for event in told["events"]}
    assert kinds == {
        "failed": (2, 3),
        "skipped": (3, 5),
        "missing": (6, 6),
        "partial": (7, 8),
        "version": (8, None),
    }
    results = tmp_path / "tree" / "results"
    assert damage(results, History(results)) == []


# The tree


def test_a_seed_gives_the_same_bytes_and_a_whole_tree(tmp_path: Path) -> None:
    """With all that can happen in it: nothing is damaged."""
    prints = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        tree.write(tmp_path / name, made_up(machines=2, commits=40, series=3, seed=seed))
        every = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        text = [(str(p.relative_to(tmp_path / name)), p.read_bytes()) for p in every]
        prints.append(hashlib.sha256(repr(text).encode()).hexdigest())
    assert prints[0] == prints[1] != prints[2]
    told = json.loads((tmp_path / "a" / "truth.json").read_text())
    kinds = {event["kind"] for event in told["events"]}
    assert kinds == set(story.KINDS) | {"recovered"}
    results = tmp_path / "a" / "results"
    history = History(results)
    assert damage(results, history) == [] and len(history.runs()) > 75


def test_asv_has_the_newest_numbers_of_each_commit(tmp_path: Path) -> None:
    """asv's files hold the archives' medians, and are not shown a second time."""
    made = tree.write(tmp_path / "t", made_up(machines=1, commits=40, series=4))
    stored = read_tree(made.results)
    assert set(stored.frame["source"]) == {"archive"}
    for path in made.results.glob("*/runs"):
        shutil.rmtree(path)
    rows = read_tree(made.results).frame
    assert set(rows["source"]) == {"asv"} and set(rows["machine"]) == {"simulated-1"}
    values = sorted(rows["value"].dropna())
    assert len(values) > 100 and set(rows["num_samples"][rows["status"] == "ok"]) >= {7}
    medians = stored.frame.groupby(["commit", "case"])["seconds"].last().dropna()
    assert values == pytest.approx(sorted(medians), rel=1e-12)


def test_git_has_the_commits_under_the_same_names(tmp_path: Path) -> None:
    chosen = made_up(machines=1, commits=40, series=2, seed=1)
    tree.write(tmp_path / "t", chosen, git=True)

    def git(*args: str) -> list[str]:
        command = ["git", "-C", str(tmp_path / "t"), *args]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split(
            "\n"
        )

    assert git("rev-list", "--reverse", "main")[:-1] == names(chosen)
    code = next(event for event in chosen.events if event.kind == "code")
    assert code.cause in git("log", "--format=%s", names(chosen)[code.at], "-1")
    assert any(line.startswith('Revert "') for line in git("log", "--format=%s"))


@pytest.mark.parametrize("family", FAMILIES)
def test_noise_is_of_the_machine_and_of_its_size(family: Family) -> None:
    noise = story.HistoryNoise(family=family, sigma=0.01)
    machine = story.StoryMachine(name="simulated-1", noise=noise)
    plain = story.Story(commits=300, series=4, machines=(machine,))
    values = np.log(seconds(plain, machine, nights(plain, machine), plain.cases()))
    steps = np.abs(np.diff(values, axis=0))
    assert 0.005 < float(np.median(steps)) * 1.4826 / np.sqrt(2) < 0.03


def test_shared_effects_move_all_series_together() -> None:
    noise = story.HistoryNoise(sigma=0.001, sessions=0.05, throttling=0.1)
    machine = story.StoryMachine(name="simulated-1", noise=noise)
    plain = story.Story(commits=200, series=6, machines=(machine,))
    values = np.log(seconds(plain, machine, nights(plain, machine), plain.cases()))
    assert np.corrcoef(values.T).min() > 0.95


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ("'machine' is []", "1 to 100 tables")),
        ("[[machine]]\n[[machine]]\nname = 'simulated-1'", ("names of their own",)),
        ("[[machine]]\nname = '../x'", ("'simulated-../x' cannot name a machine",)),
        ("[[machine]]\nwidth = 3", ("machine 1.link: 'width' is 3", "one of 1, 2")),
        ("[[machine]]\nnoise = 'pink'", ("machine 1.noise: 'family' is 'pink'", "gauss")),
        ("[[machine]]\nfacts.disk.x = 'y'", ("facts: 'disk' is unknown", "host")),
        ("[[machine]]\n[[event]]\nat = 1", ("event 1: 'kind' is missing", "one of code")),
        ("[[machine]]\n[[event]]\nkind = 'code'", ("'at' is missing", "from 0 to")),
        ("[[machine]]\n[[event]]\nkind = 'code'\nat = 120", ("'at' is 120", "0 to 119")),
        ("[[machine]]\n[[event]]\nkind = 'code'\nat = 9\nuntil = 9", ("'until' is 9", "10 to")),
        ("[[machine]]\n[[event]]\nkind = 'code'\nat = 1\neffect = -1", ("'effect' is -1", "-0.9")),
        ("[[machine]]\n[[event]]\nkind = 'missing'\nat = 1", ("'machine'", "simulated-1")),
        (
            "[[machine]]\n[[event]]\nkind = 'code'\nat = 1\nrerun = true",
            ("'rerun' is unknown", "effect"),
        ),
        (
            "[[machine]]\n[[event]]\nkind = 'environment'\nat = 1\nmachine = 'simulated-1'\n"
            "fact = 'nvml.x'",
            ("'fact' is 'nvml.x'", "nvml.driver"),
        ),
        (
            "[[machine]]\n[[event]]\nkind = 'code'\nat = 1\nseries = 'transfer[memory=none]'",
            ("'series' is 'transfer[memory=none]'", "24 that this story has"),
        ),
        (
            "[[machine]]\n[[event]]\nkind = 'version'\nat = 1\nseries = 'transfer.cast[nbytes=1]'",
            ("'series'", "share a version"),
        ),
        (
            "commits = 5\n[[machine]]\n[[event]]\nkind = 'missing'\nat = 2\nuntil = 5\n"
            "machine = 'simulated-1'\n[[event]]\nkind = 'missing'\nat = 0\nuntil = 2\n"
            "machine = 'simulated-1'",
            ("event 2: 'until' is 2", "simulated-1 has a run left"),
        ),
        ("commits = 5\nstart = 2261-12-30T00:00:00Z\n[[machine]]", ("'start'", "year 2261")),
        ("start = 9999-12-31T23:00:00-10:00\n[[machine]]", ("'start'", "a time with its zone")),
    ],
)
def test_a_bad_story_is_one_clear_error(text: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "story.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        story.read(tmp_path / "story.toml")
    said = str(caught.value)
    assert all(part in said for part in parts), said


def test_the_story_of_the_page_can_be_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(# simulate-history.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "story.toml").write_text(text)
    assert story.read(tmp_path / "story.toml").events
    assert set(story.KINDS) <= set(re.findall(r"`(\w+)`", PAGE.read_text()))


def test_a_machine_of_the_first_form_is_still_read(tmp_path: Path) -> None:
    old, new = (
        "width = 8\nnoise = 'heavy'\nsigma = 0.02\ndrift = 0.1",
        "link.width = 8\nnoise = { family = 'heavy', sigma = 0.02, drift = 0.1 }",
    )
    read = []
    for text in (old, new):
        (tmp_path / "story.toml").write_text(f"[[machine]]\n{text}\n")
        read.append(story.read(tmp_path / "story.toml"))
    assert read[0] == read[1]
    assert read[0].machines[0].link.pcie == (5, 8)
