"""Measuring some cases once more: interleaved with the code of an earlier commit, or a second run
of the same code."""

import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hostbench.cli.ab import repository
from hostbench.cli.keeping import measure_and_keep
from hostbench.cli.measuring import End, measure_pair
from hostbench.cli.run_setup import Measuring, Setup, header_of, planned
from hostbench.core.case import Case
from hostbench.core.errors import NothingMeasured
from hostbench.core.records import CaseRecord
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.judge.compare import Comparison, compare
from hostbench.judge.night import LaunchesOf, SeriesName
from hostbench.judge.night import sides as sides_of
from hostbench.runner.plan import Plan
from hostbench.vcs import side


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """What was measured once more."""

    found: dict[SeriesName, Comparison]
    """The earlier code against this one."""
    second: LaunchesOf
    """The launches of this one."""
    run_ids: tuple[str, ...]
    ended: End
    notes: tuple[str, ...] = ()
    """What could not be compared, and why."""


def interleaved(setup: Setup, options: Measuring, before: str, cases: Sequence[Case]) -> Again:
    """The commit `before` against the working tree; both runs are kept. Raises HostbenchError where
    the commit cannot be measured."""
    root, code = repository(setup.results)
    with tempfile.TemporaryDirectory(prefix="hostbench-nightly-") as folder:
        sides = (
            side.of_commit(root, before, Path(folder, "before")),
            side.of_working_tree(root, code, Path(folder, "now")),
        )
        kept, notes = side.comparable(tuple(cases), sides)
        if not kept:
            raise NothingMeasured(f"nothing to compare: {'; '.join(notes)}")
        pair = measure_pair(setup, sides, _plan(options, setup, kept))
    old, new = map(launches_of, pair.records)
    both = sides_of(old, new)
    found = compare(both, interleaved=both)
    return Again(found=found, second=new, run_ids=pair.run_ids, ended=pair.end, notes=tuple(notes))


def second_run(
    setup: Setup, options: Measuring, before: LaunchesOf, cases: Sequence[Case]
) -> Again:
    """The run before against a second run of tonight; asv keeps the first."""
    plan = _plan(options, setup, tuple(cases))
    header = header_of(plan, setup, setup.checkout)
    kept = measure_and_keep(setup, header, plan, tells_asv=False)
    second = launches_of(kept.run.winners().values())
    found = compare(sides_of(before, second))
    return Again(found=found, second=second, run_ids=(kept.run.run_id,), ended=kept.ended)


def launches_of(records: Iterable[CaseRecord]) -> LaunchesOf:
    """Of each series that has enough launches for a verdict, without the observing pass."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.status == "ok" and record.seconds is not None:
            found.setdefault((str(record.case), record.version), []).append(record.seconds)
    return {name: own for name, own in found.items() if len(own) >= MIN_LAUNCHES}


def _plan(options: Measuring, setup: Setup, cases: tuple[Case, ...]) -> Plan:
    """As the night's, in an order of its own."""
    seed = random.SystemRandom().getrandbits(32)
    return replace(planned(options, setup), cases=cases, seed=seed)
