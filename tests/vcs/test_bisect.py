"""Which commit it was: the range from history, the steps, and doing them."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from hostbench import facts
from hostbench.cli.entry import main
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_USAGE,
    DeviceLost,
)
from hostbench.core.records import Launch, Outcome
from hostbench.facts.torch_probe import TorchState
from hostbench.judge.bisect import half, newest_step, side_of
from hostbench.judge.compare import Comparison
from tests import turns
from tests.fakes import history as histories
from tests.fakes.builders import copy_case
from tests.fakes.history import NightlyRun, nightly
from tests.stored import runs_of
from tests.turns import CASE, commit, git

BISECT = ("bisect", str(CASE), "--device", "simulated")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return turns.stage(tmp_path, monkeypatch)


def steps(*levels: tuple[int, float], all_from: int = 999) -> tuple[str, int] | None:
    """(whose, since which night) of eight series of which one goes through these levels; from
    `all_from` on all of them are a fifth slower."""
    flat = [level for num, level in levels for _ in range(num)]
    judged = histories.judged(
        nightly(len(flat)),
        lambda case, run: (
            (flat[run.commit] if case == 0 else 1.0) * (1.2 if run.commit >= all_from else 1.0)
        ),
    )
    step = newest_step([judged], judged.grid.group, judged.grid.cases[0])
    if step is None:
        return None
    return step[0].event.id.partition("[")[0], step[0].change.index


def test_the_newest_step_is_the_one_that_changes_reports() -> None:
    own = histories.CASES[0].workload
    assert steps((40, 1.0), (40, 1.2), (40, 1.1)) == (own, 40)
    assert steps((40, 1.0), (40, 1.2), (40, 1.5)) == (own, 80)
    assert steps((40, 1.0), (40, 1.2), (40, 1.0)) is None
    assert steps((40, 1.2), (40, 1.0)) is None
    assert steps((80, 1.0), all_from=60) == ("machine:box", 60)
    assert steps((40, 1.0), (40, 1.2), all_from=60) == (own, 40)


@pytest.mark.parametrize(
    ("low", "high", "threshold", "side"),
    [
        (0.04, 0.06, 0.03, "bad"),
        (-0.01, 0.02, 0.03, "good"),
        (0.02, 0.04, 0.03, "undecided"),
        (-0.06, -0.04, -0.03, "bad"),
        (-0.02, 0.01, -0.03, "good"),
        (None, None, 0.03, "undecided"),
    ],
)
def test_on_which_side_a_commit_lies(
    low: float | None, high: float | None, threshold: float, side: str
) -> None:
    found = Comparison(
        verdict="undecided",
        effect=0.0,
        low=low,
        high=high,
        p_value=None,
        unit="launch",
        num=(10, 10),
        is_provisional=False,
        why="",
    )
    assert side_of(found, threshold) == side


def test_half_is_half_of_the_logarithm() -> None:
    assert (1 + half(0.21)) ** 2 == pytest.approx(1.21)
    assert (1 + half(-0.19)) ** 2 == pytest.approx(0.81)


store = partial(histories.write, noise=0.0005, machine="simulated-shelf")


def slower_from(commit: int, factor: float = 1.204) -> Callable[[int, NightlyRun], float]:
    return lambda case, run: 1000 * (factor if run.day >= commit else 1.0)


def history(root: Path, num: int, bad_from: int) -> list[str]:
    """So many commits, each with a run; from `bad_from` on a fifth slower."""
    speeds = [1.2 if n >= bad_from else 1.0 for n in range(num)]
    commits = [commit(root, str(speed), f"change {n}") for n, speed in enumerate(speeds)]
    store(
        root / "results",
        nightly(num),
        slower_from(bad_from),
        cases=[CASE],
        commits=commits,
        launches=10,
    )
    return commits


def test_the_range_comes_from_what_is_stored_without_torch(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        facts, "probe_torch", lambda _: TorchState(installed=False, importable=False)
    )
    commits = history(root, 40, 25)
    assert main(list(BISECT)) == EXIT_OK
    said = capsys.readouterr().out
    assert said.splitlines()[1].startswith("  code: no fact that counts differs; landed: ")
    bad, good = said.partition("bisect start ")[2].split()[:2]
    place, end = commits.index(good), commits.index(bad)
    assert 22 <= place <= 24 and 25 <= end <= 27
    assert f"good {good[:8]} " in said and f"change {place}\n" in said
    assert f"bad  {bad[:8]} " in said and ", +20." in said
    assert f"bisect start {bad} {good} -- hostbench" in said
    assert f"--check --good {good} --threshold 0.09" in said
    assert f"ab {good} {bad} --case" in said


def test_printed_commands_keep_what_was_given(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [*ends(root, "1", "1.2"), "--threshold", "0.1"]
    given = "--device simulated --launches 8 --deadline 9.0 --seed 3 --identify --machine box"
    assert main([*BISECT[:2], *given.split(), *args, "--results", "a b"]) == EXIT_OK
    lines = [line for line in capsys.readouterr().out.splitlines() if f" {given} " in line]
    assert [line.split("--results ")[1] for line in lines] == [
        "'a b'",
        "'a b' --threshold 0.1 --run",
        f"'{root / 'a b'}' --check --good {args[1]} --threshold 0.1",
    ]


def test_a_step_that_came_with_a_driver_is_not_bisected_unasked(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = [copy_case(device="cuda", nbytes=65536 << n, memory="pinned") for n in range(7)]
    commits = [commit(root, f"1.{n}", f"change {n}") for n in range(30)]
    store(
        root / "results",
        nightly(30),
        slower_from(15),
        cases=cases,
        commits=commits,
        driver=lambda run: "590.2" if run.commit >= 15 else "580.1",
    )
    assert main(list(BISECT)) == EXIT_NOTHING_MEASURED
    said = capsys.readouterr().err
    assert "machine:simulated-shelf" in said and "is no commit's. environment: " in said
    assert "driver: 580.1 -> 590.2" in said
    assert main([*BISECT, "--good", commits[10], "--bad", commits[20]]) == EXIT_OK
    assert ", +20." in capsys.readouterr().out


def test_a_step_at_one_commit_is_the_environments(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [NightlyRun(commit=0, day=day) for day in range(40)]
    head = git(root, "rev-parse", "HEAD")
    store(root / "results", runs, slower_from(25), cases=[CASE], commits=[head], launches=10)
    assert main(list(BISECT)) == EXIT_NOTHING_MEASURED
    assert "is no commit's. environment: the same commit on both" in capsys.readouterr().err


def ends(root: Path, *speeds: str) -> list[str]:
    """Commits of these speeds, the first of them good and the last bad, as arguments."""
    commits = [commit(root, speed, f"change {n}") for n, speed in enumerate(speeds)]
    return ["--good", commits[0], "--bad", commits[-1]]


def test_the_first_bad_commit_is_found(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ends(root, "1", "1.001", "1.2", "1.2", "1.2")
    before = git(root, "for-each-ref"), git(root, "status", "--porcelain")
    assert main([*BISECT, *args, "--run"]) == EXIT_OK
    said = capsys.readouterr().out
    assert f"{git(root, 'rev-parse', 'HEAD~2')} is the first bad commit\n" in said
    assert "change 2" in said.splitlines()[-3] and "+20.0% (" in said and "compare run:" in said
    assert (git(root, "for-each-ref"), git(root, "status", "--porcelain")) == before
    kept = [run.header for run in runs_of(root / "results")]
    assert len(kept) == 6 and all(header.interleaved_with for header in kept)


def test_commits_that_cannot_be_measured_are_skipped(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ends(root, "1", "broken", "broken", "1.2")
    assert main([*BISECT, *args, "--run"]) == EXIT_NOTHING_MEASURED
    said = capsys.readouterr()
    assert "[failed: broken]" in said.out
    assert "the first bad commit is one of" in said.err


def test_what_stays_undecided_is_skipped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ends(root, "1", "1.0955", "1.2")
    assert main([*BISECT, *args, "--run"]) == EXIT_NOTHING_MEASURED
    assert "[undecided after 3 pairs of runs]" in capsys.readouterr().out


def test_a_step_that_does_not_show_is_no_commits(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*BISECT, *ends(root, "1", "1", "1"), "--run"]) == EXIT_NOTHING_MEASURED
    assert "the step is the environment's, or too small" in capsys.readouterr().err


def test_a_step_that_shows_the_other_way_round_is_not_that_step(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = [*BISECT, *ends(root, "1", "0.9"), "--threshold", "0.1", "--run"]
    assert main(args) == EXIT_NOTHING_MEASURED
    assert "(faster), +10.0% is sought: the step is not of" in capsys.readouterr().err


def test_a_kill_before_measuring_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    turns.terminate(monkeypatch, root.parent / "temporary")
    try:
        assert main([*BISECT, *ends(root, "1", "1.2"), "--run"]) == EXIT_FAILED
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not seen and "interrupted" in capsys.readouterr().err
    assert not list((root.parent / "temporary").iterdir())


def test_one_step_of_git_bisect_run(root: Path) -> None:
    good = git(root, "rev-parse", "HEAD")
    check = [*BISECT, "--check", "--good", good, "--threshold", "0.1"]
    for speed, code in (("1.2", 1), ("1", 0), ("broken", 125)):
        commit(root, speed, f"to {speed}")
        assert main(check) == code
    assert main([*BISECT, "--check"]) == 125


@pytest.mark.parametrize("launch", [0, 1])
def test_a_lost_device_skips_no_commit(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], launch: int
) -> None:
    """Before anything was measured, or midway."""
    args = ends(root, "1", "1.2")
    whole = turns.Toy.run

    def lost(self: turns.Toy, wanted: Launch) -> Iterator[Outcome]:
        if wanted.number == launch:
            raise DeviceLost("device cuda does not start")
        yield from whole(self, wanted)

    monkeypatch.setattr(turns.Toy, "run", lost)
    assert main([*BISECT, "--check", *args[:2], "--threshold", "0.1"]) == 130
    assert main([*BISECT, *args, "--run"]) == EXIT_FAILED
    assert "interrupted" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--good", "nowhere", "--bad", "main"), EXIT_USAGE, "git knows no commit 'nowhere'"),
        (("--good", "main", "--bad", "main~1"), EXIT_USAGE, "main is no ancestor of main~1"),
        (("--good", "main", "--bad", "main"), EXIT_NOTHING_MEASURED, "nothing to bisect"),
        (("--good", "main~1", "--bad", "main"), EXIT_USAGE, "has no numbers of both"),
        (("--threshold", "0"), EXIT_USAGE, "--threshold 0 is no relative change"),
        ((), EXIT_NOTHING_MEASURED, "no step to slower that stayed in"),
    ],
)
def test_what_cannot_be_bisected_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], code: int, said: str
) -> None:
    commit(root, "1.2")
    assert main([*BISECT, *args]) == code
    assert said in capsys.readouterr().err


def test_series_and_machine_are_checked(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bisect", "transfer.host_to_device", "--device", "simulated"]) == EXIT_USAGE
    assert "a bisection follows one" in capsys.readouterr().err
    elsewhere = ["bisect", f"{CASE}@other", "--device", "simulated", "--run"]
    assert main(elsewhere) == EXIT_USAGE
    assert "the series is of machine other, this is simulated-shelf" in capsys.readouterr().err


def test_a_shallow_clone_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(root, "1.2")
    git(root.parent, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    monkeypatch.chdir(root.parent / "shallow")
    assert main([*BISECT, "--good", "HEAD~1", "--bad", "HEAD"]) == EXIT_USAGE
    assert "git fetch --unshallow" in capsys.readouterr().err
