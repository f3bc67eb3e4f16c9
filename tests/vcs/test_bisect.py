"""Which commit it was: one step of `git bisect run`, all of it, and the ends from history."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from hostbench.cli.entry import main
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE, DeviceLost
from hostbench.core.records import CaseRecord, Launch
from tests import scratch, turns
from tests.fakes import history as histories
from tests.fakes.history import NightlyRun, nightly
from tests.stored import runs_of
from tests.turns import CASE, commit, git
from tests.vcs.test_ab import SLEEPY

BISECT = ("bisect", str(CASE), "--device", "simulated")
STEP = ("--bisect", "--case", str(CASE), "--device", "simulated")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return turns.stage(tmp_path, monkeypatch)


def test_git_finds_the_first_bad_commit(tmp_path: Path) -> None:
    """The real program, git and workers: five commits, of which the third made it slower."""
    checkout = scratch.make(tmp_path)
    file = checkout.root / "benchmarks/sleepy.py"
    for number, seconds in enumerate(("0.002", "0.00201", "0.004", "0.0041", "0.00405")):
        code = SLEEPY.replace("SECONDS", seconds).replace('startswith("LETTER ")', "strip()")
        file.write_text(code)
        checkout.only_families("sleepy")
        checkout.commit(f"change {number}")
    before = git(checkout.root, "for-each-ref"), git(checkout.root, "status", "--porcelain")
    ends = ("--good", "HEAD~4", "--bad", "HEAD", "--device", "simulated", "--launches", "7")
    done = checkout.hostbench("bisect", "sleepy.nap[device=cuda]", *ends)
    assert done.returncode == EXIT_OK, done.stdout
    first_bad = git(checkout.root, "rev-parse", "HEAD~2")
    *_, answer, figures, again = done.stdout.splitlines()
    assert answer == f"{first_bad} is the first bad commit"
    assert figures.startswith(f"bad   {first_bad[:8]}  +") and figures.endswith(" change 2")
    assert "hostbench compare run:" in again
    after = git(checkout.root, "for-each-ref"), git(checkout.root, "status", "--porcelain")
    assert after == before and all(run.header.scratch for run in runs_of(checkout.results))


def test_one_step_of_git_bisect_run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = git(root, "rev-parse", "HEAD")
    codes = {"1.2": 1, "1.01": 0, "1.0501": 125, "broken": 125, "1": 0}
    for speed, code in codes.items():
        (root / "hostbench" / "speed").write_text(f"{speed} start")
        assert main(["ab", good, *STEP]) == code, speed
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()[::2]] == ["bad", "good", "skip"]
    assert "failed: broken" in shown.err and "nothing that is measured differs" in shown.err
    commit(root, "1.2")
    assert main(["ab", good, "HEAD", *STEP, "--threshold", "0.3"]) == 0
    assert main(["ab", "nowhere", *STEP]) == main(["ab", good, "transfer", "--bisect"]) == 125
    assert "--bisect takes one case, not " in capsys.readouterr().err
    whole = turns.Toy.run
    errors = DeviceLost("device cuda does not start"), KeyboardInterrupt(), OSError("full")
    for error, launch in product(errors, (0, 1)):

        def lost(
            self: turns.Toy, wanted: Launch, at: int = launch, error: BaseException = error
        ) -> Iterator[CaseRecord]:
            if wanted.number == at:
                raise error
            yield from whole(self, wanted)

        monkeypatch.setattr(turns.Toy, "run", lost)
        assert main(["ab", good, *STEP]) == 130, error


def test_the_ends_come_from_the_newest_step_in_history(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commits = [commit(root, "1" if n < 25 else "1.2", f"change {n}") for n in range(40)]
    histories.write(
        root / "results",
        nightly(40),
        lambda case, run: 1000 * (1.204 if run.day >= 25 else 1.0),
        cases=[CASE],
        commits=commits,
        launches=10,
        noise=0.0005,
        machine="simulated-shelf",
    )
    asked: list[tuple[str, str]] = []

    def bisected(top: Path, clone: Path, good: str, bad: str, step: str, lines: object) -> str:
        asked.append((good, bad))
        assert f"ab {good} \"$commit\" --bisect --case '{CASE}' --threshold 0.09" in step
        return f"# possible first bad commit: [{bad}]"

    monkeypatch.setattr("hostbench.cli.bisect._bisected", bisected)
    assert main([*BISECT]) == EXIT_NOTHING_MEASURED
    (good, bad) = map(commits.index, *asked)
    assert 22 <= good <= 24 and 25 <= bad <= 27
    shown = capsys.readouterr()
    assert "+20.0% (" in shown.out and "on a commit is bad" in shown.out
    assert f"the first bad commit is one of {commits[bad][:8]}" in shown.err


def test_a_step_of_the_environment_is_no_commits(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = git(root, "rev-parse", "HEAD")
    runs = [NightlyRun(commit=0, day=day) for day in range(40)]
    histories.write(
        root / "results",
        runs,
        lambda case, run: 1000 * (1.2 if run.day >= 25 else 1.0),
        cases=[CASE],
        commits=[head],
        launches=10,
        noise=0.0005,
        machine="simulated-shelf",
    )
    assert main([*BISECT]) == EXIT_NOTHING_MEASURED
    assert "nothing that is measured differs" in capsys.readouterr().err
    commit(root, "1.001")
    assert main([*BISECT, "--good", "HEAD~1", "--bad", "HEAD"]) == EXIT_NOTHING_MEASURED
    assert "do not differ when they are interleaved (same)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ((str(CASE), "--good", "nowhere", "--bad", "main"), EXIT_USAGE, "no commit 'nowhere'"),
        ((str(CASE), "--good", "main"), EXIT_NOTHING_MEASURED, "hostbench run"),
        (("transfer.host_to_device",), EXIT_USAGE, "a bisection follows one"),
        ((f"{CASE}@other",), EXIT_USAGE, "of machine other, this is simulated-shelf"),
    ],
)
def test_what_cannot_be_bisected_is_refused(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    assert main(["bisect", *args, "--device", "simulated"]) == code
    assert message in capsys.readouterr().err
