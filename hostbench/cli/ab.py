"""`hostbench ab A [B]`: two codes, interleaved, and what became slower from A to B."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

from hostbench.cli.bisect import judge_step
from hostbench.cli.measuring import Measured, Measuring
from hostbench.cli.output import show_page, typed_again, write_file
from hostbench.cli.two_codes import measure_sides
from hostbench.core.errors import EXIT_FAILED, HostbenchError, NothingMeasured
from hostbench.report.comparison import comment as comment_with
from hostbench.report.comparison import comment_of, page
from hostbench.vcs.repo import about
from hostbench.vcs.side import WORKING_TREE, Side

_FEW = 3


def execute(
    *,
    a: str,
    names: tuple[str, ...],
    budget: float,
    comment: Path | None,
    bisect: bool,
    threshold: float,
    all: bool,
    format: str,
    **measuring: Any,
) -> int:
    """Measure, keep a run of each side, compare them. Exit codes are those of `compare`, but 4
    where a case failed or the run was interrupted; with --bisect those of `git bisect run`."""
    options = Measuring(**measuring)
    if bisect:
        return judge_step(options, a, names, budget, threshold)
    words = [*map(quote, (a, *names)), *(f"--case {quote(case)}" for case in options.case)]
    words += [f"--budget {budget:g}s"] if math.isfinite(budget) else []
    more = typed_again(options, "quick", "launches", "device", "deadline")
    again = f"again: hostbench ab {' '.join(words)}{more}"

    def write_comment(text: str) -> None:
        if comment is not None:
            write_file(comment, text.encode())

    try:
        measured = measure_sides(options, a, names, budget)
        both = measured.compared(options.results)
    except (HostbenchError, KeyboardInterrupt) as error:  # else the comment before stays, and lies
        why = str(error) or "interrupted before anything was compared"
        nothing = isinstance(error, NothingMeasured | KeyboardInterrupt)
        write_comment(comment_with("Nothing measured" if nothing else "Failed", [why, again]))
        raise
    called = _called(measured.sides[0]), _called(measured.sides[1])
    both = replace(both, names=called, notes=[*both.notes, *_notes(called, measured)])
    ids = " ".join(f"run:{run.run_id}" for run in measured.runs)
    shown_again = f"hostbench compare {ids}{typed_again(options, 'results')}"
    show_page(format, page(both, shown_again, every=all))
    commits = [
        f"{name}: {about(Path.cwd(), str(side.code.commit))}"
        for name, side in zip(called, measured.sides, strict=True)
    ]
    write_comment(comment_of(both, shown_again, [*commits, again]))
    records = chain.from_iterable(run.records for run in measured.runs)
    failed = any(record.status == "failed" for record in records)
    cut_off = measured.end in ("interrupted", "device lost")
    return EXIT_FAILED if failed or cut_off else both.exit_code


def _called(side: Side) -> str:
    clean = ", tracked files unchanged" if side.name == WORKING_TREE else ""
    state = f", {side.code.scratch}" if side.code.scratch else clean
    return f"{side.name} ({str(side.code.commit)[:8]}{state})"


def _notes(names: tuple[str, str], both: Measured) -> Iterator[str]:
    """What was not measured, where each side is kept, and whether it came to its end."""
    yield from both.notes
    for name, run in zip(names, both.runs, strict=True):
        yield f"{name} is run:{run.run_id}"
    if both.end != "complete":
        num = min(len({record.launch for record in run.records}) for run in both.runs)
        yield f"{both.end} in launch {num}: what was measured is kept, and judged if it is enough"
