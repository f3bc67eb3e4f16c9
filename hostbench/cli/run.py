"""`hostbench run`: measure in the foreground, keep everything, also in asv's file of the commit."""

from typing import Any

from hostbench import facts
from hostbench.cli.measuring import Measured, Measuring, Setup, measure, set_up
from hostbench.cli.output import program, short, show, terminal, typed_again, warn
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK
from hostbench.core.processes import become_subreaper
from hostbench.core.records import Run
from hostbench.report.screen import screen
from hostbench.store import points
from hostbench.store.archive import path_of
from hostbench.store.runs import case_results, facts_of


def execute(*, budget: float, **measuring: Any) -> int:
    """Measure, archive, record, answer. Exit code 4 if a case failed, the run was interrupted or
    its device lost, 3 if none has a number, else 0: also of a part that stopped as it was asked
    to."""
    options = Measuring(**measuring)
    become_subreaper()
    setup = set_up(options)
    measured = measure(setup, budget_s=budget, tells_asv=True)
    code = answer(options, setup, measured, f"{program()} run")
    return EXIT_FAILED if measured.asv_error else code


def answer(options: Measuring, setup: Setup, measured: Measured, command: str) -> int:
    """Print what was learnt, and what the whole `command` would tell. Returns the exit code."""
    (run,) = measured.runs
    rows = points.of_run(setup.results, run, warn)
    show(screen(run, rows, _footer(options, setup, run), terminal(), command))
    statuses = [result.status for result in case_results(run)]
    if measured.end != "complete":
        why = "out of time" if measured.end == "stopped" else measured.end
        warn(f"{why}; what was measured is stored")
    if measured.end in ("interrupted", "device lost") or "failed" in statuses:
        return EXIT_FAILED
    return EXIT_OK if "ok" in statuses else EXIT_NOTHING_MEASURED


def _footer(options: Measuring, setup: Setup, run: Run) -> list[tuple[str, str]]:
    """Where the run is stored, and the next commands."""
    where = typed_again(options, "results")
    own_name = facts.machine_name(None, facts_of(run.facts_before))  # which `report` shows unasked
    whose = "" if run.header.machine == own_name else typed_again(run.header, "machine")
    pairs = [("stored", short(path_of(setup.results, run)))]
    if any(record.measurement.traceback for record in run.winners().values()):
        shown = f"{program()} report --run {run.run_id} --tracebacks{where}"
        pairs.append(("why it failed", shown))
    report, dashboard = f"{program()} report{whose}{where}", f"{program()} dashboard{where}"
    return [*pairs, ("next", f"{report} (everything) · {dashboard} (pictures)")]
