"""`hostbench bisect SERIES`: which commit made a series slower. git bisects, and `hostbench ab`
measures each step."""

import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import Any

from hostbench.cli.history import open_history
from hostbench.cli.measuring import Measured
from hostbench.cli.output import show, typed_again, warn
from hostbench.cli.run_setup import Measuring, set_up
from hostbench.cli.two_codes import MeasuredSides, measure_sides, repository
from hostbench.core.case import as_typed, parse_series
from hostbench.core.errors import (
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    DeviceLost,
    HostbenchError,
    Interrupted,
    NothingMeasured,
    UsageError,
)
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.units import format_change, format_interval
from hostbench.families import check_selects, load
from hostbench.judge.two_sides import Comparison, TwoSides, compare, half, side_of
from hostbench.report.history import history_of
from hostbench.runner.plan import choose
from hostbench.vcs import repo
from hostbench.vcs.repo import about
from hostbench.vcs.side import NothingDiffers, known_commit, measured_paths

_FIRST = re.compile(r"^# first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
_POSSIBLE = re.compile(r"^# possible first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)
SKIP, STOP = 125, 130
"""What `git bisect run` takes for: cannot be told; go no further."""


def execute(*, series: str, good: str | None, bad: str | None, **measuring: Any) -> int:
    """Exit code 0 where the commit was found, 3 where the ends do not differ today, or only commits
    are left that cannot be measured."""
    options = Measuring(**measuring)
    case, root, good, bad = _ends(options, series, good, bad)
    ends = measure_sides(replace(options, case=(case,)), good, (bad,), scratch="bisect")
    comparison = _judged(ends.measured)
    last = _in_words("bad", ends, comparison)
    if comparison.effect is None or comparison.verdict not in ("slower", "faster"):
        raise NothingMeasured(
            f"{good[:8]} and {bad[:8]} do not differ when they are interleaved "
            f"({comparison.verdict}): the step is the environment's, or too small to be seen here"
        )
    threshold = half(comparison.effect)
    show(f"{last}\nfrom {format_change(threshold)} on a commit is bad")
    command = [sys.executable, "-m", "hostbench", "ab", good]
    options_again = f"--threshold {threshold:.4g}{typed_again(options, *measuring)}"
    step = f'{join(command)} "$commit" --bisect --case {quote(case)} {options_again}'
    lines = {bad: last}
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-bisect-") as name:
        log = _bisected(root, Path(name), good, bad, step, lines)
    if first := _FIRST.search(log):
        commit = first[1]
        show(f"\n{commit} is the first bad commit\n{lines.get(commit, '')}".rstrip())
        return EXIT_OK
    suspects = ", ".join(commit[:8] for commit in _POSSIBLE.findall(log))
    warn(f"the first bad commit is one of {suspects or 'those left'}: the others were skipped")
    return EXIT_NOTHING_MEASURED


def _bisected(
    root: Path, folder: Path, good: str, bad: str, step: str, lines: dict[str, str]
) -> str:
    """git's log of it. Each step runs here, with the commit that is to be measured, and prints into
    a file named by that; it is shown and added to `lines`. In a clone git checks nothing out, so
    nothing of the checkout moves. Raises GitError."""
    clone, steps = folder / "clone", folder / "steps"
    steps.mkdir()
    repo.git(root, "clone", "--quiet", "--shared", "--no-checkout", paths=[str(root), str(clone)])
    start = ("bisect", "start", "--no-checkout")
    repo.git(clone, *start, names=[bad, good], paths=measured_paths(root))
    if not _FIRST.search(repo.git(clone, "bisect", "log")):
        script = (
            f"commit=$(git rev-parse BISECT_HEAD) && cd {quote(str(Path.cwd()))} || exit 255\n"
            f"exec {step} > {quote(str(steps))}/$commit"
        )
        for _ in repo.follow_git(clone, "bisect", "run", "sh", "-c", script):
            for path in steps.iterdir():  # git says something after each step
                if path.name not in lines and (text := path.read_text().rstrip()):
                    lines[path.name] = text
                    show(text)
    return repo.git(clone, "bisect", "log")


def _ends(
    options: Measuring, text: str, good: str | None, bad: str | None
) -> tuple[str, Path, str, str]:
    """(case, checkout, good commit, bad commit). Raises UsageError where SERIES is not one case of
    this machine."""
    series = parse_series(text)
    family = series.case.workload.partition(".")[0]
    check_selects(series.case, load((family,)), "SERIES ")
    setup = set_up(replace(options, families=(family,)), measures=False)
    cases = choose(setup.workloads, setup.device, selectors=[series.case])
    if len(cases) != 1:
        raise UsageError(
            f"{text!r} names {len(cases)} series, a bisection follows one: write more "
            f"axes, as in {as_typed(str(cases[0]))}"
        )
    if series.machine not in (None, setup.machine):
        raise UsageError(
            f"the series is of machine {series.machine}, this is {setup.machine}: go there, or "
            "leave @machine out to measure it here"
        )
    root, _ = repository(setup.results)
    if good is None or bad is None:
        around = _around_newest_step(options.results, setup.machine, str(cases[0]))
        good, bad = good or around[0], bad or around[1]
    return str(cases[0]), root, known_commit(root, good), known_commit(root, bad)


def _around_newest_step(results: str | None, machine: str, case: str) -> tuple[str, str]:
    """The commits around the newest step to slower of the series, as `hostbench changes` has it."""
    steps = [
        event
        for event in history_of(open_history(results)).events
        if machine in (event.machine, event.group)
        and event.case == case
        and event.status in ("confirmed", "provisional")
        and event.effect > 0
    ]
    if not steps:
        raise NothingMeasured(
            f"no step to slower that stayed in {case}@{machine}, as `hostbench changes` judges it; "
            "name the ends with --good and --bad"
        )
    around = max(steps, key=lambda event: event.first.committed_at).around
    return around[0].commit, around[-1].commit


def judge_step(
    options: Measuring, a: str, names: Sequence[str], budget_s: float, threshold: float
) -> int:
    """`ab --bisect`: the exit code that `git bisect run` wants. A commit that cannot be measured is
    skipped. Without the device none can be, and any exit code below 128 would call a commit bad:
    then the bisection stops."""
    try:
        both = measure_sides(options, a, names, budget_s, scratch="bisect", only_case=True)
        comparison = _judged(both.measured)
        word = side_of(comparison, threshold)
        show(_in_words("skip" if word == "undecided" else word, both, comparison))
        return {"good": 0, "bad": 1, "undecided": SKIP}[word]
    except NothingDiffers as error:
        warn(str(error))
        return 0
    except (DeviceLost, Interrupted, KeyboardInterrupt) as error:
        warn(str(error) or "interrupted")
        return STOP
    except HostbenchError as error:
        warn(str(error))
        return SKIP
    except Exception:
        traceback.print_exc()
        return STOP


def _judged(measured: Measured) -> Comparison:
    """Of the one case that was measured. Raises HostbenchError where it has no number."""
    for run in measured.runs:
        if wrong := next((record for record in run.records if record.status != "ok"), None):
            raise NothingMeasured(f"{wrong.status}: {wrong.reason}")
    if measured.end == "interrupted":
        raise KeyboardInterrupt
    if measured.end == "device lost":
        raise DeviceLost("the device is lost: no commit can be measured before it is back")
    first, second = (
        [record.seconds for record in run.records if record.seconds is not None]
        for run in measured.runs
    )
    return compare({"": TwoSides(interleaved=(first, second))})[""]


def _in_words(word: str, both: MeasuredSides, comparison: Comparison) -> str:
    """`bad   1a2b3c4d  +20.0% (+19.1% to +20.9%)  2026-11-21 the commit's first line`, and how to
    see it again."""
    effect, low, high = comparison.effect, comparison.low, comparison.high
    change = "without an interval"
    if effect is not None and low is not None and high is not None:
        change = f"{format_change(effect)} ({format_interval(low, high)})"
    commit = str(both.sides[1].code.commit)
    first, second = (run.run_id for run in both.measured.runs)
    return (
        f"{word:4}  {commit[:8]}  {change:28}  {about(Path.cwd(), commit)}\n"
        f"      hostbench compare run:{first} run:{second}"
    )
