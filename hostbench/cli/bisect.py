"""`hostbench bisect SERIES`: which commit made a series slower. Prints the steps, or does them."""

import os
import sys
import traceback
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote

from hostbench.cli.ab import repository
from hostbench.cli.bisecting import Search, bench_of, line, run, trial_of
from hostbench.cli.history import open_history
from hostbench.cli.output import warn
from hostbench.cli.program import given, program
from hostbench.cli.run_setup import (
    Measuring,
    Setup,
    check_decides,
    set_up,
)
from hostbench.core.case import Case, Selector, as_typed, parse_series
from hostbench.core.errors import (
    EXIT_OK,
    DeviceLost,
    HostbenchError,
    NothingMeasured,
    UsageError,
)
from hostbench.core.samples import median
from hostbench.core.units import number_of, one_line
from hostbench.families import FOLDERS, check_selects, folders, load
from hostbench.judge.bisect import half, newest_step
from hostbench.judge.grid import marked
from hostbench.report.judged import ExplainedEvent, Explainer, judge_history
from hostbench.runner.plan import choose
from hostbench.store.history import History
from hostbench.vcs import bisection, repo

MEASURING = ("device", "launches", "deadline", "seed", "identify", "machine")
"""Options that the printed commands keep, beside --results."""
SKIP, STOP = 125, 130
"""What `git bisect run` takes for: cannot be told; go no further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions(Measuring):
    series: str
    good: str | None = None
    bad: str | None = None
    run: bool = False
    check: bool = False
    threshold: float | None = None
    """Relative change from which a commit is bad."""


def execute(options: BisectOptions) -> int:
    """Exit code 0 where the steps were printed or the commit was found, 3 where nothing shows."""
    if options.check:
        return _checked(options)
    options, setup, case = _set_up(options)
    search = _search(options, setup, case)
    if options.run:
        print("\n".join(_what(search)), flush=True)
        return run(_setup(options, measures=True), search, options, options.threshold)
    print("\n".join(_steps(search, options, setup)))
    return EXIT_OK


def _checked(options: BisectOptions) -> int:
    """One step of `git bisect run`: HEAD against --good. A commit that cannot be measured is
    skipped; without the device none can be, and the bisection stops."""
    try:
        good, threshold = options.good, options.threshold
        if good is None or threshold is None:
            raise UsageError("--check needs --good and --threshold: `hostbench bisect` prints them")
        options, setup, _ = _set_up(options)
        root, _ = repository(setup.results)
        with bench_of(_setup(options, measures=True), root, good, options) as bench:
            trial = trial_of(bench, str(repo.commit_of(root, "HEAD")), threshold)
            print(line(bench, trial))
    except DeviceLost as error:
        warn(str(error))
        return STOP
    except HostbenchError as error:
        warn(str(error))
        return SKIP
    except KeyboardInterrupt:
        return STOP
    except Exception:  # any other exit code below 128 would call the commit bad
        traceback.print_exc()
        return STOP
    return {"good": 0, "bad": 1, "skip": SKIP}[trial.word]


def _set_up(options: BisectOptions) -> tuple[BisectOptions, Setup, Case]:
    """With options that name the case alone; nothing is measured by this setup. Raises UsageError
    where SERIES is not one case of this machine."""
    check_decides(options)
    if options.threshold == 0:
        raise UsageError("--threshold 0 is no relative change, as 0.05 is")
    wanted = parse_series(options.series)
    family = wanted.case.workload.partition(".")[0]
    check_selects(wanted.case, load((family,)), "SERIES ")
    options = replace(options, families=(family,), case=(wanted.case.text,))
    setup = _setup(options, measures=False)
    case = _case(setup, wanted.case)
    if wanted.machine not in (None, setup.machine) and (options.run or options.check):
        raise UsageError(
            f"the series is of machine {wanted.machine}, this is {setup.machine}: go there, or "
            "leave @machine out to measure it here"
        )
    return options, setup, case


def _setup(options: BisectOptions, *, measures: bool) -> Setup:
    """Not refused for a case of another device: that only cannot be measured."""
    return set_up(replace(options, case=()), measures=measures)


def _case(setup: Setup, selector: Selector) -> Case:
    """The one case that is meant: of another device only where that is said."""
    every = [case for work in setup.workloads.values() for case in work.cases()]
    found = [case for case in every if selector.selects(case)]
    if len(found) != 1:
        found = list(choose(setup.workloads, setup.device, selectors=[selector]))
    if len(found) != 1:
        raise UsageError(
            f"{selector.text!r} names {len(found)} series, a bisection follows one: write more "
            f"axes, as in {as_typed(str(found[0]))}"
        )
    return found[0]


def _search(options: BisectOptions, setup: Setup, case: Case) -> Search:
    """Raises UsageError or NothingMeasured where there is nothing that a bisection could find."""
    root, _ = repository(setup.results)
    machine = parse_series(options.series).machine or setup.machine
    history = open_history(options.results) if setup.results.is_dir() else None
    good, bad, effect, cause = options.good, options.bad, None, ""
    if good is None or bad is None:
        told = _told(history, root, machine, str(case))
        cause = one_line(f"{told.cause.label}: {'; '.join(told.cause.why)}")
        around = told.found.around()
        if not (good or bad):
            effect = told.found.change.effect
            _refuse_environment(told, cause)
        good, bad = good or around[0].commit, bad or around[-1].commit
    first, last, num = bisection.ends(root, good, bad)
    if not num:
        raise NothingMeasured(
            f"nothing to bisect: no commit from {first[:8]} to {last[:8]} touches "
            f"{bisection.touched_in_words(root)}, so a step between them is the environment's"
        )
    if effect is None and history is not None:
        effect = _stored_effect(history, machine, case, first, last)
    return Search(
        root=root, case=case, good=first, bad=last, num_commits=num, effect=effect, cause=cause
    )


def _told(history: History | None, root: Path, machine: str, case: str) -> ExplainedEvent:
    """The newest step to slower as `hostbench changes` has it, with its cause."""
    judged = judge_history(history, "commit") if history else []
    step = newest_step(judged, machine, case)
    if history is None or step is None:
        raise NothingMeasured(
            f"no step to slower that stayed in {case}@{machine}, as `hostbench changes` judges it; "
            "name the ends with --good and --bad"
        )
    return Explainer(history, judged, root, "commit").tell(*step)


def _refuse_environment(told: ExplainedEvent, cause: str) -> None:
    """Raises NothingMeasured for a step that no commit has made."""
    found = told.found
    if told.cause.label in ("environment", "measurement changed"):
        raise NothingMeasured(
            f"nothing to bisect: the step of {found.change.effect:+.1%} of {found.event.id} since "
            f"{found.first.commit[:8]} is no commit's. {cause}. Name --good and --bad to try it "
            "all the same"
        )


def _stored_effect(history: History, machine: str, case: Case, good: str, bad: str) -> float | None:
    """From the points of both ends that may be judged; None where one has none."""
    rows = marked(history.trend(machine, str(case)))
    rows = rows[(rows["status"] == "ok") & rows["scratch"].isna() & rows["commit"].notna()]
    rows = rows[rows["version"] == rows["version"].iloc[-1]] if len(rows) else rows
    ends = [rows.loc[rows["commit"] == commit, "seconds"].tolist() for commit in (good, bad)]
    return median(ends[1]) / median(ends[0]) - 1 if all(ends) else None


def _steps(search: Search, options: BisectOptions, setup: Setup) -> list[str]:
    """Raises UsageError where no threshold can be said."""
    threshold = options.threshold or (search.effect and half(search.effect))
    if not threshold:
        raise UsageError(
            f"{search.case} has no numbers of both {search.good[:8]} and {search.bad[:8]} in "
            f"{setup.results}: --run measures them, or name a --threshold"
        )
    about = partial(repo.about, search.root)
    case, folder = quote(options.series), "../hostbench-bisect"
    paths = " ".join(map(quote, bisection.touched(search.root)))
    # The clone's commits have their own workloads, and these are to be measured.
    workloads = os.pathsep.join(str(one.resolve()) for one in folders())
    environ = f"env {FOLDERS}={quote(workloads)} " if workloads else ""
    kept = given(options, *MEASURING, "results")
    check = (
        f"{environ}{_absolute(program())} bisect {case}{given(options, *MEASURING)} --results "
        f"{quote(str(setup.results))} --check --good {search.good} --threshold {threshold:.4g}"
    )
    return [
        *_what(search),
        f"  good {search.good[:8]} {about(search.good)}",
        f"  bad  {search.bad[:8]} {about(search.bad)}",
        f"  {number_of(search.num_commits, 'commit touches', 'commits touch')} "
        f"{bisection.touched_in_words(search.root)}, bad is one from {threshold:+.1%} on",
        "",
        "reproduce it:",
        f"  {program()} ab {search.good} {search.bad} --case {quote(str(search.case))}{kept}",
        "find the commit:",
        f"  {program()} bisect {case} --good {search.good} --bad {search.bad}{kept}"
        f"{given(options, 'threshold')} --run",
        "or step by step, in a clone of its own:",
        f"  git clone --quiet --shared . {folder}",
        f"  git -C {folder} bisect start {search.bad} {search.good} -- {paths}",
        f"  git -C {folder} bisect run {check}",
        f"  rm -rf {folder}",
    ]


def _what(search: Search) -> list[str]:
    step = "" if search.effect is None else f", {search.effect:+.1%}"
    return [f"{search.case}{step}", *([f"  {search.cause}"] if search.cause else [])]


def _absolute(command: str) -> str:
    """The program from another folder, never the code that lies there."""
    first, *rest = command.split(" -m ")
    if first == "hostbench":
        return first
    path = quote(str(Path(first).absolute() if not rest else sys.executable))
    return f"{path} -P -m {rest[0]}" if rest else path
