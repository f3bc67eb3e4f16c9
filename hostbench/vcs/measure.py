"""Measuring into a journal, which is archived: the code of this process, or two commits, or one and
the working tree, interleaved."""

import math
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from msgspec import structs

from hostbench import facts
from hostbench.core.asv_config import asv_results, project_root, without_plugin
from hostbench.core.case import Case, as_typed
from hostbench.core.errors import (
    DeviceLost,
    HostbenchError,
    Interrupted,
    NothingMeasured,
    UsageError,
    Warn,
)
from hostbench.core.journal import journal_path
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.records import CaseRecord, Run, RunHeader
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.core.user_project import is_hostbench
from hostbench.device.simulated_file import MARK
from hostbench.families import user_families
from hostbench.measure.workload import Workload
from hostbench.runner import session
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import QUICK, STANDARD, Plan
from hostbench.runner.progress import Bar
from hostbench.runner.session import End, Host
from hostbench.store import archive, asv_files
from hostbench.vcs import side
from hostbench.vcs.repo import Checkout, differ, git, working_tree
from hostbench.vcs.side import WORKING_TREE, NothingDiffers, Side

MOST_LAUNCHES = 20
"""A side, that a budget is spent on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that is decided before the first case."""

    root: Path | None
    results: Path
    machine: str
    host: Host
    look: Callable[[], Checkout]
    """The state of the checkout."""
    device: str
    workloads: dict[str, Workload]
    plan: Plan
    """Its cases, in an order of its own."""
    warn: Warn

    def with_cases(self, cases: tuple[Case, ...]) -> "Setup":
        return replace(self, plan=replace(self.plan, cases=cases))

    def only_case(self, text: str) -> Case:
        """The one case that `text` selects. Raises UsageError."""
        first, *others = self.plan.cases
        if others:
            raise UsageError(
                f"{text!r} selects {len(self.plan.cases)} cases: name one, as "
                f"'{as_typed(str(first))}'; `hostbench list {first.family} --cases` names them all"
            )
        return first


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was archived: a run, or one for each of two sides."""

    runs: tuple[Run, ...]
    end: End
    asv_error: str = ""
    """Why asv's file lacks the run, though it was meant to be there."""
    sides: tuple[Side, ...] = ()
    notes: Sequence[str] = ()
    """What of two sides could not be compared, and why."""

    @property
    def is_cut_off(self) -> bool:
        """Whether it ended before it was asked to."""
        return self.end in ("interrupted", "device lost")


def measure(
    setup: Setup,
    sides: Sequence[Side] = (),
    *,
    scratch: str | None = None,
    budget_s: float = math.inf,
    most: int | None = None,
    tells_asv: bool = False,
) -> Measured:
    """Measure the plan and archive it: one run, or with two sides one of each, their launches
    interleaved. An interrupt ends it early and keeps what there is.

    `scratch`: why a run is never judged in a history. `most`: at most so many launches, as fit into
    the budget. `tells_asv`: a run that may be judged is written into asv's files too.

    Raises Interrupted where the interrupt came before every side had a record, DeviceLost where the
    device was lost by then. BrokenError where no more can be written.
    """
    archive.adopt_orphans(setup.results, setup.warn)

    codes = [side.code for side in sides] or [setup.look()]

    def why_scratch() -> str | None:
        """Workers run the code of the start, but which commit that was can no longer be said."""
        is_changed = not sides and codes != [setup.look()]
        return "the checkout changed during the run" if is_changed else None

    end_s = time.monotonic() + budget_s
    with terminate_as_interrupt():
        with Bar(end_s=end_s) as bar:
            runs, end, why = session.record(
                setup.results,
                _headers(setup, codes, scratch),
                _records(setup, sides, bar, end_s, most),
                setup.host,
                setup.plan.num_gpus(),
                end_s=end_s,
                why_scratch=why_scratch,
            )
        if why:
            setup.warn(why)
        archived = tuple(run for run in runs if run.records)
        for run in archived:
            archive.write(setup.results, run)
        for run in runs:
            journal_path(setup.results, run.run_id).unlink(missing_ok=True)
        if len(archived) < len(runs):
            before = "before both sides were measured" if sides else "before anything was measured"
            if end == "device lost":
                raise DeviceLost(f"the device was lost {before}")
            raise Interrupted(f"interrupted {before}")
        asv_error = ""
        if tells_asv and setup.device != MARK:
            is_judged = end == "complete" and runs[0].header.scratch is None
            asv_error = _tell_asv(setup, runs[0], is_judged)
    return Measured(runs=archived, end=end, asv_error=asv_error)


def _headers(setup: Setup, codes: Sequence[Checkout], scratch: str | None) -> list[RunHeader]:
    """Of runs that begin now: of this checkout's code, or of each side's."""
    profile, why = setup.plan.profile, None
    if setup.device == MARK and not setup.host.is_made_up:
        why = "simulated device"
    elif profile.name == QUICK.name:
        why = "quick"
    elif profile.launches < MIN_LAUNCHES:
        why = few_launches(profile.launches)
    headers = [
        session.new_header(
            setup.plan,
            device=setup.device,
            machine=setup.machine,
            commit=code.commit,
            committed_at=code.committed_at,
            scratch=why or code.scratch or scratch,
            by="hostbench ab" if len(codes) > 1 else "hostbench run",
        )
        for code in codes
    ]
    if len(codes) == 1:
        return headers
    return [
        structs.replace(header, interleaved_with=other.run_id)
        for header, other in zip(headers, reversed(headers), strict=True)
    ]


def _records(
    setup: Setup, sides: Sequence[Side], bar: Bar, end_s: float, most: int | None
) -> Generator[tuple[int, CaseRecord]]:
    """(index of the journal, record)."""
    with ExitStack() as stack:
        launchers = [
            stack.enter_context(Launcher(bar.tick, side.root, side.variables)) for side in sides
        ] or [stack.enter_context(Launcher(bar.tick))]
        if most is None:
            records = session.records(setup.plan, launchers, bar, observes=not sides)
        else:
            records = session.fitting_records(setup.plan, launchers, bar, end_s, most)
        for index, record in records:
            if sides and record.reason:
                reason = record.reason.replace(sides[index].folder, "")
                record = structs.replace(record, reason=reason)
            yield index, record


def _tell_asv(setup: Setup, run: Run, is_judged: bool) -> str:
    """Have asv, where it is installed, know the machine, and a run that may be judged: why its
    files lack that run now. The archive has it either way."""
    if setup.root is None or find_spec("asv") is None:
        return ""
    try:
        entry = facts.asv_machine_entry(setup.machine, setup.host.before)
        if asv_results(setup.root).resolve() == setup.results.resolve():
            facts.register_with_asv(entry)
        if is_judged:
            if lacking := without_plugin(setup.root):
                raise UsageError(lacking)
            commit = str(run.header.commit)
            authored = git(setup.root, "show", "-s", "--format=%at", names=[commit])
            asv_files.record(setup.results, entry, run, setup.workloads, int(authored))
    except HostbenchError as error:
        setup.warn(f"{error}; the run is archived all the same")
        return str(error) if is_judged else ""
    return ""


# ---- two codes ----------------------------------------------------------------------------------


def interleave(
    setup: Setup,
    a: str,
    second: str | None,
    launches: int | None,
    budget_s: float,
    scratch: str | None,
) -> Measured:
    """A run of each side, which is kept; without a second the working tree is that. `scratch`: why
    no history is judged by them. Raises NothingMeasured where the sides have no case in common, or
    nothing that is measured differs."""
    root, code = repository(setup.results)
    first, last = side.known_commit(root, a), second and side.known_commit(root, second)
    if not differ(root, first, last, side.measured_paths(root)):
        why = "both sides run the workloads of the working tree"
        if is_hostbench(root):
            why = "hostbench/ and benchmarks/ are the same in both"
        names = f"{a} and {second or WORKING_TREE}"
        raise NothingDiffers(f"nothing that is measured differs between {names}: {why}")
    # --quick narrows the cases alone; a budget decides itself how many launches there are.
    most = (launches or MOST_LAUNCHES) if math.isfinite(budget_s) else None
    num = MIN_LAUNCHES if most else launches or STANDARD.launches
    profile = replace(setup.plan.profile, launches=num)
    # a git that was being started as the interrupt came may still write there
    clones = tempfile.TemporaryDirectory(prefix="hostbench-ab-", ignore_cleanup_errors=True)
    with terminate_as_interrupt(), clones as folder:
        sides = (
            side.make(root, a, code, Path(folder, "a")),
            side.make(root, second, code, Path(folder, "b")),
        )
        cases, notes = side.comparable(setup.plan.cases, sides)
        if not cases:
            raise NothingMeasured(f"nothing to compare: {'; '.join(notes)}")
        setup = replace(setup, plan=replace(setup.plan, cases=cases, profile=profile))
        measured = measure(setup, sides, scratch=scratch, budget_s=budget_s, most=most)
    return replace(measured, sides=sides, notes=[*notes, *side.not_followed(root)])


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
