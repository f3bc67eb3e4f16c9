"""What becomes of a night: kept, drawn, and said in each place's own form."""

import os
import time
from dataclasses import replace
from pathlib import Path

from hostbench.cli.history import open_history
from hostbench.cli.nightly.tonight import NightlyOptions, Tonight
from hostbench.cli.output import show, warn, write_file
from hostbench.cli.page import show_page
from hostbench.cli.program import given, program
from hostbench.core.errors import EXIT_USAGE
from hostbench.judge.night import CONFIRMED
from hostbench.report import html as static
from hostbench.report.nightly import (
    NightReport,
    answer,
    as_json,
    page,
    table,
    to_store,
)
from hostbench.report.overview import overview
from hostbench.report.table import markdown
from hostbench.store import frame, nights

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that GitHub shows on a job's page."""
_SECTION = "hostbench_nightly[collapsed=true]"


def hand_on(tonight: Tonight) -> None:
    """Keep what was concluded and write the page. After an interrupt a CI job has seconds left:
    then neither is done, and the night stays open for another try."""
    night, options, setup = tonight.report, tonight.options, tonight.setup
    if night.interrupted or night.ended == "interrupted" or night.error_code == EXIT_USAGE:
        return
    if setup is None:
        return
    if night.run_id is not None and night.scratch is None:
        with tonight.beside("the night could not be kept"):
            nights.write(setup.results, to_store(night))
    if options.page is not None and tonight.run is not None:
        with tonight.beside(f"the page {options.page} could not be written"):
            rows = frame.of_run(setup.results, tonight.run, warn)
            history = overview(open_history(str(setup.results)), Path.cwd())
            head = page(tonight.report)
            document = static.html(rows, tonight.run, head=head, history=history)
            write_file(options.page, document.encode(), "--page")


def tell(tonight: Tonight) -> None:
    """To standard output, and in Markdown to the file that was asked for and to GitHub's page."""
    options = tonight.options
    if options.summary is not None and tonight.is_ours:
        with tonight.beside(f"the summary {options.summary} could not be written"):
            write_file(options.summary, _in_markdown(tonight), "--summary")
    if named := os.environ.get(STEP_SUMMARY):
        try:
            with Path(named).open("ab") as file:
                file.write(_in_markdown(tonight))
        except OSError as error:
            warn(f"{STEP_SUMMARY} names {named}, which cannot be written: {error.strerror}")
    night = _with_next_steps(options, tonight.report)
    in_gitlab = bool(os.environ.get("GITLAB_CI")) and options.format == "text"
    if in_gitlab:  # its log folds what lies between these two
        show(f"{answer(night)}\n\x1b[0Ksection_start:{int(time.time())}:{_SECTION}\r\x1b[0Kdetails")
    show_page(options.format, lambda: page(night), lambda: table(night), lambda: as_json(night))
    if in_gitlab:
        show(f"\x1b[0Ksection_end:{int(time.time())}:hostbench_nightly\r\x1b[0K")


def _in_markdown(tonight: Tonight) -> bytes:
    text = markdown(page(_with_next_steps(tonight.options, tonight.report)))
    return f"{text}\n".encode(errors="replace")


def _with_next_steps(options: NightlyOptions, night: NightReport) -> NightReport:
    """What to type next."""
    where = given(options, "results")
    steps = [f"see it: `{program()} dashboard{where}`"] if night.run_id else []
    if night.failed:
        steps.append(
            f"why cases failed: `{program()} report --run {night.run_id} --tracebacks{where}`"
        )
    code = night.of("code", verdict="slower")
    if code and len(night.landed) > 1:
        name = f"{code[0].case}@{night.machine}"
        steps.append(f"which commit it was: `{program()} bisect '{name}'{where}`")
    confirmed = night.of(*CONFIRMED, verdict="slower")
    if confirmed:
        first, each = confirmed[0], " (a command for each series)" * (len(confirmed) > 1)
        since = str(night.commit)[:8] if first.cause == "code" else night.run_id
        steps.append(
            f"if it is intended, accept it, and no night names it any more{each}: `{program()} "
            f"triage set '{first.case}@{night.machine}' {since} accepted{where}`"
        )
    return replace(night, remarks=(*night.remarks, *steps))
