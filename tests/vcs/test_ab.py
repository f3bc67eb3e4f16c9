"""Two codes interleaved: the order, what is kept, what it comes to, and how often that is wrong."""

import json
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_REGRESSION,
    EXIT_USAGE,
    BrokenError,
)
from hostbench.core.records import CaseRecord, Launch, Run
from hostbench.runner import session
from hostbench.runner.plan import STANDARD, Plan
from hostbench.store.points import case_rows
from hostbench.vcs import measure, side
from hostbench.vcs.repo import Checkout
from hostbench.vcs.side import Side
from tests import scratch, turns
from tests.commands import hostbench
from tests.fakes.builders import copy_case
from tests.scratch import git
from tests.stored import runs_of
from tests.turns import CASE, Toy, commit

AB = ("ab", "--device", "simulated", "--case", str(CASE))
OTHER = copy_case(device="cuda", nbytes=65536, memory="pageable")
root = turns.root


def stored(root: Path) -> list[Run]:
    return runs_of(root / "results")


# The order


def test_two_sides_take_turns_and_turn_round() -> None:
    plans = [Plan(profile=STANDARD, cases=(CASE,), seed=seed) for seed in range(20)]
    for plan in plans:
        first = [plan.turns("transfer", launch)[0] for launch in range(10)]
        assert all(first[n] != first[n + 1] for n in range(0, 10, 2)), "ABBA"
        assert first == [plan.turns("transfer", launch)[0] for launch in range(10)]
    drawn = [plan.turns("transfer", launch)[0] for plan in plans for launch in (0, 2, 4)]
    assert 15 < sum(drawn) < 45


def test_both_sides_walk_the_same_cases_in_the_same_order(root: Path) -> None:
    """--quick narrows the cases alone."""
    commit(root, "2")
    words = ("ab", "HEAD~1", "transfer", "--device", "simulated", "--quick")
    hostbench(*words, code=EXIT_REGRESSION)
    walked = Toy.walked
    assert [number for _, number, _ in walked] == [n // 2 for n in range(24)]
    for first, second in zip(walked[::2], walked[1::2], strict=True):
        assert first[2] == second[2] and {first[0], second[0]} == {"1", "2"}
    assert walked[0][0] != walked[2][0] and len({cases for _, _, cases in walked}) == 12


# What is kept, and what it comes to


def test_slower_is_said_and_can_be_had_again(root: Path) -> None:
    commit(root, "1.1")
    said = hostbench(*AB, "HEAD~1", "main", code=EXIT_REGRESSION)
    assert "+10.0%" in said.out and "12+12 " in said.out
    assert "differ in more" not in said.out
    old = git(root, "rev-parse", "HEAD~1")
    first, second = sorted((run.header for run in stored(root)), key=lambda one: one.commit != old)
    assert (first.interleaved_with, second.interleaved_with) == (second.run_id, first.run_id)
    names = f"HEAD~1 ({old[:8]})", f"main ({str(second.commit)[:8]})"
    assert said.out.startswith(f"{names[0]} -> {names[1]}: 1 slower\n")
    assert f"stored for `hostbench compare`: run:{first.run_id} run:{second.run_id}\n" in said.out
    assert {first.by, second.by} == {"hostbench ab"}
    assert first.planned == second.planned == (str(CASE),)
    again = hostbench(
        "compare", f"run:{first.run_id}", f"run:{second.run_id}", code=EXIT_REGRESSION
    )
    assert again.out.splitlines()[1:] == said.out.splitlines()[1:-1]
    page = json.loads(hostbench(*AB, "main", "HEAD~1", "--format", "json").out)
    assert page["sides"] == [*reversed(names)] and page["series"][0]["verdict"] == "faster"
    assert not list(root.rglob("*.jsonl"))


def test_the_working_tree_is_a_side_as_it_is_now(root: Path) -> None:
    (root / "hostbench" / "speed").write_text("1.5")
    hostbench(*AB, "main", code=EXIT_REGRESSION)
    first, second = (run.header for run in stored(root))
    assert first.commit == second.commit
    assert {first.scratch, second.scratch} == {"simulated device"}
    assert git(root, "status", "--porcelain") == "M hostbench/speed"
    commit(root, "1.5")
    said = hostbench(*AB, "HEAD~1", code=EXIT_REGRESSION).out
    assert "): 1 slower" in said


def test_a_case_that_fails_is_left_out_on_both_sides(root: Path) -> None:
    commit(root, "broken:HERE/file")
    said = hostbench(*AB, "HEAD~1", code=EXIT_FAILED)
    assert len(Toy.walked) == 2
    assert "broken" in said.err and "no run that may be judged" not in said.err
    assert re.search(r"failed +1 s +- .* broken:file  transfer\.", said.out)
    assert sorted(case_rows(one)[0]["status"] for one in stored(root)) == ["failed", "ok"]


# Under a budget


def test_a_budget_takes_as_many_launches_as_fit(root: Path) -> None:
    commit(root, "1.1", "slow `down`")
    file = root / "results.md"
    words = ("HEAD~1", "main", "--budget", "10m", "--comment", str(file))
    shown = hostbench(*AB, *words, code=EXIT_REGRESSION)
    written = file.read_text()
    assert written.startswith("<!-- hostbench: ab -->\n## Slower: 1 slower\n\n| verdict ")
    assert "slow `down` ``\n" in written
    assert "20+20 " in shown.out and "1 slower\n" in shown.out
    assert re.search(r"launch 20 of 20, transfer, at most \S+ left", shown.err)
    assert "9+9 " in hostbench(*AB, *words, "--launches", "9", code=EXIT_REGRESSION).out


def test_the_start_of_the_servers_is_no_cost_of_a_launch(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """250 s: 202 for the first launch of both sides, then 4 each."""
    now_s, whole = [0.0], Toy.run

    def run(self: Toy, launch: Launch) -> Iterator[CaseRecord]:
        for index, outcome in enumerate(whole(self, launch)):
            now_s[0] += 100 if not launch.number and not index else 1
            yield outcome

    monkeypatch.setattr(Toy, "run", run)
    clock = SimpleNamespace(monotonic=lambda: now_s[0], time=lambda: now_s[0])
    monkeypatch.setattr(measure, "time", clock)
    monkeypatch.setattr(session, "time", clock)
    commit(root, "1.1")
    words = (*AB, "HEAD~1", "--case", OTHER, "--budget", "250s")
    assert hostbench(*words, code=EXIT_REGRESSION).out.count("  10+10  ") == 2
    assert now_s[0] == 202 + 9 * 4


def test_what_does_not_fit_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(root, "1.1")
    words = [*AB, "HEAD~1", "--case", OTHER, "--budget"]
    monkeypatch.setattr(session, "fitting", lambda costs_s, seconds, most: (7, (CASE,)))
    shown = hostbench(*words, "1h", code=EXIT_REGRESSION).out
    assert "1 slower, 1 not judged\n" in shown and "7+7 " in shown
    shown = hostbench(*words, "0.000001", "--all", code=EXIT_NOTHING_MEASURED).out
    assert "1 launches: 7 a side are needed" in shown
    assert "stopped: what was measured is stored" in shown


def test_the_cheapest_cases_come_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(root, "2")
    fitting = Mock(side_effect=lambda costs_s, seconds, most: (7, tuple(costs_s)))
    monkeypatch.setattr(session, "fitting", fitting)
    words = ("ab", "HEAD~1", "transfer", "--device", "simulated", "--quick", "--budget", "1h")
    hostbench(*words, code=EXIT_REGRESSION)
    costs_s = [*fitting.mock_calls[0].args[0].values()]
    assert len(costs_s) > 5 and costs_s == sorted(costs_s)


def test_a_comment_says_that_nothing_was_measured(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(root, "1.1")
    monkeypatch.setattr(side, "_declared", lambda *_: ({}, {}))
    words = [*AB, "HEAD~1", "--comment", "c.md"]
    hostbench(*words, code=EXIT_NOTHING_MEASURED)
    _, answer, _, why, *_ = (root / "c.md").read_text().splitlines()
    assert answer == "## Nothing compared"
    assert why.startswith("- `nothing to compare: 1 case left out, not in")
    for error, answer in (
        (BrokenError("cannot be built"), "measured: cannot be built`"),
        (KeyboardInterrupt, "## Nothing compared\n\n- `interrupted`"),
    ):
        monkeypatch.setattr(side, "_declared", Mock(side_effect=error))
        hostbench(*words, code=EXIT_FAILED)
        assert answer in (root / "c.md").read_text()
    hostbench(*AB, "gone", "--comment", "c.md", code=EXIT_USAGE)
    assert "## Nothing compared\n\n- `there is no commit 'gone'" in (root / "c.md").read_text()


def test_where_nothing_differs_nothing_is_measured(root: Path) -> None:
    (root / "notes.txt").write_text("not measured")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "notes")
    for names in (("main",), ("HEAD~1", "main", "transfer")):
        done = hostbench(*AB, *names, code=EXIT_NOTHING_MEASURED)
        assert "nothing that is measured differs between" in done.err
    assert not (root / "results").exists() and not Toy.walked


@pytest.mark.parametrize("after", [1, 9])
def test_an_interrupt_keeps_what_can_be_compared(
    root: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    def run(self: Toy, launch: Launch):
        if len(self.walked) == after:
            raise KeyboardInterrupt
        yield from whole(self, launch)

    whole = Toy.run
    monkeypatch.setattr(Toy, "run", run)
    commit(root, "2")
    hostbench(*AB, "HEAD~1", code=EXIT_NOTHING_MEASURED if after == 1 else EXIT_FAILED)
    assert [len(one.winners()) for one in stored(root)] in ([1], [5, 4], [4, 5])
    assert not list(root.rglob("*.jsonl"))


def test_a_kill_before_measuring_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    asked = Mock(side_effect=lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(side, "_declared", asked)
    temporary = root.parent / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    commit(root, "2")
    try:
        done = hostbench(*AB, "HEAD~1", code=EXIT_FAILED)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not seen and "interrupted" in done.err
    assert asked.called and not list(temporary.iterdir())


def test_a_project_needs_a_checkout_and_workloads_of_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(root, "mv", "hostbench", "mine")
    text = hostbench(*AB, "main", code=EXIT_USAGE).err
    assert f"{root} has no workloads of its own" in text and "`hostbench init` writes one" in text
    monkeypatch.chdir(root.parent)
    text = hostbench(*AB, "main", code=EXIT_USAGE).err
    assert "commits are measured from a checkout, and no folder from" in text


def test_what_only_one_side_has_is_left_out_and_said() -> None:
    one, two, three = (copy_case(nbytes=size) for size in (1024, 2048, 4096))
    code = Checkout(commit="a", committed_at=None, scratch=None)
    old = Side(name="old", code=code, root=Path(), versions={str(one): "1", str(two): "1"})
    versions = {**old.versions, str(two): "2", str(three): "1"}
    new = Side(name="new", code=code, root=Path(), versions=versions)
    cases, notes = side.comparable((one, two, three), (old, new))
    assert cases == (one,)
    assert notes == [
        f"1 case left out, version 1, then 2: {two}",
        f"1 case left out, not in old: {three}",
    ]


# The real thing

SLEEPY = '''
"""sleepy: a step that takes as long as this commit says."""

from hostbench import DEVICES, suite, workload


def setup_cache():
    return suite.measure("sleepy")


@workload(axes={"device": DEVICES}, version="1")
def nap(device):
    """One wait."""
    return lambda: device.delay(SECONDS)
'''


def test_each_side_runs_its_own_code(tmp_path: Path) -> None:
    """The real program with real workers: a commit against a working tree with changes."""
    checkout = scratch.make(tmp_path)
    file = checkout.root / "benchmarks/sleepy.py"
    checkout.edit("hostbench/runner/server.py", "def declare", "def before_that")
    checkout.commit("an older hostbench")
    checkout.edit("hostbench/runner/server.py", "def before_that", "def declare")
    file.write_text(SLEEPY.replace("SECONDS", "0.002"))
    checkout.only_families("sleepy")
    checkout.commit("a family that sleeps")
    done = checkout.hostbench("ab", "HEAD~1", "main", "--device", "simulated")
    assert done.returncode == EXIT_FAILED and not list(checkout.results.rglob("*.jsonl"))
    assert re.search(
        r"^hostbench: HEAD~1 \(\w+\) cannot be measured: its workers talk otherwise than this "
        r"hostbench's; name a later commit$",
        done.stdout,
        re.MULTILINE,
    ), done.stdout
    file.write_text(SLEEPY.replace("SECONDS", "0.02"))
    done = checkout.hostbench("ab", "main", "--device", "simulated", "--launches", "7")
    assert done.returncode == EXIT_REGRESSION, done.stdout
    assert "1 slower" in done.stdout and "uncommitted changes" in done.stdout
    first, second = runs_of(checkout.results)
    slower, faster = sorted((first, second), key=lambda one: -case_rows(one)[0]["seconds"])
    assert case_rows(slower)[0]["seconds"] >= 0.02 > case_rows(faster)[0]["seconds"]
    assert slower.header.interleaved_with == faster.run_id
