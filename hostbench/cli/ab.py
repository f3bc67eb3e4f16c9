"""`hostbench ab A [B]`: two commits, or one and the working tree, interleaved, and what became
slower from A to B."""

import math
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

from hostbench.cli.measuring import Measured, Measuring, Setup, measure, set_up
from hostbench.cli.output import show, show_page, typed_again, warn, write_file
from hostbench.cli.results import results_folder
from hostbench.core.asv_config import project_root
from hostbench.core.errors import (
    EXIT_FAILED,
    DeviceLost,
    HostbenchError,
    Interrupted,
    NothingMeasured,
    UsageError,
)
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.suggest import did_you_mean
from hostbench.core.units import format_change, format_interval
from hostbench.core.user_project import is_hostbench
from hostbench.families import known, user_families
from hostbench.judge.two_sides import Comparison, side_of
from hostbench.report.comparison import comment as comment_with
from hostbench.report.comparison import comment_of, page
from hostbench.runner.plan import STANDARD
from hostbench.vcs import side
from hostbench.vcs.repo import Checkout, about, commit_of, working_tree
from hostbench.vcs.side import WORKING_TREE, NothingDiffers, Side

MOST_LAUNCHES = 20
"""A side, that `--budget` is spent on."""
SKIP, STOP = 125, 130
"""What `git bisect run` takes for: cannot be told; go no further."""


def execute(
    *,
    a: str,
    names: tuple[str, ...],
    budget: float,
    comment: Path | None,
    bisect: bool,
    threshold: float,
    all: bool,
    format: str,
    **measuring: Any,
) -> int:
    """Measure, keep a run of each side, compare them. Exit codes are those of `compare`, but 4
    where a case failed or the run was interrupted; with --bisect those of `git bisect run`."""
    options = Measuring(**measuring)
    if bisect:
        return judge_step(options, a, names, budget, threshold)
    words = [*map(quote, (a, *names)), *(f"--case {quote(case)}" for case in options.case)]
    words += [f"--budget {budget:g}s"] if math.isfinite(budget) else []
    more = typed_again(options, "quick", "launches", "device", "deadline")
    again = f"again: hostbench ab {' '.join(words)}{more}"

    def write_comment(text: str) -> None:
        if comment is not None:
            write_file(comment, text.encode())

    try:
        measured = measure_sides(options, a, names, budget)
        both = measured.compared(options.results)
    except (HostbenchError, KeyboardInterrupt) as error:  # else the comment before stays, and lies
        why = str(error) or "interrupted before anything was compared"
        nothing = isinstance(error, NothingMeasured | KeyboardInterrupt)
        write_comment(comment_with("Nothing measured" if nothing else "Failed", [why, again]))
        raise
    called = _called(measured.sides[0]), _called(measured.sides[1])
    both = replace(both, names=called, notes=[*both.notes, *_notes(called, measured)])
    ids = " ".join(f"run:{run.run_id}" for run in measured.runs)
    shown_again = f"hostbench compare {ids}{typed_again(options, 'results')}"
    show_page(format, page(both, shown_again, every=all))
    commits = [
        f"{name}: {about(Path.cwd(), str(own.code.commit))}"
        for name, own in zip(called, measured.sides, strict=True)
    ]
    write_comment(comment_of(both, shown_again, [*commits, again]))
    records = chain.from_iterable(run.records for run in measured.runs)
    failed = any(record.status == "failed" for record in records)
    cut_off = measured.end in ("interrupted", "device lost")
    return EXIT_FAILED if failed or cut_off else both.exit_code


def _called(own: Side) -> str:
    clean = ", tracked files unchanged" if own.name == WORKING_TREE else ""
    state = f", {own.code.scratch}" if own.code.scratch else clean
    return f"{own.name} ({str(own.code.commit)[:8]}{state})"


def _notes(names: tuple[str, str], both: Measured) -> Iterator[str]:
    """What was not measured, where each side is stored, and whether it came to its end."""
    yield from both.notes
    for name, run in zip(names, both.runs, strict=True):
        yield f"{name} is run:{run.run_id}"
    if both.end != "complete":
        num = min(len({record.launch for record in run.records}) for run in both.runs)
        yield f"{both.end} in launch {num}: what was measured is stored, and judged if it is enough"


# ---- one case, for git bisect -------------------------------------------------------------------


def judge_step(
    options: Measuring, a: str, names: Sequence[str], budget_s: float, threshold: float
) -> int:
    """`ab --bisect`: the exit code that `git bisect run` wants. A commit that cannot be measured is
    skipped. Without the device none can be, and any exit code below 128 would call a commit bad:
    then the bisection stops."""
    try:
        both, comparison = measure_case(options, a, names, budget_s)
        word = side_of(comparison, threshold)
        show(in_words("skip" if word == "undecided" else word, both, comparison))
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


def measure_case(
    options: Measuring, a: str, names: Sequence[str], *budget_s: float
) -> tuple[Measured, Comparison]:
    """Of one case. Raises KeyboardInterrupt or DeviceLost where it was cut off."""
    both = measure_sides(options, a, names, *budget_s, scratch="bisect", only_case=True)
    if both.end == "interrupted":
        raise KeyboardInterrupt
    if both.end == "device lost":
        raise DeviceLost("the device is lost: no commit can be measured before it is back")
    (comparison,) = both.compared(options.results).comparisons.values()
    return both, comparison


def in_words(word: str, both: Measured, comparison: Comparison) -> str:
    """`bad   1a2b3c4d  +20.0% (+19.1% to +20.9%)  2026-11-21 the commit's first line`, and how to
    see it again."""
    change = f"{comparison.verdict}: {comparison.why}"
    if comparison.effect is not None:
        interval = format_interval(comparison.low, comparison.high)
        change = f"{format_change(comparison.effect)} ({interval})"
    commit = str(both.sides[1].code.commit)
    first, second = (run.run_id for run in both.runs)
    return (
        f"{word:4}  {commit[:8]}  {change}  {about(Path.cwd(), commit)}\n"
        f"      hostbench compare run:{first} run:{second}"
    )


# ---- two codes ----------------------------------------------------------------------------------


def measure_sides(
    options: Measuring,
    a: str,
    names: Sequence[str],
    budget_s: float = math.inf,
    *,
    scratch: str | None = None,
    only_case: bool = False,
) -> Measured:
    """As `interleave`. `names`: B, then families; either may be left out."""
    become_subreaper()
    second, families = _names(names)
    root, _ = repository(results_folder(options.results))
    for name in (a, second) if second else (a,):
        side.known_commit(root, name)  # refused before torch is asked
    setup = set_up(replace(options, families=families))
    if only_case:
        setup.only_case(" ".join(options.case))
    return interleave(setup, a, second, options.launches, budget_s, scratch=scratch)


def interleave(
    setup: Setup,
    a: str,
    second: str | None,
    launches: int | None,
    budget_s: float,
    *,
    scratch: str | None = None,
) -> Measured:
    """A run of each side, which is kept; without a second the working tree is that. `scratch`: why
    no history is judged by them. Raises NothingMeasured where the sides have no case in common, or
    nothing that is measured differs."""
    root, code = repository(setup.results)
    commits = side.known_commit(root, a), second and side.known_commit(root, second)
    side.check_differ(root, (a, second or WORKING_TREE), *commits)
    # --quick narrows the cases alone; a budget decides itself how many launches there are.
    most = (launches or MOST_LAUNCHES) if math.isfinite(budget_s) else None
    num = MIN_LAUNCHES if most else launches or STANDARD.launches
    profile = replace(setup.plan.profile, launches=num)
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-ab-") as folder:
        sides = (
            side.make(root, a, code, Path(folder, "a")),
            side.make(root, second, code, Path(folder, "b")),
        )
        cases, notes = side.comparable(setup.plan.cases, sides)
        if not cases:
            raise NothingMeasured(f"nothing to compare: {'; '.join(notes)}")
        setup = replace(setup, plan=replace(setup.plan, cases=cases, profile=profile))
        measured = measure(setup, sides, scratch=scratch, budget_s=budget_s, most=most)
    return replace(measured, sides=sides, notes=notes)


def repository(results: Path) -> tuple[Path, Checkout]:
    """The checkout whose commits are measured, and its state, `results` left aside. Raises
    UsageError without one."""
    root = project_root(Path.cwd())
    if root is None:
        raise UsageError(
            f"commits are measured from a checkout, and no folder from {Path.cwd()} upwards holds "
            "asv.conf.json: go to one, or let `hostbench init` write what your project lacks"
        )
    if not is_hostbench(root) and not user_families():
        raise UsageError(
            f"{root} has no workloads of its own, and hostbench's do not run its code: `hostbench "
            "init` writes one"
        )
    code = working_tree(root, results)
    if code.commit is None:
        raise UsageError(
            f"{root} has no commits that can be measured ({code.scratch}): commit what there is, "
            "or clone a repository that has some"
        )
    return root, code


def _names(names: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """(B, families) of what follows A: B may be left out, and no family is taken for it."""
    families = known()
    second = None
    if names and names[0] not in families:
        second, *names = names
        if commit_of(Path.cwd(), second) is None:
            raise UsageError(
                f"{second!r} is no commit that git knows, and no family"
                f"{did_you_mean(second, families)}; there are: {', '.join(families)}"
            )
    return second, tuple(names)
