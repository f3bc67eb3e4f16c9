"""`hostbench ab A [B]`: two codes, interleaved, and what became slower from A to B."""

import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

from hostbench.cli import compare as compare_command
from hostbench.cli.measuring import Measured, measure
from hostbench.cli.output import check_folder, show, typed_again, warn, write_file
from hostbench.cli.results import results_folder
from hostbench.cli.run_setup import (
    Measuring,
    adopt_left_over,
    check_decides,
    planned,
    set_up,
)
from hostbench.core.case import Case, as_typed
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
from hostbench.core.units import format_change, format_duration, format_interval, number_of
from hostbench.core.user_project import is_hostbench
from hostbench.families import names as known_families
from hostbench.families import user_families
from hostbench.judge.two_sides import Comparison, TwoSides, compare, side_of
from hostbench.report import comment
from hostbench.report.side_runs import Key
from hostbench.report.sides import Sides
from hostbench.runner.places import project_root
from hostbench.runner.plan import STANDARD
from hostbench.vcs import side
from hostbench.vcs.repo import Checkout, about, commit_of, working_tree
from hostbench.vcs.side import WORKING_TREE, NothingDiffers, Side

MOST_LAUNCHES = 20
"""A side, that `--budget` is spent on."""
SKIP, STOP = 125, 130
"""What `git bisect run` takes for: cannot be told; go no further."""
_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AbOptions(Measuring):
    a: str
    names: tuple[str, ...] = ()
    """B, then families; either may be left out."""
    comment: Path | None = None
    bisect: bool = False
    threshold: float = 0.05
    all: bool = False
    format: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSides:
    """Two sides whose launches were interleaved, and a run of each kept."""

    machine: str
    sides: tuple[Side, Side]
    measured: Measured
    cases: tuple[Case, ...]
    notes: tuple[str, ...]
    """What could not be compared, and why."""


def execute(**given: Any) -> int:
    """Measure, keep a run of each side, compare them. Exit codes are those of `compare`, but 4
    where a case failed or the run was interrupted; with --bisect those of `git bisect run`."""
    options = AbOptions(**given)
    if options.bisect:
        return _bisect_step(options)
    if options.comment is not None:
        check_folder(options.comment, "--comment")
    try:
        both = measure_sides(options)
        verdict = _compared(options, both)
    except (HostbenchError, KeyboardInterrupt) as error:  # else the comment before stays, and lies
        why = str(error) or "interrupted before anything was compared"
        nothing = isinstance(error, NothingMeasured | KeyboardInterrupt)
        answer = "Nothing measured" if nothing else "Failed"
        _write_comment(options, comment.of_nothing(answer, why, _about(options)))
        raise
    records = chain(*both.measured.records)
    failed = any(record.status == "failed" for record in records)
    cut_off = both.measured.end in ("interrupted", "device lost")
    return EXIT_FAILED if failed or cut_off else verdict


def measure_sides(options: AbOptions, scratch: str | None = None) -> MeasuredSides:
    """A run of each side is kept; `scratch`: why no history is judged by them. Raises
    NothingMeasured where the sides have no case in common, or nothing that is measured differs."""
    become_subreaper()
    check_decides(options)
    second, families = _names(options.names)
    root, code = repository(results_folder(options.results))
    first_commit = side.known_commit(root, options.a)  # refused before torch is asked
    second_commit = None if second is None else side.known_commit(root, second)
    # --quick narrows the cases alone; a budget decides itself how many launches there are.
    launches = MIN_LAUNCHES if options.budget else options.launches or STANDARD.launches
    most = (options.launches or MOST_LAUNCHES) if options.budget else None
    options = replace(options, families=families, launches=launches)
    setup = set_up(options)
    side.check_differ(root, (options.a, second or WORKING_TREE), first_commit, second_commit)
    plan = planned(options, setup)
    if options.bisect and len(plan.cases) != 1:
        raise UsageError(f"--bisect takes one case, not {len(plan.cases)}: name it with --case")
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
        adopt_left_over(setup)
        measured = measure(setup, replace(plan, cases=cases), sides, scratch=scratch, most=most)
    return MeasuredSides(
        machine=setup.machine, sides=sides, measured=measured, cases=cases, notes=tuple(notes)
    )


def judged(measured: Measured) -> Comparison:
    """Of the one case that was measured. Raises HostbenchError where it has no number."""
    for records in measured.records:
        if wrong := next((record for record in records if record.status != "ok"), None):
            raise NothingMeasured(f"{wrong.status}: {wrong.reason}")
    if measured.end == "interrupted":
        raise KeyboardInterrupt
    if measured.end == "device lost":
        raise DeviceLost("the device is lost: no commit can be measured before it is back")
    first, second = (
        [[record.seconds for record in records if record.seconds is not None]]
        for records in measured.records
    )
    return compare({"": TwoSides(first=first, second=second, interleaved=(first, second))})[""]


def step_in_words(word: str, both: MeasuredSides, comparison: Comparison) -> str:
    """`bad   1a2b3c4d  +20.0% (+19.1% to +20.9%)  2026-11-21 the commit's first line`, and how to
    see it again."""
    effect, low, high = comparison.effect, comparison.low, comparison.high
    change = "without an interval"
    if effect is not None and low is not None and high is not None:
        change = f"{format_change(effect)} ({format_interval(low, high)})"
    commit = str(both.sides[1].code.commit)
    first, second = both.measured.run_ids
    return (
        f"{word:4}  {commit[:8]}  {change:28}  {about(Path.cwd(), commit)}\n"
        f"      hostbench compare run:{first} run:{second}"
    )


def _bisect_step(options: AbOptions) -> int:
    """A commit that cannot be measured is skipped. Without the device none can be, and any exit
    code below 128 would call a commit bad: then the bisection stops."""
    try:
        both = measure_sides(options, scratch="bisect")
        comparison = judged(both.measured)
        word = side_of(comparison, options.threshold)
        show(step_in_words("skip" if word == "undecided" else word, both, comparison))
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


def _compared(options: AbOptions, both: MeasuredSides) -> int:
    """The exit code of `compare`, which prints the page."""
    first, second = map(_called, both.sides)
    remarks = [*both.notes, *_remarks(options, (first, second), both.measured, both.cases)]

    def write(comparisons: Mapping[Key, Comparison], sides: Sides) -> None:
        lines = _about(options, both)
        _write_comment(options, comment.of_result(comparisons, sides, remarks, lines))

    run_ids = both.measured.run_ids
    try:
        return compare_command.execute(
            a=f"run:{run_ids[0]}",
            b=f"run:{run_ids[1]}",
            all=options.all,
            format=options.format,
            results=options.results,
            names=(first, second),
            remarks=remarks,
            on_judged=write,
        )
    except NothingMeasured:  # every case was skipped on both sides
        for remark in remarks:
            warn(remark)
        raise


def _write_comment(options: AbOptions, text: str) -> None:
    if options.comment is not None:
        write_file(options.comment, text.encode(), "--comment")


def _about(options: AbOptions, both: MeasuredSides | None = None) -> list[str]:
    """What was compared, and how to do it again; as far as it is known."""
    words = [*map(quote, (options.a, *options.names))]
    words += [f"--case {quote(case)}" for case in options.case]
    words += [f"--budget {options.budget:g}s"] if options.budget else []
    more = typed_again(options, "quick", "launches", "device", "deadline")
    again = f"again: hostbench ab {' '.join(words)}{more}"
    if both is None:
        second = [name for name in options.names[:1] if name not in known_families()]
        return [f"A: {options.a}", f"B: {[*second, WORKING_TREE][0]}", again]
    sides = (
        f"{letter}: {_called(measured)}: {about(Path.cwd(), str(measured.code.commit))}"
        for letter, measured in zip("AB", both.sides, strict=True)
    )
    return [*sides, f"machine: {both.machine}", again]


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
    families = known_families()
    second = None
    if names and names[0] not in families:
        second, *names = names
        if commit_of(Path.cwd(), second) is None:
            raise UsageError(
                f"{second!r} is no commit that git knows, and no family"
                f"{did_you_mean(second, families)}; there are: {', '.join(families)}"
            )
    return second, tuple(names)


def _called(side: Side) -> str:
    clean = ", tracked files unchanged" if side.name == WORKING_TREE else ""
    state = f", {side.code.scratch}" if side.code.scratch else clean
    return f"{side.name} ({str(side.code.commit)[:8]}{state})"


def _remarks(
    options: AbOptions, called: tuple[str, str], measured: Measured, cases: Sequence[Case]
) -> Iterator[str]:
    """What was not measured, where each side is kept, and whether it came to its end."""
    first, second = (
        {record.case: record.reason for record in records if record.status == "skipped"}
        for records in measured.records
    )
    for reason, num in Counter(first[case] for case in first if case in second).items():
        yield f"skipped on both sides: {num} of {len(cases)} cases: {reason}"
    num_launches = Counter(record.case for record in measured.records[0])
    without = {record.case for record in chain(*measured.records) if record.status != "ok"}
    few = [
        as_typed(str(case))
        for case in cases
        if num_launches[case] < MIN_LAUNCHES and case not in without
    ]
    if options.budget and few:
        named = few if options.all else few[:_FEW]
        more = f" and {len(few) - len(named)} more" * (len(few) > len(named))
        yield (
            f"{number_of(len(few), 'case')} did not fit into {format_duration(options.budget)} "
            f"({MIN_LAUNCHES} launches a side): {', '.join(named)}{more}"
        )
    for name, run_id in zip(called, measured.run_ids, strict=True):
        yield f"{name} is run:{run_id}"
    if measured.end != "complete":
        num = min(len({record.launch for record in records}) for records in measured.records)
        yield (
            f"{measured.end} in launch {num}: what was measured is kept, and judged if it is enough"
        )
