"""`hostbench report`: the answer of a stored run, in words and a table."""

import json
from pathlib import Path
from typing import TextIO

import pandas as pd

from hostbench import facts
from hostbench.cli.history import open_history
from hostbench.cli.output import show
from hostbench.cli.page import terminal
from hostbench.cli.results import check_machines
from hostbench.core.errors import EXIT_OK, NothingMeasured, UsageError
from hostbench.device.simulated_file import MARK
from hostbench.report import html as static
from hostbench.report import nvbandwidth as bandwidths
from hostbench.report.page import as_json, page
from hostbench.report.page import tracebacks as tracebacks_of
from hostbench.report.table import Heading, Part, markdown, plain, text
from hostbench.store.history import History
from hostbench.store.runs import AboutRun, WholeRun


def execute(
    *,
    families: tuple[str, ...],
    run: str | None,
    machine: str | None,
    format: str,
    tracebacks: bool,
    nvbandwidth: Path | None,
    results: str | None,
) -> int:
    """Print this machine's newest run, or the one asked for. Exit code 3 where there is none.

    A simulated run is no measurement of this machine: it is shown only when asked for, by its id or
    by a machine that is simulated.
    """
    history = open_history(results)
    about = _choose(history, run, machine)
    rows, whole = _of_families(history.rows_of(about), families), history.whole(about)
    if tracebacks:
        show(tracebacks_of(whole))
    elif nvbandwidth is not None:
        show(_beside_nvbandwidth(format, rows, whole, nvbandwidth))
    else:
        show(written(format, rows, whole, terminal()))
    return EXIT_OK


def written(form: str, rows: pd.DataFrame, run: WholeRun, live: TextIO | None) -> str:
    """A run's report in that format; `live` is the terminal that it is for, if any."""
    if form == "json":
        return json.dumps(as_json(rows, run), indent=2)
    if form == "csv":  # a line for each case, with the columns of the tidy frame
        cells = rows.map(lambda cell: json.dumps(cell) if isinstance(cell, dict | list) else cell)
        return cells.to_csv(index=False, lineterminator="\n").rstrip("\n")
    if form == "html":
        return static.html(rows, run).rstrip("\n")
    return page(rows, run, markdown=form == "md", terminal=live)


def _beside_nvbandwidth(form: str, rows: pd.DataFrame, run: WholeRun, file: Path) -> str:
    """The report, then nvbandwidth's figures beside the run's."""
    if form not in ("text", "md", "json"):
        raise UsageError("--nvbandwidth goes with --format text, md or json")
    table = bandwidths.beside(bandwidths.read(file), rows)
    if form == "json":
        return json.dumps({**as_json(rows, run), "nvbandwidth": plain(table)}, indent=2)
    parts: list[Part] = [Heading(f"nvbandwidth ({file.name}) beside this run"), table]
    own = markdown(parts) if form == "md" else text(parts, terminal())
    return f"{written(form, rows, run, terminal())}\n\n{own}"


def _of_families(rows: pd.DataFrame, families: tuple[str, ...]) -> pd.DataFrame:
    """The rows of these families; all without any. Raises UsageError for one that the run lacks."""
    known = rows["family"].unique()
    for name in families:
        if name not in known:
            raise UsageError(f"this run has no family {name!r}; it has: {', '.join(known)}")
    return rows[rows["family"].isin(families)] if families else rows


def _choose(history: History, run_id: str | None, machine: str | None) -> AboutRun:
    runs = history.runs()
    if run_id and runs:
        named = [run for run in runs if run.run_id.startswith(run_id)]
        if len(named) != 1:
            newest = ", ".join(run.run_id for run in (named or runs)[-5:])
            raise UsageError(f"--run {run_id!r} names {len(named)} runs; the newest: {newest}")
        return named[0]
    machine = facts.machine_name(machine, facts.collect())
    ours = [run for run in runs if run.machine == machine]
    if not ours:
        if not runs:
            raise NothingMeasured("no run is stored here yet; `hostbench run --quick` makes one")
        check_machines([machine], sorted({run.machine for run in runs if run.machine}))
    real = ours if MARK in machine else [run for run in ours if run.device != MARK]
    if not real:
        raise NothingMeasured(
            f"machine {machine!r} has only simulated runs, which say nothing about it; "
            f"`--run {ours[-1].run_id}` shows one, `hostbench run --quick` measures"
        )
    return real[-1]
