"""`hostbench report`: the answer of a stored run, in words and a table."""

from hostbench import facts
from hostbench.cli.output import show, show_page
from hostbench.cli.results import check_machine, open_history
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, NothingMeasured, UsageError
from hostbench.report import page as report
from hostbench.report.page import tracebacks as tracebacks_of
from hostbench.store.results import Results
from hostbench.store.runs import StoredFile


def execute(
    *,
    families: tuple[str, ...],
    run: str | None,
    machine: str | None,
    format: str,
    tracebacks: bool,
    results: str | None,
) -> int:
    """Print this machine's newest run, or the one asked for. Exit code 3 where there is none, 4
    where a stored file is damaged."""
    history = open_history(results)
    about = _choose(history, run, machine)
    whole, rows = history.run(about), history.run_rows(about.machine, about.run_id)
    known = rows["family"].unique()
    for name in families:
        if name not in known:
            raise UsageError(f"this run has no family {name!r}; it has: {', '.join(known)}")
    if tracebacks:
        show(tracebacks_of(whole))
        return EXIT_OK
    show_page(format, report.page(rows[rows["family"].isin(families or known)], whole))
    return EXIT_FAILED if history.warnings else EXIT_OK


def _choose(history: Results, run_id: str | None, named: str | None) -> StoredFile:
    """By its id, else the newest of the machine. Raises UsageError, NothingMeasured."""
    runs = history.runs()
    if not runs:
        asv = "; `hostbench changes` and `compare` read asv's files" if history.machines() else ""
        raise NothingMeasured(f"no run is stored here yet; `hostbench run --quick` makes one{asv}")
    if run_id:
        matching = [run for run in runs if run.run_id.startswith(run_id)]
        if len(matching) != 1:
            newest = ", ".join(run.run_id for run in (matching or runs)[-5:])
            raise UsageError(
                f"--run {run_id!r} names {len(matching) or 'no'} runs; the newest: {newest}"
            )
        return matching[0]
    machine = facts.machine_name(None, facts.collect()) if named is None else named
    check_machine(machine, sorted({run.machine for run in runs}))
    return next(run for run in reversed(runs) if run.machine == machine)
