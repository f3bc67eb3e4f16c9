"""Measuring two codes, interleaved, a run of each kept: what `ab` and `bisect --run` share."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from hostbench import facts
from hostbench.cli.results import check_writable
from hostbench.cli.run import End
from hostbench.cli.run_setup import Setup, header_of
from hostbench.core.errors import NothingMeasured
from hostbench.core.records import CaseRecord, RunHeader
from hostbench.device.simulated_file import SIDE
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter, read
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import Plan
from hostbench.runner.progress import Bar
from hostbench.runner.session import interleaved
from hostbench.store import adopt
from hostbench.vcs.side import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two archived runs whose launches were interleaved."""

    run_ids: tuple[str, str]
    records: tuple[list[CaseRecord], list[CaseRecord]]
    end: End


def measure(setup: Setup, sides: tuple[Side, Side], plan: Plan, scratch: str | None = None) -> Pair:
    """Measure the plan on both sides and archive a run of each; an interrupt keeps what there is.

    `scratch`: why neither run is ever judged in a history. To be called under
    `terminate_as_interrupt`. Raises NothingMeasured where the interrupt came before both sides had
    a record: then nothing is kept.
    """
    headers = _headers(setup, sides, plan, scratch)
    check_writable(setup.results / setup.machine / "runs")
    paths = [places.journal_path(setup.results, header.run_id) for header in headers]
    with ExitStack() as stack:
        journals = [
            stack.enter_context(JournalWriter(path, header))
            for path, header in zip(paths, headers, strict=True)
        ]
        end, records = _measure(setup, sides, plan, (journals[0], journals[1]))
    _archive(setup, paths, is_empty=not all(records))
    return Pair(run_ids=(headers[0].run_id, headers[1].run_id), records=records, end=end)


def _headers(
    setup: Setup, sides: tuple[Side, Side], plan: Plan, scratch: str | None
) -> tuple[RunHeader, RunHeader]:
    first, second = (
        structs.replace(header_of(plan, setup, side.code), by="hostbench ab") for side in sides
    )
    return (
        structs.replace(first, interleaved_with=second.run_id, scratch=first.scratch or scratch),
        structs.replace(second, interleaved_with=first.run_id, scratch=second.scratch or scratch),
    )


def _measure(
    setup: Setup,
    sides: tuple[Side, Side],
    plan: Plan,
    journals: tuple[JournalWriter, JournalWriter],
) -> tuple[End, tuple[list[CaseRecord], list[CaseRecord]]]:
    bar = Bar()
    records: tuple[list[CaseRecord], list[CaseRecord]] = ([], [])

    def both(when: str, found: Mapping[str, Any]) -> None:
        for journal in journals:
            journal.facts(when, found)

    both("before", facts.to_json(setup.facts))
    end: End = "complete"
    late_s = time.monotonic() + setup.stop_after_s
    try:
        with ExitStack() as stack:
            stack.enter_context(bar)
            stack.enter_context(facts.Watch(setup.watched(both), setup.device))
            first, second = (
                stack.enter_context(
                    Launcher(bar.tick, bar.started, side.root, {SIDE: f"{name} {side.code.commit}"})
                )
                for name, side in zip("AB", sides, strict=True)
            )
            turns = interleaved(plan, setup.workloads, (first, second), bar)
            for place, found in turns:
                record = structs.replace(found, version=sides[place].versions[str(found.case)])
                journals[place].case(setup.dated(record))
                records[place].append(record)
                if time.monotonic() > late_s and all(records):
                    end = "stopped"
                    break
    except KeyboardInterrupt:
        end = "interrupted"
    both("after", facts.to_json(setup.collect()))
    for journal in journals:
        journal.finish("complete" if end == "complete" else "interrupted", setup.now())
    return end, records


def _archive(setup: Setup, paths: list[Path], *, is_empty: bool) -> None:
    if is_empty:
        for path in paths:
            path.unlink()
        raise NothingMeasured("interrupted before both sides had a number: nothing to keep")
    for path in paths:
        adopt.archive_journal(setup.results, path, read(path), lambda: setup.machine)
