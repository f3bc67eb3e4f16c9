"""`hostbench run`: measure in the foreground, keep everything, also in asv's file of the commit."""

import sys
from dataclasses import dataclass
from pathlib import Path

from hostbench import facts
from hostbench.cli.keeping import measure_and_keep
from hostbench.cli.measuring import End
from hostbench.cli.output import show, warn
from hostbench.cli.page import terminal
from hostbench.cli.program import given, program, short
from hostbench.cli.report import written
from hostbench.cli.run_setup import (
    Measuring,
    adopt_left_over,
    families_of,
    fresh,
    resumed,
    set_up,
)
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK
from hostbench.core.processes import become_subreaper
from hostbench.report.screen import screen
from hostbench.store import frame
from hostbench.store.archive import path_of
from hostbench.store.runs import WholeRun, facts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Measuring):
    no_asv: bool = False
    format: str = "text"


def execute(options: RunOptions) -> int:
    """Measure, archive, record, answer. Exit code 4 if a case failed, the run was interrupted or
    its device lost, 3 if none has a number, else 0: also of a part that stopped as it was asked
    to."""
    become_subreaper()
    setup = set_up(options)
    adopt_left_over(setup)
    header, plan, earlier = resumed(options, setup) if options.resume else fresh(options, setup)
    kept = measure_and_keep(setup, header, plan, earlier, tells_asv=not options.no_asv)
    rest = f"`{_rest(options, kept.run)}` does the rest"
    command = f"{program()} run"
    code = answer(options, setup.results, kept.run, kept.ended, command, rest)
    return EXIT_FAILED if kept.asv_error else code


def _rest(options: RunOptions, run: WholeRun) -> str:
    is_told = options.families or options.case
    named = sorted(families_of(run.header)) if is_told else ()
    words = " ".join((program(), "run", *named, "--resume"))
    return words + given(options, "machine", "results")


def answer(
    options: RunOptions, results: Path, run: WholeRun, end: End, command: str, rest: str
) -> int:
    """Print what was learnt, what the whole `command` would tell, and `rest`, how to measure what
    an end that came early left out. Returns the exit code."""
    rows = frame.of_run(results, run, warn)
    footer = _footer(options, results, run)
    if options.format == "text":
        show(screen(run, rows, footer, terminal(), command))
    else:
        show(written(options.format, rows, run, None))
        print(*(f"{label}: {text}" for label, text in footer), sep="\n", file=sys.stderr)
    statuses = [result.status for result in run.results()]
    if end != "complete":
        warn(f"{end}; what was measured is kept, {rest}")
    if end in ("interrupted", "device lost") or "failed" in statuses:
        return EXIT_FAILED
    return EXIT_OK if "ok" in statuses else EXIT_NOTHING_MEASURED


def _footer(options: RunOptions, results: Path, run: WholeRun) -> list[tuple[str, str]]:
    """Where the run is kept, and the next commands."""
    where = given(options, "results")
    own_name = facts.machine_name(None, facts_of(run.facts))  # which `report` shows unasked
    whose = "" if run.header.machine == own_name else given(run.header, "machine")
    archive = path_of(results, run.parts[-1])
    pairs = [("kept", short(archive))]
    if any(record.measurement.traceback for record in run.winners().values()):
        shown = f"{program()} report --run {run.run_id} --tracebacks{where}"
        pairs.append(("why it failed", shown))
    report, dashboard = f"{program()} report{whose}{where}", f"{program()} dashboard{where}"
    return [*pairs, ("next", f"{report} (everything) · {dashboard} (pictures)")]
