"""`hostbench run`: measure in the foreground, keep everything, also in asv's file of the commit."""

from typing import Any

from hostbench.cli.measuring import Measuring, answer, set_up
from hostbench.cli.output import program
from hostbench.vcs.measure import measure


def execute(*, budget: float, **measuring: Any) -> int:
    """Measure, archive, record, answer. Exit code 4 if a case failed, asv's file could not be
    written, the run was interrupted or its device lost, 3 if none has a number, else 0: also of a
    part that stopped as it was asked to."""
    options = Measuring(**measuring)
    setup = set_up(options)
    measured = measure(setup, budget_s=budget, tells_asv=True)
    return answer(options, setup, measured, f"{program()} run")
