"""`hostbench report`: the answer of a stored run, in words and a table."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd

from hostbench import facts
from hostbench.cli.history import open_history
from hostbench.cli.output import show, write_file
from hostbench.cli.page import terminal
from hostbench.cli.results import check_machines
from hostbench.core.errors import EXIT_OK, NothingMeasured, UsageError
from hostbench.device.simulated_file import MARK
from hostbench.report import html as static
from hostbench.report import nvbandwidth
from hostbench.report.page import as_json, page, tracebacks
from hostbench.report.table import Heading, Part, markdown, plain, text
from hostbench.store.history import History
from hostbench.store.runs import AboutRun, WholeRun

_ENDINGS = {
    ".txt": "text",
    ".text": "text",
    ".md": "md",
    ".json": "json",
    ".csv": "csv",
    ".html": "html",
    ".htm": "html",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    families: tuple[str, ...]
    run: str | None
    machine: str | None
    format: str | None
    output: Path | None
    tracebacks: bool
    nvbandwidth: Path | None
    results: str | None


def execute(options: ReportOptions) -> int:
    """Print this machine's newest run, or the one asked for. Exit code 3 where there is none.

    A simulated run is no measurement of this machine: it is shown only when asked for, by its id or
    by a machine that is simulated.
    """
    form = _form(options)
    history = open_history(options.results)
    answer = _asked(form, history, options)
    if options.output is None:
        show(answer)
    else:
        write_file(options.output, f"{answer}\n".encode(errors="replace"))
        show(f"wrote {options.output}")
    return EXIT_OK


def _asked(form: str, history: History, options: ReportOptions) -> str:
    about = _choose(history, options.run, options.machine)
    rows, run = _of_families(history.rows_of(about), options.families), history.whole(about)
    if options.tracebacks:
        return tracebacks(run)
    if form == "html":
        return static.html(rows, run).rstrip("\n")
    live = terminal() if options.output is None else None
    if options.nvbandwidth is None:
        return written(form, rows, run, live)
    return _beside_nvbandwidth(form, rows, run, live, options.nvbandwidth)


def _beside_nvbandwidth(
    form: str, rows: pd.DataFrame, run: WholeRun, live: TextIO | None, file: Path
) -> str:
    """The report, then nvbandwidth's figures beside the run's."""
    if form not in ("text", "md", "json"):
        raise UsageError("--nvbandwidth goes with --format text, md or json")
    table = nvbandwidth.beside(nvbandwidth.read(file), rows)
    if form == "json":
        return json.dumps({**as_json(rows, run), "nvbandwidth": plain(table)}, indent=2)
    parts: list[Part] = [Heading(f"nvbandwidth ({file.name}) beside this run"), table]
    own = markdown(parts) if form == "md" else text(parts, live)
    return f"{written(form, rows, run, live)}\n\n{own}"


def _of_families(rows: pd.DataFrame, families: tuple[str, ...]) -> pd.DataFrame:
    """The rows of these families; all without any. Raises UsageError for one that the run lacks."""
    known = rows["family"].unique()
    for name in families:
        if name not in known:
            raise UsageError(f"this run has no family {name!r}; it has: {', '.join(known)}")
    return rows[rows["family"].isin(families)] if families else rows


def _form(options: ReportOptions) -> str:
    """--format, else what the file's ending says. Raises UsageError where they do not say it."""
    form = options.format
    if options.output is None:
        if form == "html":
            raise UsageError("html needs a file to write: -o FILE")
        return form or "text"
    ending = options.output.suffix.lower()
    if form is None and ending not in _ENDINGS and options.output.suffix:
        raise UsageError(
            f"no format has the ending {ending} of {options.output}: name one with --format, or "
            f"end it in {', '.join(_ENDINGS)}"
        )
    return form or _ENDINGS.get(ending, "text")


def written(form: str, rows: pd.DataFrame, run: WholeRun, live: TextIO | None) -> str:
    """A run's report in a format other than HTML; `live` is the terminal that it is for, if any."""
    if form == "json":
        return json.dumps(as_json(rows, run), indent=2)
    if form == "csv":
        return _csv(rows)
    return page(rows, run, markdown=form == "md", terminal=live)


def _csv(rows: pd.DataFrame) -> str:
    """A line for each case, with the columns of the tidy frame."""
    cells = rows.map(lambda cell: json.dumps(cell) if isinstance(cell, dict | list) else cell)
    return cells.to_csv(index=False, lineterminator="\n").rstrip("\n")


def _choose(history: History, asked: str | None, machine: str | None) -> AboutRun:
    runs = history.runs()
    if asked and runs:
        found = [run for run in runs if run.run_id.startswith(asked)]
        if len(found) != 1:
            named = ", ".join(run.run_id for run in (found or runs)[-5:])
            raise UsageError(f"--run {asked!r} names {len(found)} runs; the newest: {named}")
        return found[0]
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
