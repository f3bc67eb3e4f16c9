"""`hostbench bisect SERIES`: which commit made a series slower. git bisects, and `hostbench ab`
measures each step."""

import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import join, quote
from typing import Any

from hostbench.cli.measuring import Measured, Measuring
from hostbench.cli.output import show, typed_again, warn
from hostbench.cli.results import results_folder
from hostbench.cli.two_codes import measure_sides, repository
from hostbench.core.case import parse_series
from hostbench.core.errors import (
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    DeviceLost,
    HostbenchError,
    Interrupted,
    NothingMeasured,
    UsageError,
)
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.units import format_change, format_interval
from hostbench.judge.two_sides import CHANGED, Comparison, half, side_of
from hostbench.vcs import repo
from hostbench.vcs.side import NothingDiffers, known_commit, measured_paths

SKIP, STOP = 125, 130
"""What `git bisect run` takes for: cannot be told; go no further."""


def execute(*, series: str, good: str, bad: str, **measuring: Any) -> int:
    """Exit code 0 where the commit was found, 3 where the ends do not differ today, or only commits
    are left that cannot be measured. In a clone git checks nothing out, so that nothing of the
    checkout moves; each step runs here, with the commit that is to be measured."""
    options, machine = Measuring(**measuring), parse_series(series).machine
    case = series.partition("@")[0]
    root, _ = repository(results_folder(options.results))
    good, bad = known_commit(root, good), known_commit(root, bad)
    ends, comparison = _measured(replace(options, case=(case,)), good, (bad,))
    here = ends.runs[0].header.machine
    if machine not in (None, here):
        raise UsageError(f"the series is of machine {machine}, this is {here}: go there")
    if comparison.effect is None or comparison.verdict not in CHANGED:
        raise NothingMeasured(
            f"{good[:8]} and {bad[:8]} do not differ when they are interleaved "
            f"({comparison.verdict}{': ' * bool(comparison.why)}{comparison.why}): the step is the "
            "environment's, or too small to be seen here"
        )
    threshold = half(comparison.effect)
    show(
        f"{_in_words('bad', ends, comparison)}\nfrom {format_change(threshold)} on a commit is bad"
    )
    words = [sys.executable, "-m", "hostbench", "ab", good, "--bisect", "--case", case]
    more = f"--threshold {threshold:.4g}{typed_again(options, *measuring)}"
    script = f"""#!/bin/sh
commit=$(git rev-parse BISECT_HEAD) && cd {quote(str(Path.cwd()))} || exit 255
exec {join(words)} {more} "$commit"
"""
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-bisect-") as name:
        clone, start = Path(name), ("bisect", "start", "--no-checkout")
        repo.git(root, "clone", "-q", "--shared", "--no-checkout", paths=[str(root), name])
        (clone / "step").write_text(script)
        (clone / "step").chmod(0o755)
        started = repo.git(clone, *start, names=[bad, good], paths=measured_paths(root))
        show(started)
        is_found = "is the first bad commit" in started  # where no commit lies between
        is_found = is_found or not repo.call_git(clone, "bisect", "run", "./step")
    return EXIT_OK if is_found else EXIT_NOTHING_MEASURED


def judge_step(
    options: Measuring, a: str, names: Sequence[str], budget_s: float, threshold: float
) -> int:
    """`ab --bisect`: the exit code that `git bisect run` wants. A commit that cannot be measured is
    skipped. Without the device none can be, and any exit code below 128 would call a commit bad:
    then the bisection stops."""
    try:
        both, comparison = _measured(options, a, names, budget_s)
        word = side_of(comparison, threshold)
        show(_in_words("skip" if word == "undecided" else word, both, comparison))
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


def _measured(
    options: Measuring, a: str, names: Sequence[str], *budget_s: float
) -> tuple[Measured, Comparison]:
    """Of one case."""
    both = measure_sides(options, a, names, *budget_s, scratch="bisect", only_case=True)
    if both.end == "interrupted":
        raise KeyboardInterrupt
    if both.end == "device lost":
        raise DeviceLost("the device is lost: no commit can be measured before it is back")
    (comparison,) = both.compared(options.results).comparisons.values()
    return both, comparison


def _in_words(word: str, both: Measured, comparison: Comparison) -> str:
    """`bad   1a2b3c4d  +20.0% (+19.1% to +20.9%)  2026-11-21 the commit's first line`, and how to
    see it again."""
    change = f"{comparison.verdict}: {comparison.why}"
    if comparison.effect is not None:
        interval = format_interval(comparison.low, comparison.high)
        change = f"{format_change(comparison.effect)} ({interval})"
    commit = str(both.sides[1].code.commit)
    first, second = (run.run_id for run in both.runs)
    return (
        f"{word:4}  {commit[:8]}  {change}  {repo.about(Path.cwd(), commit)}\n"
        f"      hostbench compare run:{first} run:{second}"
    )
