"""Tonight's run held against the nights before; what moved is measured once more."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from hostbench.cli import again
from hostbench.cli.history import open_history
from hostbench.cli.nightly.tonight import Tonight, say
from hostbench.cli.output import warn
from hostbench.cli.run_setup import Setup
from hostbench.core.case import Case
from hostbench.core.clock import epoch_s
from hostbench.core.errors import HostbenchError, Interrupted
from hostbench.core.units import number_of
from hostbench.judge import night as judge
from hostbench.judge.compare import Comparison, compare
from hostbench.judge.night import LaunchesOf, SeriesName
from hostbench.report import night_history
from hostbench.report.comparison import detectable
from hostbench.report.nightly import MovedSeries, to_store
from hostbench.store import nights, triage
from hostbench.store.damage import damage
from hostbench.store.nights import StoredNight
from hostbench.store.runs import WholeRun

FOR_MEASURING = 0.95
"""Share of `--budget`: up to there what is measured once more may go."""


def judge_tonight(tonight: Tonight, setup: Setup, run: WholeRun) -> None:
    """Hold the run against those before, and measure once more what moved."""
    say("judging")
    history = open_history(str(setup.results))
    known = nights.of_machine(setup.results, setup.machine, warn)
    earlier = night_history.runs_before(history, run.header, known)
    silent = night_history.silent_machines(history, setup.results, setup.machine, setup.now(), warn)
    devices = {about.device for about in history.runs() if about.machine == setup.machine}
    tonight.note(silent=silent, other_devices=tuple(sorted(devices - {setup.device})))
    if earlier:
        _hold_against(tonight, setup, run, earlier, known)
    said = triage.read(setup.results).entries.values()
    still = night_history.still_slower(known, to_store(tonight.report), said)
    tonight.note(still=still)
    now = open_history(str(setup.results))
    tonight.note(events=night_history.new_events(now, Path.cwd(), setup.machine, known))
    if damaged := damage(setup.results, now):
        more = f" (and {len(damaged) - 1} more)" if damaged[1:] else ""
        tonight.note(broken=(*tonight.report.broken, f"{damaged[0]}{more}"))


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
    tonight: Tonight,
    setup: Setup,
    run: WholeRun,
    earlier: Sequence[WholeRun],
    known: Sequence[StoredNight],
) -> None:
    launches = _launches(earlier, known)
    held = judge.held_against(tonight.launches, launches)
    found = judge.moved(tonight.launches, launches)
    # Of the runs that what moved was compared with the oldest: all that may have moved it is since.
    before = earlier[max((held[name][0] for name in found), default=0)]
    lasting, passing = night_history.facts_moved(before, run)
    if staying := night_history.staying(known, passing):
        lasting, passing = (*lasting, *staying), ()
    failed, num_broke = night_history.failures(run, earlier)
    compared = tuple(earlier[at].run_id for at in sorted(set(chain(*held.values()))))
    tonight.note(
        is_first=False,
        held=len(held),
        before=compared,
        passed_over=night_history.passed_over(known, compared),
        same_commit=before.header.commit == run.header.commit,
        lasting=lasting,
        passing=passing,
        landed=night_history.landed(Path.cwd(), before.header.commit, run.header.commit),
        failed=failed,
        num_broke=num_broke,
        skipped=night_history.skipped(run, earlier),
        detectable=detectable(compare(judge.sides(_newest(launches), tonight.launches))),
    )
    if not found:
        return
    compared_with = {name: earlier[held[name][0]].run_id for name in found}
    _note_moved(tonight, found, compared_with, {})
    names = judge.to_measure_again(found, len(tonight.launches))
    try:
        measured = _again(tonight, setup, names, before, _newest(launches))
    except Interrupted:
        raise
    except HostbenchError as error:
        tonight.remark(f"what moved could not be measured again: {error}")
        return
    _note_moved(tonight, found, compared_with, measured)


def _note_moved(
    tonight: Tonight,
    found: Mapping[SeriesName, Comparison],
    compared_with: Mapping[SeriesName, str],
    measured: Mapping[SeriesName, Comparison],
) -> None:
    """Each series that moved with its cause, as far as it was `measured` once more."""
    night = tonight.report
    facts = {"lasting": bool(night.lasting), "passing": bool(night.passing)}
    moved = []
    for name, one in found.items():
        more = measured.get(name)
        cause = judge.cause(one, more, same_code=night.same_commit, **facts)
        case, version = name
        moved.append(
            MovedSeries(
                case=case,
                version=version,
                before=compared_with[name],
                tonight=one,
                again=more,
                cause=cause,
            )
        )
    tonight.note(moved=tuple(moved))


def _again(
    tonight: Tonight,
    setup: Setup,
    names: Sequence[SeriesName],
    before: WholeRun,
    launches: LaunchesOf,
) -> dict[SeriesName, Comparison]:
    """Of the series by name, as far as they can be measured: both commits interleaved, or where
    they are one, the run before against a second run."""
    asked = _cases(setup, names)
    num, commit = number_of(len(asked), "case"), str(before.header.commit)
    limited = tonight.within(setup, FOR_MEASURING)
    if tonight.report.same_commit:
        say(f"measuring {num} a second time")
        measured = again.second_run(limited, tonight.options, launches, asked)
    else:
        say(f"measuring {num} interleaved with {commit[:8]}")
        measured = again.interleaved(limited, tonight.options, commit, asked)
    tonight.note(again=measured.run_ids)
    tonight.remark(*measured.notes)
    if measured.ended == "interrupted":
        raise KeyboardInterrupt
    return measured.found


def _cases(setup: Setup, names: Sequence[SeriesName]) -> list[Case]:
    """Those of the series by name that there are."""
    known = {str(case): case for work in setup.workloads.values() for case in work.cases()}
    return [known[case] for case, _ in names if case in known]
