"""Which commit it was: one step of `git bisect run`, and all of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE, DeviceLost
from hostbench.core.records import CaseRecord, Launch
from tests import scratch, turns
from tests.commands import hostbench
from tests.scratch import git
from tests.stored import runs_of
from tests.turns import CASE, commit
from tests.vcs.test_ab import SLEEPY

BISECT = ("bisect", str(CASE), "--device", "simulated", "--good")
STEP = ("--bisect", "--case", str(CASE), "--device", "simulated")
root = turns.root


def test_git_finds_the_first_bad_commit(tmp_path: Path) -> None:
    """The real program, git and workers: three commits, of which the second made it slower."""
    checkout = scratch.make(tmp_path)
    file = checkout.root / "benchmarks/sleepy.py"
    for number, seconds in enumerate(("0.002", "0.004", "0.0041")):
        file.write_text(SLEEPY.replace("SECONDS", seconds))
        checkout.only_families("sleepy")
        checkout.commit(f"change {number}")
    before = git(checkout.root, "for-each-ref"), git(checkout.root, "status", "--porcelain")
    ends = ("--good", "HEAD~2", "--bad", "HEAD", "--device", "simulated", "--launches", "7")
    done = checkout.hostbench("bisect", "sleepy.nap[device=cuda]", *ends)
    assert done.returncode == EXIT_OK, done.stdout
    first_bad = git(checkout.root, "rev-parse", "HEAD~1")
    assert f"\n{first_bad} is the first bad commit\ncommit {first_bad}\n" in done.stdout
    step = rf"^bad   {first_bad[:8]}  \+.* change 1\n +hostbench compare run:"
    assert re.search(step, done.stdout, re.MULTILINE)
    after = git(checkout.root, "for-each-ref"), git(checkout.root, "status", "--porcelain")
    assert after == before and all(run.header.scratch for run in runs_of(checkout.results))


def test_one_step_of_git_bisect_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = git(root, "rev-parse", "HEAD")
    for speed, code, said in (
        ("1.2", 1, "bad "),
        ("1.01", 0, "good "),
        ("1.0501", 125, "skip "),
        ("broken", 125, "skip "),
        ("1", 0, ""),
    ):
        (root / "hostbench" / "speed").write_text(f"{speed} start")
        done = hostbench("ab", good, *STEP, code=code)
        assert done.out.startswith(said)
        assert ("  failed: broken  " in done.out) is (speed == "broken")
    assert not done.out and "nothing that is measured differs" in done.err
    commit(root, "1.2")
    hostbench("ab", good, "HEAD", *STEP, "--threshold", "0.3", code=0)
    hostbench("ab", "nowhere", *STEP, code=125)
    assert " cases: name one, as " in hostbench("ab", good, "transfer", "--bisect", code=125).err
    whole = turns.Toy.run
    errors = DeviceLost("device cuda does not start"), KeyboardInterrupt(), OSError("full")
    for error, launch in zip(errors, (0, 1, 1), strict=True):

        def lost(
            self: turns.Toy, wanted: Launch, at: int = launch, error: BaseException = error
        ) -> Iterator[CaseRecord]:
            if wanted.number == at:
                raise error
            yield from whole(self, wanted)

        monkeypatch.setattr(turns.Toy, "run", lost)
        hostbench("ab", good, *STEP, code=130)


def test_what_no_commit_can_be_named_for_says_so(root: Path) -> None:
    """A step of the environment, another machine's series, more series than one."""
    commit(root, "1.001")
    said = hostbench(*BISECT, "HEAD~1", "--bad", "HEAD", code=EXIT_NOTHING_MEASURED).err
    assert "do not differ when they are interleaved (same)" in said
    for series, why in (
        (f"{CASE}@elsewhere", "the series is of machine elsewhere, this is "),
        ("transfer.host_to_device", "cases: name one, as 'transfer.host_to_device["),
    ):
        words = ("bisect", series, *BISECT[2:], "HEAD~1", "--bad", "HEAD")
        assert why in hostbench(*words, code=EXIT_USAGE).err
