"""The answer in plain words: each piece of the usual advice with this machine's figure.

Pure functions from the rows of one run to sentences. What cannot be seen on the machine is said to
be so, with the reason; a number of the cpu device is always named as one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd

from hostbench.core.records import DAMAGE
from hostbench.report.allocation import allocation
from hostbench.report.collectives import collectives
from hostbench.report.overlap import overlap
from hostbench.report.transfer import transfer

_Make = Callable[[pd.DataFrame], Iterator[tuple[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the host/device paradigm with what this run says about it."""

    family: str
    question: str
    text: str


def answers(frame: pd.DataFrame) -> list[Answer]:
    """Answers for one run's rows of the tidy frame; families it did not come to give none."""
    found = []
    for family, make in _FAMILIES.items():
        rows = frame[frame["family"] == family]
        came_to = rows[rows["status"] != "not measured"]  # the others have no axes
        if len(came_to):
            found += _told(family, make, rows if family == "overlap" else came_to)
    return found


def _told(family: str, make: _Make, rows: pd.DataFrame) -> list[Answer]:
    try:
        return [Answer(family=family, question=q, text=text) for q, text in make(rows)]
    except (*DAMAGE, ArithmeticError) as error:  # what is stored is not what hostbench writes
        kind = type(error).__name__
        text = f"cannot be told: the stored rows of this family are odd ({kind}: {error})"
        return [Answer(family=family, question=f"What does {family} say?", text=text)]


_FAMILIES: dict[str, _Make] = {
    "transfer": transfer,
    "allocation": allocation,
    "overlap": overlap,
    "collectives": collectives,
}
