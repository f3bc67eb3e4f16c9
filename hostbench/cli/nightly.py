"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the nights
before, measure once more what moved, say what it was."""

import os
import shutil
import sys
import time
import traceback
from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from hostbench import facts
from hostbench.cli import again
from hostbench.cli.history import open_history
from hostbench.cli.keeping import Kept, hand_over_left, measure_and_keep
from hostbench.cli.output import check_folder, show, warn, write_file
from hostbench.cli.page import show_page
from hostbench.cli.program import given, program
from hostbench.cli.run_setup import (
    Measuring,
    Setup,
    adopt_left_over,
    fresh,
    header_of,
    partial_run,
    rest_of,
    set_up,
)
from hostbench.core.case import Case
from hostbench.core.clock import epoch_s
from hostbench.core.errors import EXIT_FAILED, EXIT_USAGE, HostbenchError, Interrupted
from hostbench.core.processes import become_subreaper
from hostbench.core.records import RunHeader
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.units import number_of
from hostbench.device.simulated_file import MARK
from hostbench.judge import budget
from hostbench.judge import night as judge
from hostbench.judge.compare import Comparison, compare
from hostbench.judge.night import CONFIRMED, LaunchesOf, SeriesName
from hostbench.notify.change import ConfirmedChange, of_event
from hostbench.notify.webhook import notify
from hostbench.report import html as static
from hostbench.report import night_history
from hostbench.report.comparison import detectable
from hostbench.report.doctor import findings
from hostbench.report.nightly import (
    MovedSeries,
    NightReport,
    answer,
    as_json,
    evidence,
    exit_code,
    page,
    table,
)
from hostbench.report.table import markdown
from hostbench.runner.lock import only_one
from hostbench.runner.plan import Plan
from hostbench.store import frame, nights, runs, triage
from hostbench.store.columns import STATUSES
from hostbench.store.nights import NightChange, StoredNight
from hostbench.store.runs import WholeRun, launches_in_words
from hostbench.vcs import remote_branch, results_branch

MOST_AGAIN = 12
"""Series that are measured again in a night; where more moved, those that moved furthest."""
FOR_THE_RUN, FOR_MEASURING = 0.75, 0.95
"""Shares of `--budget`: up to there the run goes, and what is measured once more."""
RESUMED_FOR_S = 20 * 3600.0
"""A run that was cut off is gone on with for so long; then it is another night."""
_SECTION = "hostbench_nightly[collapsed=true]"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub shows on a job's page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyOptions(Measuring):
    budget: float | None = None
    """Seconds for all of it."""
    no_asv: bool = False
    summary: Path | None = None
    page: Path | None = None
    push: str | None = None
    format: str = "text"


@dataclass(slots=True, kw_only=True)
class Progress:
    """The night as far as it has come: an interrupt ends it anywhere, and its summary is due all
    the same."""

    night: NightReport = field(default_factory=NightReport)
    run: WholeRun | None = None
    results: Path | None = None
    began_s: float = field(default_factory=time.monotonic)
    launch_s: float = 0.0
    """Seconds that one launch of one case took tonight."""
    is_underway: bool = False
    """Options and names are right: what goes wrong from here on is none of theirs (a full disk)."""
    is_ours: bool = True
    """No other nightly measures here, whose files these would be."""


def execute(options: NightlyOptions) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    become_subreaper()
    for path in (options.summary, options.page):
        if path is not None:
            check_folder(path)
    progress = Progress()
    try:
        _night(options, progress)
    except (KeyboardInterrupt, Interrupted):
        progress.night = replace(progress.night, interrupted="interrupted")
    except Exception as error:
        code = EXIT_FAILED
        if isinstance(error, HostbenchError) and not progress.is_underway:
            code = error.exit_code
        progress.night = replace(progress.night, error=_in_words(error), error_code=code)
    progress.night = replace(progress.night, took_s=time.monotonic() - progress.began_s)
    if progress.is_ours:
        try:
            _hand_on(options, progress)
        except KeyboardInterrupt:
            cut = "interrupted before page, notifications and push were done (`hostbench push`)"
            progress.night = replace(progress.night, broken=(*progress.night.broken, cut))
    _tell(options, progress)
    return exit_code(progress.night)


def _in_words(error: Exception) -> str:
    """A fault of hostbench's own with its traceback on stderr: the summary is due all the same."""
    if isinstance(error, HostbenchError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"


def _night(options: NightlyOptions, progress: Progress) -> None:
    """All of it; what is known so far stands in `progress`."""
    setup = set_up(options)
    progress.results = setup.results
    progress.night = replace(
        progress.night,
        machine=setup.machine,
        device=setup.device,
        commit=setup.checkout.commit,
        began=setup.now(),
        looks_wrong=_looks_wrong(setup),
    )
    is_simulated = setup.device == MARK
    progress.is_ours = False
    with only_one(f"{setup.machine} in {setup.results}" if is_simulated else "this machine"):
        progress.is_ours = True
        _fetch(options, progress)
        progress.is_underway = True
        start_s = time.monotonic()
        kept = _measured(options, _within(options, setup, progress, FOR_THE_RUN), progress)
        progress.run = kept.run
        num = len(kept.run.parts[-1].records)
        progress.launch_s = (time.monotonic() - start_s) / num if num else 0.0
        progress.night = _as_measured(progress.night, kept)
        if kept.ended in ("complete", "stopped") and kept.run.header.scratch is None:
            nights.leave_open(setup.results, setup.machine, kept.run.run_id)
            if kept.asv == "interrupted":
                raise KeyboardInterrupt
            _judge(options, setup, progress, kept.run)


def _looks_wrong(setup: Setup) -> tuple[str, ...]:
    """What the doctor warns of; nothing of a machine that is made up."""
    if setup.torch is None:
        return ()
    hardware = facts.nvidia_hardware()
    found = findings(setup.facts, hardware, setup.torch, has_git=shutil.which("git") is not None)
    return tuple(
        f"{one.text}{f'; {one.remedy}' if one.remedy else ''}"
        for one in found
        if one.level in ("broken", "warn")
    )


def _measured(options: NightlyOptions, setup: Setup, progress: Progress) -> Kept:
    """Tonight's run: the rest of one that was cut off, or a new one."""
    if not options.no_asv:
        hand_over_left(setup)
    adopt_left_over(setup)
    measured = _left_open(setup)
    if measured is not None:
        _say(f"run {measured.run_id} is measured, and was not judged")
        return Kept(run=measured, ended="complete", asv="done")
    header, plan, earlier = fresh(options, setup)
    partial = partial_run(setup)
    if partial is not None and _is_tonights(partial, header, setup, options):
        _say(f"going on with run {partial.run_id}, which was cut off")
        header, plan, earlier = rest_of(partial, options, setup)
    elif options.budget is not None:
        header, plan = _that_fits(options.budget, setup, progress, header, plan)
    return measure_and_keep(setup, header, plan, earlier, tells_asv=not options.no_asv)


def _is_tonights(
    partial: WholeRun, header: RunHeader, setup: Setup, options: NightlyOptions
) -> bool:
    """Whether a run that was cut off is this night's: not too old, and of the same cases."""
    old = partial.header
    same = (old.planned, old.launches) == (header.planned, header.launches)
    fits = options.budget is not None and {*old.planned} <= {*header.planned}
    return (same or fits) and 0 <= epoch_s(setup.now()) - epoch_s(old.started_at) < RESUMED_FOR_S


def _that_fits(
    seconds: float, setup: Setup, progress: Progress, header: RunHeader, plan: Plan
) -> tuple[RunHeader, Plan]:
    """As many launches and cases as there is time for, going by the last run; all of a first."""
    if not setup.results.is_dir():
        return header, plan
    known = nights.of_machine(setup.results, setup.machine, warn)
    earlier = night_history.runs_before(open_history(str(setup.results)), header, known)
    if not earlier:
        return header, plan
    launches, texts = budget.fitting(
        header.planned,
        night_history.measured_at(earlier),
        FOR_THE_RUN * seconds,
        night_history.launch_s(earlier[0]),
        header.launches,
    )
    if len(texts) < len(header.planned):
        num = number_of(len(header.planned) - len(texts), "case")
        said = f"{num} did not fit and come another night: those that were measured last"
        progress.night = replace(progress.night, bought=(said,))
    chosen = tuple(case for case in plan.cases if str(case) in texts)
    plan = replace(plan, cases=chosen, profile=plan.profile.of(launches))
    return header_of(plan, setup, setup.checkout), plan


def _left_open(setup: Setup) -> WholeRun | None:
    """The run of this commit that an earlier try has measured whole, and not come to judge."""
    left = nights.left_open(setup.results, setup.machine)
    commit = setup.checkout.commit
    found = runs.of_commit(setup.results, setup.machine, commit, warn) if left else []
    return next((run for run in found if run.run_id == left and run.is_whole), None)


def _as_measured(night: NightReport, kept: Kept) -> NightReport:
    header, results = kept.run.header, kept.run.results()
    counted = Counter(result.status for result in results)
    failed, _ = night_history.failures(kept.run, ())
    is_told = kept.asv_error and kept.asv != "interrupted"
    recorded = (f"asv has not recorded the run: {kept.asv_error}",) if is_told else ()
    return replace(
        night,
        run_id=kept.run.run_id,
        began=header.started_at,
        ended=kept.ended,
        scratch=header.scratch,
        launches=launches_in_words(header.launches, kept.run.measured_launches, True),
        enough=len(again.launches_of(kept.run.winners().values())),
        counts={status: counted[status] for status in STATUSES if counted[status]},
        failed=failed,
        broken=(*night.broken, *recorded),
    )


def _judge(options: NightlyOptions, setup: Setup, progress: Progress, run: WholeRun) -> None:
    """Hold the run against those before, and measure once more what moved."""
    _say("judging")
    history = open_history(str(setup.results))
    known = nights.of_machine(setup.results, setup.machine, warn)
    earlier = night_history.runs_before(history, run.header, known)
    silent = night_history.silent_machines(history, setup.machine, setup.now())
    devices = {about.device for about in history.runs() if about.machine == setup.machine}
    others = tuple(sorted(devices - {setup.device}))
    progress.night = replace(progress.night, silent=silent, other_devices=others)
    launches = _launches(earlier, known)
    if earlier:
        _hold_against(options, setup, progress, run, earlier, launches)
    still = night_history.still_slower(
        known, _stored(progress.night), triage.read(setup.results).entries.values()
    )
    progress.night = replace(progress.night, still=still)
    if options.budget is not None:
        _spend_the_rest(options, setup, progress, run, launches)
    events = night_history.new_events(
        open_history(str(setup.results)), Path.cwd(), setup.machine, known
    )
    progress.night = replace(progress.night, events=events)


def _launches(earlier: Sequence[WholeRun], known: Sequence[StoredNight]) -> list[LaunchesOf]:
    """Of each run, without the series that a night has since confirmed as changed."""
    since = night_history.confirmed_at(known)
    return [
        {
            name: own
            for name, own in again.launches_of(one.winners().values()).items()
            if epoch_s(one.header.started_at) >= since.get(name, 0.0)
        }
        for one in earlier
    ]


def _newest(launches: Sequence[LaunchesOf]) -> LaunchesOf:
    """Each series of the newest run that has it."""
    return dict(ChainMap(*map(dict, launches)))


def _hold_against(
    options: NightlyOptions,
    setup: Setup,
    progress: Progress,
    run: WholeRun,
    earlier: Sequence[WholeRun],
    launches: Sequence[LaunchesOf],
) -> None:
    tonight = again.launches_of(run.winners().values())
    held, found = judge.held_against(tonight, launches), judge.moved(tonight, launches)
    # Of the runs that what moved was compared with the oldest: all that may have moved it is since.
    before = earlier[max((held[name][0] for name in found), default=0)]
    lasting, passing = night_history.facts_moved(before, run)
    failed, num_broke = night_history.failures(run, earlier)
    progress.night = replace(
        progress.night,
        is_first=False,
        held=len(held),
        before=tuple(earlier[at].run_id for at in sorted(set(chain(*held.values())))),
        lasting=lasting,
        passing=passing,
        landed=night_history.landed(Path.cwd(), before.header.commit, run.header.commit),
        failed=failed,
        num_broke=num_broke,
        skipped=night_history.skipped(run, earlier),
        detectable=detectable(compare(judge.sides(_newest(launches), tonight))),
    )
    if not found:
        return
    same_code = before.header.commit == run.header.commit

    def moved(measured: Mapping[SeriesName, Comparison]) -> tuple[MovedSeries, ...]:
        return tuple(
            MovedSeries(
                case=case,
                version=version,
                before=earlier[held[case, version][0]].run_id,
                tonight=one,
                again=(more := measured.get((case, version))),
                cause=judge.cause(
                    one, more, same_code=same_code, lasting=bool(lasting), passing=bool(passing)
                ),
            )
            for (case, version), one in found.items()
        )

    progress.night = replace(progress.night, moved=moved({}))
    names = judge.to_measure_again(found, MOST_AGAIN)
    try:
        measured = _again(options, setup, progress, names, before, _newest(launches))
    except Interrupted:
        raise
    except HostbenchError as error:
        said = f"what moved could not be measured again: {error}"
        progress.night = replace(progress.night, remarks=(*progress.night.remarks, said))
        return
    progress.night = replace(progress.night, moved=moved(measured))


def _again(
    options: NightlyOptions,
    setup: Setup,
    progress: Progress,
    names: Sequence[SeriesName],
    before: WholeRun,
    launches: LaunchesOf,
) -> dict[SeriesName, Comparison]:
    """Of the series by name, as far as they can be measured: both commits interleaved, or where
    they are one, the run before against a second run."""
    asked = _cases(setup, names)
    num, commit = number_of(len(asked), "case"), str(before.header.commit)
    limited = _within(options, setup, progress, FOR_MEASURING)
    if commit == setup.checkout.commit:
        _say(f"measuring {num} a second time")
        measured = again.second_run(limited, options, launches, asked)
    else:
        _say(f"measuring {num} interleaved with {commit[:8]}")
        measured = again.interleaved(limited, options, commit, asked)
    progress.night = replace(
        progress.night,
        again=measured.run_ids,
        remarks=(*progress.night.remarks, *measured.notes),
    )
    if measured.ended == "interrupted":
        raise KeyboardInterrupt
    return measured.found


def _cases(setup: Setup, names: Sequence[SeriesName]) -> list[Case]:
    """Those of the series by name that there are."""
    known = {str(case): case for work in setup.workloads.values() for case in work.cases()}
    return [known[case] for case, _ in names if case in known]


def _within(options: NightlyOptions, setup: Setup, progress: Progress, share: float) -> Setup:
    """The same, to stop when so much of the budget is used up, where there is one."""
    if options.budget is None:
        return setup
    left_s = share * options.budget - (time.monotonic() - progress.began_s)
    return replace(setup, stop_after_s=min(setup.stop_after_s, max(left_s, 0.0)))


def _spend_the_rest(
    options: NightlyOptions,
    setup: Setup,
    progress: Progress,
    run: WholeRun,
    launches: Sequence[LaunchesOf],
) -> None:
    """More launches of the series that tell least, in the time that the budget leaves."""
    rest = _within(options, setup, progress, FOR_MEASURING)
    tonight = again.launches_of(run.winners().values())
    before = _newest(launches) or tonight
    names = budget.worst(before, tonight, rest.stop_after_s, progress.launch_s)
    asked = _cases(setup, names)
    said = "the run took all of it"
    if asked:
        _say(f"measuring the {number_of(len(asked), 'case')} that tell least once more")
        more = again.second_run(rest, replace(options, launches=MIN_LAUNCHES), before, asked)
        had = (*progress.night.again, *more.run_ids)
        progress.night = replace(progress.night, again=had)
        if more.ended == "interrupted":
            raise KeyboardInterrupt
        found = budget.bought(before, tonight, more.second)
        if found is not None:
            said = (
                f"{number_of(found.num_series, 'series', 'series')} that told least, "
                f"{MIN_LAUNCHES} launches more of each: in half of them changes from "
                f"{found.after:.1%} on tell now, {found.before:.1%} before"
            )
            if found.after >= found.before:
                said += ", for the second run differs from the first by more than its launches do"
    progress.night = replace(progress.night, bought=(*progress.night.bought, said))


def _fetch(options: NightlyOptions, progress: Progress) -> None:
    """What other machines have pushed; a branch that does not answer keeps nobody from measuring,
    a name that is wrong does."""
    if options.push is None:
        return
    remote, branch = remote_branch.split_name(Path.cwd(), options.push)
    assert progress.results is not None
    with _beside(progress, f"nothing could be fetched from {options.push}"):
        for text in results_branch.fetch(Path.cwd(), progress.results, remote, branch).left:
            warn(text)


def _hand_on(options: NightlyOptions, progress: Progress) -> None:
    """Keep what was concluded, write the page, push. After an interrupt a CI job has seconds left:
    then nothing of that is done, and the night stays open for another try."""
    night = progress.night
    if night.interrupted or night.ended == "interrupted" or night.error_code == EXIT_USAGE:
        return
    if night.run_id is not None and night.scratch is None and progress.results is not None:
        with _beside(progress, "the night could not be kept"):
            nights.write(progress.results, _stored(night))
    if options.page is not None and progress.run is not None and progress.results is not None:
        with _beside(progress, f"the page {options.page} could not be written"):
            rows = frame.of_run(progress.results, progress.run, warn)
            document = static.html(rows, progress.run, page(progress.night))
            write_file(options.page, document.encode(), "--page")
    if progress.results is not None:
        with _beside(progress, "nobody could be notified"):
            changes = _changes(progress.night)
            for text in notify(progress.results, changes, machine=night.machine).warnings:
                warn(text)
    if options.push is not None and progress.results is not None:
        with _beside(progress, f"results could not be pushed to {options.push}"):
            remote, branch = remote_branch.split_name(Path.cwd(), options.push)
            message = f"{night.machine} {night.began[:10]}: {answer(night)}"
            done = results_branch.push(Path.cwd(), progress.results, remote, branch, message)
            for text in done.left:
                warn(text)


def _changes(night: NightReport) -> list[ConfirmedChange]:
    """What this night has confirmed, as it is told outside. Where the code is the same, the run is
    where it began."""
    moved = [
        ConfirmedChange(
            series=f"{one.case}@{night.machine}",
            machine=night.machine,
            since=str(night.commit if one.cause == "code" else night.run_id),
            direction=one.tonight.verdict,
            effect=one.shown.effect or 0.0,
            near=frozenset(filter(None, (night.commit, night.run_id))),
            interval=(one.shown.low, one.shown.high),
            before_s=one.tonight.before,
            after_s=one.tonight.after,
            cause="; ".join((one.cause, *(evidence(night, one.cause)[:1]))),
        )
        for one in night.of(*CONFIRMED)
    ]
    return [*moved, *map(of_event, night.events)]


@contextmanager
def _beside(progress: Progress, what: str) -> Iterator[None]:
    """A step beside the measuring: where it fails the night goes on, and says so."""
    try:
        yield
    except Exception as error:
        broken = (*progress.night.broken, f"{what}: {_in_words(error)}")
        progress.night = replace(progress.night, broken=broken)


def _stored(night: NightReport) -> StoredNight:
    assert night.run_id is not None
    return StoredNight(
        run_id=night.run_id,
        machine=night.machine,
        commit=night.commit,
        started_at=night.began,
        answer=answer(night),
        exit_code=exit_code(night),
        disturbed=night.is_disturbed,
        again=night.again,
        events=tuple(map(night_history.key_of, night.events)),
        changes=tuple(
            NightChange(
                case=one.case,
                version=one.version,
                verdict=one.tonight.verdict,
                effect=one.shown.effect or 0.0,
                low=one.shown.low,
                high=one.shown.high,
                cause=one.cause,
                why=evidence(night, one.cause),
                before=one.before,
            )
            for one in night.moved
        ),
    )


def _tell(options: NightlyOptions, progress: Progress) -> None:
    """To standard output, and in Markdown to the file that was asked for and to GitHub's page."""
    if options.summary is not None and progress.is_ours:
        with _beside(progress, f"the summary {options.summary} could not be written"):
            write_file(options.summary, _in_markdown(options, progress), "--summary")
    if named := os.environ.get(STEP_SUMMARY):
        try:
            with Path(named).open("ab") as file:
                file.write(_in_markdown(options, progress))
        except OSError as error:
            warn(f"{STEP_SUMMARY} names {named}, which cannot be written: {error.strerror}")
    night = _with_next_steps(options, progress.night)
    in_gitlab = bool(os.environ.get("GITLAB_CI")) and options.format == "text"
    if in_gitlab:  # its log folds what lies between these two
        show(f"{answer(night)}\n\x1b[0Ksection_start:{int(time.time())}:{_SECTION}\r\x1b[0Kdetails")
    show_page(options.format, lambda: page(night), lambda: table(night), lambda: as_json(night))
    if in_gitlab:
        show(f"\x1b[0Ksection_end:{int(time.time())}:hostbench_nightly\r\x1b[0K")


def _in_markdown(options: NightlyOptions, progress: Progress) -> bytes:
    text = markdown(page(_with_next_steps(options, progress.night)))
    return f"{text}\n".encode(errors="replace")


def _with_next_steps(options: NightlyOptions, night: NightReport) -> NightReport:
    """What to type next."""
    where = given(options, "results")
    steps = [f"see it: {program()} dashboard{where}"] if night.run_id else []
    if night.failed:
        steps.append(
            f"why cases failed: {program()} report --run {night.run_id} --tracebacks{where}"
        )
    code = night.of("code", verdict="slower")
    if code and len(night.landed) > 1:
        name = f"{code[0].case}@{night.machine}"
        steps.append(f"which commit it was: {program()} bisect '{name}' --run{where}")
    confirmed = night.of(*CONFIRMED, verdict="slower")
    if confirmed:
        steps.append(
            f"meant so: {program()} triage set '{confirmed[0].case}@{night.machine}' "
            f"{str(night.commit)[:8]} accepted{where}"
        )
    return replace(night, remarks=(*night.remarks, *steps))


def _say(text: str) -> None:
    print(f"hostbench: {text}", file=sys.stderr, flush=True)
