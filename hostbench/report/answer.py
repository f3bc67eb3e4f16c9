"""The answer in plain words: each piece of the usual advice with this machine's figure.

Pure functions from the rows of one run to sentences. What cannot be seen on the machine is said to
be so, with the reason; a number of the cpu device is always named as one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd

from hostbench.report.allocation import allocation
from hostbench.report.collectives import collectives
from hostbench.report.overlap import overlap
from hostbench.report.transfer import transfer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the host/device paradigm with what this run says about it."""

    family: str
    question: str
    text: str


def answers(frame: pd.DataFrame) -> list[Answer]:
    """Answers for one run's rows of the tidy frame; families it did not come to give none."""
    found = []
    frame = frame[frame["status"] != "not measured"]  # these have no axes
    for family, make in _FAMILIES.items():
        rows = frame[frame["family"] == family]
        if len(rows):
            found += [Answer(family=family, question=q, text=text) for q, text in make(rows)]
    return found


_FAMILIES: dict[str, Callable[[pd.DataFrame], Iterator[tuple[str, str]]]] = {
    "transfer": transfer,
    "allocation": allocation,
    "overlap": overlap,
    "collectives": collectives,
}
