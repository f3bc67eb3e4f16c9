"""`hostbench ab A [B]`: two commits, or one and the working tree, interleaved, and what became
slower from A to B."""

import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostbench.cli.measuring import Measuring, measure_case, measure_sides
from hostbench.cli.output import show, show_page, warn, write_file
from hostbench.cli.results import open_history
from hostbench.core.case import did_you_mean
from hostbench.core.errors import EXIT_FAILED, DeviceLost, HostbenchError, Interrupted, UsageError
from hostbench.families import known
from hostbench.judge.two_sides import side_of
from hostbench.report.comparison import between, bisection_step, comment_of, page
from hostbench.report.comparison import comment as comment_with
from hostbench.vcs.repo import about, commit_of
from hostbench.vcs.side import NothingDiffers

SKIP, STOP = 125, 130
"""What `git bisect run` takes for: cannot be told; go no further."""


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
        return _judge_step(options, a, names, budget, threshold)
    try:
        b, families = _names(names)
        measured = measure_sides(replace(options, families=families), a, b, budget)
        both = between(open_history(options.results), measured)
    except (HostbenchError, KeyboardInterrupt) as error:
        if comment is not None:  # else the comment before stays, and lies
            why = str(error) or "interrupted"
            write_file(comment, comment_with("Nothing compared", [why]).encode())
        raise
    show_page(format, page(both, every=all))
    if comment is not None:
        commits = [
            f"{name}: {about(Path.cwd(), str(run.header.commit))}"
            for name, run in zip(both.names, measured.runs, strict=True)
        ]
        write_file(comment, comment_of(both, commits).encode())
    failed = any(one.status == "failed" for run in measured.runs for one in run.records)
    return EXIT_FAILED if failed or measured.is_cut_off else both.exit_code


def _names(names: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """(B, families) of what follows A: B may be left out, and no family is taken for it."""
    families = known()
    second = None
    if names and names[0] not in families:
        second, *names = names
        if commit_of(Path.cwd(), second) is None:
            raise UsageError(
                f"{second!r} is neither a commit that git knows nor a family"
                f"{did_you_mean(second, families)}; there are: {', '.join(families)}"
            )
    return second, tuple(names)


def _judge_step(
    options: Measuring, a: str, names: Sequence[str], budget_s: float, threshold: float
) -> int:
    """`ab --bisect`: the exit code that `git bisect run` wants. A commit that cannot be measured is
    skipped. Without the device none can be, and any exit code below 128 would call a commit bad:
    then the bisection stops."""
    try:
        b, families = _names(names)
        both, comparison = measure_case(replace(options, families=families), a, b, budget_s)
        word = side_of(comparison, threshold)
        show(bisection_step("skip" if word == "undecided" else word, both.runs, comparison))
        return {"good": 0, "bad": 1, "undecided": SKIP}[word]
    except NothingDiffers as error:
        warn(str(error))
        return 0
    except (DeviceLost, Interrupted, KeyboardInterrupt) as error:
        warn(str(error) or "interrupted")
        return STOP
    except HostbenchError as error:
        warn(str(error))
        return SKIP
    except Exception:
        traceback.print_exc()
        return STOP
