"""Candidates of a bisection, each measured interleaved with the good commit."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostbench.cli.measuring import measure_pair
from hostbench.cli.output import warn
from hostbench.cli.program import program
from hostbench.cli.run_setup import Measuring, Setup, adopt_left_over, planned
from hostbench.core.case import Case
from hostbench.core.errors import (
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    DeviceLost,
    HostbenchError,
    NothingMeasured,
)
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.core.units import one_line
from hostbench.judge.bisect import half, side_of
from hostbench.judge.compare import Comparison, compare
from hostbench.runner.plan import Plan
from hostbench.vcs import repo
from hostbench.vcs.bisection import Bisection, Word
from hostbench.vcs.side import Side, comparable, of_commit

MORE = 2
"""How often a commit that is undecided is measured again before it is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is looked for, and between which commits."""

    root: Path
    case: Case
    good: str
    bad: str
    num_commits: int
    """Commits after `good` up to `bad` that touch hostbench."""
    effect: float | None
    """Of the step, from what is stored; None where an end was never measured."""
    cause: str
    """What `hostbench changes` says of the step; empty where the ends were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every candidate is held against."""

    setup: Setup
    root: Path
    plan: Plan
    good: Side
    folder: Path


@dataclass(slots=True, kw_only=True)
class Trial:
    """One candidate, interleaved with the good commit, over one or more pairs of runs."""

    commit: str
    side: Side | None = None
    seconds: tuple[list[list[float]], list[list[float]]] = field(default_factory=lambda: ([], []))
    """Of good and candidate: runs of launches."""
    run_ids: tuple[str, str] | None = None
    """The newest pair."""
    found: Comparison | None = None
    word: Word = "skip"
    why: str = ""


def run(setup: Setup, search: Search, options: Measuring, threshold: float | None) -> int:
    """Print each step and the first bad commit; from the relative change `threshold` on one is bad,
    else from half of what the ends differ by. Exit code 3 where it cannot be told."""
    with bench_of(setup, search.root, search.good, options) as bench:
        ends = _reproduced(bench, search, threshold or search.effect)
        threshold = threshold or half(_effect(ends))
        print(f"{line(bench, ends)}\nfrom {threshold:+.1%} on a commit is bad")
        steps = Bisection(search.root, bench.folder / "clone", search.good, search.bad)
        tried = {search.bad: ends}
        while (commit := steps.candidate) is not None:
            if commit not in tried:
                tried[commit] = trial_of(bench, commit, threshold)
                print(line(bench, tried[commit]), flush=True)
            steps.mark(tried[commit].word)
        if steps.first_bad is None:
            suspects = ", ".join(commit[:8] for commit in steps.suspects)
            warn(f"the first bad commit is one of {suspects}: the others of them were skipped")
            return EXIT_NOTHING_MEASURED
        print("\n".join(_verdict(bench, search.case, tried[steps.first_bad])))
    return EXIT_OK


@contextmanager
def bench_of(setup: Setup, root: Path, good: str, options: Measuring) -> Iterator[Bench]:
    become_subreaper()
    adopt_left_over(setup)
    plan = planned(options, setup)
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-bisect-") as name:
        first = of_commit(root, good, Path(name, "good"))
        yield Bench(setup=setup, root=root, plan=plan, good=first, folder=Path(name))


def _reproduced(bench: Bench, search: Search, sought: float | None) -> Trial:
    """The bad end against the good one. Raises NothingMeasured where they do not differ today, or
    not in the direction of the effect that is sought."""
    trial = Trial(commit=search.bad, word="bad")
    found = _measured(bench, trial)
    said = (
        f"{search.bad[:8]} is {_words(found)} against {search.good[:8]} when they are interleaved "
        f"({found.verdict})"
    )
    if found.verdict not in ("slower", "faster"):
        raise NothingMeasured(
            f"{said}: the step is the environment's, or too small to be seen here"
        )
    if sought is not None and _effect(trial) * sought < 0:
        raise NothingMeasured(
            f"{said}, {sought:+.1%} is sought: the step is not of these commits' code"
        )
    return trial


def trial_of(bench: Bench, commit: str, threshold: float) -> Trial:
    """Good or bad; skipped where there is no number, or it stays undecided."""
    trial = Trial(commit=commit, why=f"undecided after {1 + MORE} pairs of runs")
    for _ in range(1 + MORE):
        try:
            lies = side_of(_measured(bench, trial), threshold)
        except DeviceLost:  # no other commit would have a number either
            raise
        except HostbenchError as error:
            trial.why = str(error)
            break
        if lies != "undecided":
            trial.word, trial.why = lies, ""
            break
    return trial


def _measured(bench: Bench, trial: Trial) -> Comparison:
    """A pair of runs more, judged with those before. Raises HostbenchError without a number."""
    if trial.side is None:
        trial.side = of_commit(bench.root, trial.commit, bench.folder / trial.commit)
    sides = (bench.good, trial.side)
    cases, notes = comparable(bench.plan.cases, sides)
    if not cases:
        raise NothingMeasured("; ".join(notes))
    seed = bench.plan.seed + len(trial.seconds[0])
    pair = measure_pair(bench.setup, sides, replace(bench.plan, seed=seed), scratch="bisect")
    if pair.end == "interrupted":
        raise KeyboardInterrupt
    if pair.end == "device lost":
        raise DeviceLost("the device is lost: no commit can be measured before it is back")
    for runs, records in zip(trial.seconds, pair.records, strict=True):
        bad = next((one for one in records if one.status != "ok"), None)
        if bad is not None:
            raise NothingMeasured(f"{bad.status}: {bad.reason}")
        runs.append([one.seconds for one in records if one.seconds is not None])
    trial.run_ids = pair.run_ids
    both = {trial.commit: trial.seconds}
    trial.found = compare(both, interleaved=both)[trial.commit]
    return trial.found


def _effect(trial: Trial) -> float:
    assert trial.found is not None and trial.found.effect is not None
    return trial.found.effect


def _words(found: Comparison) -> str:
    if found.effect is None or found.low is None or found.high is None:
        return "without an interval"
    return f"{found.effect:+.1%} ({found.low:+.1%} to {found.high:+.1%})"


def line(bench: Bench, trial: Trial) -> str:
    said = _words(trial.found) if trial.found else ""
    why = f" [{one_line(trial.why)}]" if trial.why else ""
    about = repo.about(bench.root, trial.commit)
    return f"{trial.word:4}  {trial.commit[:8]}  {said:26}  {about}{why}"


def _verdict(bench: Bench, case: Case, trial: Trial) -> list[str]:
    """The first bad commit, with the evidence."""
    lines = [
        "",
        f"{trial.commit} is the first bad commit",
        f"  {repo.about(bench.root, trial.commit)}",
    ]
    if trial.found is not None and trial.run_ids is not None:
        good, bad = (f"run:{run_id}" for run_id in trial.run_ids)
        lines += [
            f"  {case}: {_words(trial.found)} against {str(bench.good.code.commit)[:8]}, "
            f"{trial.found.num[0]}+{trial.found.num[1]} launches, interleaved",
            f"  see it: {program()} compare {good} {bad}",
        ]
    return lines
