"""`hostbench ab A [B]`: two codes, interleaved, and what became slower from A to B."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from hostbench.cli import compare
from hostbench.cli.measuring import Pair, measure_pair
from hostbench.cli.output import check_folder, warn, write_file
from hostbench.cli.program import given
from hostbench.cli.results import results_folder
from hostbench.cli.run_setup import (
    Measuring,
    Setup,
    adopt_left_over,
    check_decides,
    planned,
    set_up,
)
from hostbench.core.errors import EXIT_FAILED, HostbenchError, NothingMeasured, UsageError
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.suggest import did_you_mean
from hostbench.families import broken_of_project, of_project
from hostbench.families import names as known_families
from hostbench.judge.compare import Comparison
from hostbench.report import comment
from hostbench.report.places import Key
from hostbench.report.sides import Sides
from hostbench.runner.places import project_root
from hostbench.runner.plan import STANDARD, Plan
from hostbench.vcs import side
from hostbench.vcs.own import is_own
from hostbench.vcs.repo import Checkout, GitError, about, commit_of, working_tree
from hostbench.vcs.side import WORKING_TREE, Side
from hostbench.vcs.touched import touched


@dataclass(frozen=True, slots=True, kw_only=True)
class AbOptions(Measuring):
    a: str
    names: tuple[str, ...] = ()
    """B, then families; either may be left out."""
    budget: float | None = None
    """Seconds that the launches may take: each case has as many as it needs. None: ten a side."""
    changed: bool = False
    comment: Path | None = None
    all: bool = False
    format: str = "text"


def execute(options: AbOptions) -> int:
    """Measure, keep a run of each side, compare them. Exit codes are those of `compare`, but 4
    where a case failed or the run was interrupted."""
    if options.comment is not None:
        check_folder(options.comment, "--comment")
    try:
        return _execute(options)
    except (HostbenchError, KeyboardInterrupt) as error:  # else the comment before stays, and lies
        why = str(error) or "interrupted before anything was compared"
        nothing = isinstance(error, NothingMeasured | KeyboardInterrupt)
        answer = "Nothing measured" if nothing else "Failed"
        _write_comment(options, comment.of_nothing(why, _asked(options), answer))
        raise


def _execute(options: AbOptions) -> int:
    become_subreaper()
    check_decides(options)
    _check_budget(options)
    second, families = _names(options.names)
    # --quick narrows the cases alone.
    launches = MIN_LAUNCHES if options.budget else options.launches or STANDARD.launches
    asked = options
    options = replace(options, families=families, launches=launches)
    root, code = repository(results_folder(options.results))
    first = side.known_commit(root, options.a)  # refused before torch is asked
    last = None if second is None else side.known_commit(root, second)
    setup = set_up(options)
    plan = planned(options, setup)
    narrowed: tuple[str, ...] = ()
    if options.changed:
        plan, narrowed = _narrowed(root, first, last, plan, setup.results)
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-ab-") as folder:
        sides = (
            side.of_commit(root, options.a, Path(folder, "a")),
            side.of_commit(root, second, Path(folder, "b"))
            if second is not None
            else side.of_working_tree(root, code, Path(folder, "b")),
        )
        cases, notes = side.comparable(plan.cases, sides)
        if not cases:
            raise NothingMeasured(f"nothing to compare: {'; '.join(notes)}")
        if sides[0].code == sides[1].code:
            warn("both sides are the same code: what differs is the noise")
        adopt_left_over(setup)
        plan = replace(plan, cases=cases)
        pair = measure_pair(setup, sides, plan, budget_s=options.budget)
    verdict = _compared(asked, setup, (sides[0], sides[1]), pair, (*narrowed, *notes))
    failed = any(one.status == "failed" for records in pair.records for one in records)
    cut_off = pair.end in ("interrupted", "device lost")
    return EXIT_FAILED if failed or cut_off else verdict


def _narrowed(
    root: Path, first: str, last: str | None, plan: Plan, results: Path
) -> tuple[Plan, tuple[str, ...]]:
    """The cases that the change can touch, and what is to be said of the others. Raises
    NothingMeasured where it can touch none."""
    found = touched(root, first, last, plan.families(), results)
    if not found.families:
        raise NothingMeasured("; ".join(found.remarks))
    cases = tuple(case for case in plan.cases if case.family in found.families)
    return replace(plan, cases=cases), found.remarks


def _compared(
    options: AbOptions, setup: Setup, sides: tuple[Side, Side], pair: Pair, notes: Sequence[str]
) -> int:
    """The exit code of `compare`, which prints the page; `notes`: what could not be measured."""
    called = _called(sides[0]), _called(sides[1])
    remarks = [*notes, *_remarks(called, pair, options.all)]
    first, second = (f"run:{run_id}" for run_id in pair.run_ids)
    asked = compare.CompareOptions(
        a=first,
        b=second,
        all=options.all or options.budget is not None,
        format=options.format,
        results=str(setup.results),
    )

    def write(found: Mapping[Key, Comparison], judged: Sides) -> None:
        about = _asked(options, sides, setup)
        _write_comment(options, comment.of_result(found, judged, about, remarks))

    try:
        return compare.execute(asked, called, remarks, write)
    except NothingMeasured as error:
        _write_comment(options, comment.of_nothing(str(error), _asked(options, sides, setup)))
        for remark in remarks:
            warn(remark)
        warn(str(error))
        return error.exit_code


def _write_comment(options: AbOptions, text: str) -> None:
    if options.comment is not None:
        write_file(options.comment, text.encode(), "--comment")


def _asked(
    options: AbOptions, sides: Sequence[Side] = (), setup: Setup | None = None
) -> comment.Asked:
    """Before the sides are known, only how they were called."""
    words = [*map(quote, (options.a, *options.names))]
    words += [f"--case {quote(case)}" for case in options.case]
    times = (("--budget", options.budget), ("--stop-after", options.stop_after))
    words += [f"{name} {seconds:g}s" for name, seconds in times if seconds is not None]
    more = given(options, "quick", "changed", "launches", "device", "deadline")
    second = [name for name in options.names[:1] if name not in known_families()]
    names = [_called(one) for one in sides] or [options.a, *second, WORKING_TREE]
    subjects = [_subject(one) for one in sides] or ["", ""]
    return comment.Asked(
        names=(names[0], names[1]),
        subjects=(subjects[0], subjects[1]),
        machine=setup.machine if setup else "",
        command=f"hostbench ab {' '.join(words)}{more}",
    )


def _subject(of: Side) -> str:
    try:
        return about(Path.cwd(), of.code.commit) if of.code.commit else ""
    except GitError:
        return ""


def _check_budget(options: AbOptions) -> None:
    for name, value in (("--launches", options.launches), ("--stop-after", options.stop_after)):
        if options.budget is not None and value is not None:
            raise UsageError(
                f"--budget decides how many launches each case has, and when it ends: leave {name} "
                "out"
            )


def repository(results: Path) -> tuple[Path, Checkout]:
    """The checkout whose commits are measured, and its state, `results` left aside. Raises
    UsageError without one."""
    root = project_root(Path.cwd())
    if root is None:
        raise UsageError(
            f"commits are measured from a checkout, and no folder from {Path.cwd()} upwards holds "
            "asv.conf.json: go to one, or let `hostbench init` write what your project lacks"
        )
    if is_own(root) and not (*of_project(), *broken_of_project()):
        raise UsageError(
            f"{root} has no workloads of its own, and hostbench's do not run its code: `hostbench "
            "init` writes one, [tool.hostbench] workloads in pyproject.toml names their folder"
        )
    code = working_tree(root, results)
    if code.commit is None:
        raise UsageError(
            f"{root} has no commits that can be measured ({code.scratch}): commit what there is, "
            "or clone a repository that has some"
        )
    return root, code


def _names(names: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """(B, families) of what follows A: B may be left out, and no family is taken for it."""
    families = known_families()
    if names and names[0] not in families:
        if commit_of(Path.cwd(), names[0]) is None:
            raise UsageError(
                f"{names[0]!r} is no commit that git knows, and no family"
                f"{did_you_mean(names[0], families)}; there are: {', '.join(families)}"
            )
        return names[0], names[1:]
    return None, names


def _called(side: Side) -> str:
    clean = ", without changes" if side.name == WORKING_TREE else ""
    mark = f", {side.code.scratch}" if side.code.scratch else clean
    return f"{side.name} ({str(side.code.commit)[:8]}{mark})"


def _remarks(called: tuple[str, str], pair: Pair, every: bool = False) -> Iterator[str]:
    """Where each side is kept, and whether all was measured."""
    yield from _skipped(pair)
    if pair.budget is not None:
        yield from pair.budget.remarks(every)
    for name, run_id in zip(called, pair.run_ids, strict=True):
        yield f"{name} is run:{run_id}"
    if pair.end == "complete" or (pair.budget is not None and pair.end == "stopped"):
        return
    num = min(len({one.launch for one in records}) for records in pair.records)
    enough = "what was measured is kept, and judged"
    few = f"kept, but a verdict needs {MIN_LAUNCHES} launches a side: more time, or fewer cases"
    yield f"{pair.end} in launch {num}: {few if num < MIN_LAUNCHES else enough}"


def _skipped(pair: Pair) -> Iterator[str]:
    """How many cases neither side could measure, for each reason."""
    cases = {one.case for records in pair.records for one in records}
    first, second = (
        {one.case: one.reason for one in records if one.status == "skipped"}
        for records in pair.records
    )
    reasons = Counter(reason for case, reason in first.items() if case in second)
    for reason, num in reasons.items():
        yield f"skipped on both sides: {num} of {len(cases)} cases: {reason}"
