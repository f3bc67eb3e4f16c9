"""`hostbench bisect SERIES`: which commit made a series slower. git bisects, and `hostbench ab`
measures each step."""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import Any

from hostbench.cli.measuring import Measuring, measure_case
from hostbench.cli.output import show, typed_again
from hostbench.cli.results import results_folder
from hostbench.core.case import parse_series
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, NothingMeasured, UsageError
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.units import format_change
from hostbench.judge.two_sides import CHANGED, half
from hostbench.report.comparison import bisection_step
from hostbench.vcs import repo
from hostbench.vcs.measure import repository
from hostbench.vcs.repo import GitError
from hostbench.vcs.side import known_commit, measured_paths


def execute(*, series: str, good: str, bad: str, **measuring: Any) -> int:
    """Exit code 0 where the commit was found, 3 where the ends do not differ today, or only commits
    are left that cannot be measured. In a clone git checks nothing out, so that nothing of the
    checkout moves; each step runs here, with the commit that is to be measured."""
    options, machine = Measuring(**measuring), parse_series(series).machine
    case = series.partition("@")[0]
    root, _ = repository(results_folder(options.results))
    good, bad = known_commit(root, good), known_commit(root, bad)
    ends, comparison = measure_case(replace(options, case=(case,)), good, bad)
    here = ends.runs[0].header.machine
    if machine not in (None, here):
        raise UsageError(f"the series is of machine {machine}, this is {here}: go there")
    if comparison.effect is None or comparison.verdict not in CHANGED:
        raise NothingMeasured(
            f"{good[:8]} and {bad[:8]} do not differ when they are interleaved "
            f"({comparison.why or comparison.verdict}): the step is the environment's, or too "
            "small to be seen here"
        )
    threshold = half(comparison.effect)
    show(bisection_step("bad", ends.runs, comparison))
    show(f"from {format_change(threshold)} on a commit is bad")
    words = [sys.executable, "-m", "hostbench", "ab", good, "--bisect", "--case", case]
    more = f"--threshold {threshold:.4g}{typed_again(options, *measuring)}"
    script = f"""#!/bin/sh
commit=$(git rev-parse BISECT_HEAD) && cd {quote(str(Path.cwd()))} || exit 255
exec {join(words)} {more} "$commit"
"""
    # a git that was being started as the interrupt came may still write there
    temporary = tempfile.TemporaryDirectory(prefix="hostbench-bisect-", ignore_cleanup_errors=True)
    with terminate_as_interrupt(), temporary as name:
        clone, start = Path(name), ("bisect", "start", "--no-checkout")
        repo.git(root, "clone", "-q", "--shared", "--no-checkout", paths=[str(root), name])
        (clone / "step").write_text(script)
        (clone / "step").chmod(0o755)
        started = repo.git(clone, *start, names=[bad, good], paths=measured_paths(root))
        show(started)
        if "is the first bad commit" not in started:  # else no commit lies between
            try:
                repo.git(clone, "bisect", "run", "./step", is_shown=True)
            except GitError:  # it has said why
                return EXIT_NOTHING_MEASURED
    return EXIT_OK
