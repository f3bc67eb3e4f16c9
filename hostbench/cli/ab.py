"""`hostbench ab A [B]`: two codes, interleaved, and what became slower from A to B."""

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hostbench.cli import compare
from hostbench.cli.measuring import Pair, measure_pair
from hostbench.cli.output import warn
from hostbench.cli.run_setup import Measuring, Setup, adopt_left_over, planned, set_up
from hostbench.core.errors import EXIT_FAILED, NothingMeasured, UsageError
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.families import names as known_families
from hostbench.vcs import side
from hostbench.vcs.repo import Checkout, working_tree
from hostbench.vcs.side import Side


def execute(*, a: str, names: tuple[str, ...], all: bool, format: str, **measuring: Any) -> int:
    """Measure, keep a run of each side, compare them; `names` are B and families, either of which
    may be left out. Exit codes are those of `compare`, but 4 where a case failed or the run was
    interrupted."""
    become_subreaper()
    second, families = _names(names)
    options = Measuring(families=families, **measuring)
    setup = set_up(options)
    root, code = repository(setup)
    plan = planned(options, setup)
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-ab-") as folder:
        sides = (
            side.of_commit(root, a, Path(folder, "a")),
            side.of_commit(root, second, Path(folder, "b"))
            if second is not None
            else side.of_working_tree(root, code, Path(folder, "b")),
        )
        cases, notes = side.comparable(plan.cases, sides)
        if not cases:
            raise NothingMeasured(f"nothing to compare: {'; '.join(notes)}")
        if sides[0].code == sides[1].code:
            warn("both sides are the same code: what differs is the noise")
        for note in notes:
            warn(note)
        adopt_left_over(setup)
        pair = measure_pair(setup, sides, replace(plan, cases=cases))
    _tell(sides, pair)
    failed = any(one.status == "failed" for records in pair.records for one in records)
    try:
        first, second = (f"run:{run_id}" for run_id in pair.run_ids)
        verdict = compare.execute(
            a=first, b=second, all=all, format=format, results=str(setup.results)
        )
    except NothingMeasured as error:
        warn(str(error))
        verdict = error.exit_code
    return EXIT_FAILED if failed or pair.end == "interrupted" else verdict


def repository(setup: Setup) -> tuple[Path, Checkout]:
    """The checkout whose commits are measured, and its state. Raises UsageError without one."""
    code = working_tree(setup.root, setup.results) if setup.root else setup.checkout
    if setup.root is None or code.commit is None:
        raise UsageError(f"commits are measured from a checkout, here is none: {code.scratch}")
    return setup.root, code


def _names(names: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """(B, families) of what follows A: B may be left out, and no family is taken for it."""
    if names and names[0] not in known_families():
        return names[0], names[1:]
    return None, names


def _tell(sides: tuple[Side, Side], pair: Pair) -> None:
    for letter, one, run_id in zip("AB", sides, pair.run_ids, strict=True):
        mark = f", {one.code.scratch}" if one.code.scratch else ""
        print(
            f"{letter}: {one.name} ({str(one.code.commit)[:8]}{mark}) is run:{run_id}",
            file=sys.stderr,
        )
    if pair.end != "complete":
        warn(f"{pair.end}; what was measured is kept, and is judged if it is enough")
