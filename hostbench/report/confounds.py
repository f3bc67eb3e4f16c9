"""In what the two sides of a comparison differ besides what is compared."""

from collections.abc import Iterator, Sequence
from typing import Any

Cells = dict[str, Any]
"""A row of the tidy frame: column -> value."""


_FACTS = {
    "commit": ("torch", "driver", "hardware"),
    "run_id": ("torch", "driver", "hardware"),
    "torch": ("driver", "hardware"),
    "driver": ("torch", "hardware"),
    "machine": ("torch",),
}
"""What is compared -> columns of the frame that should have a value on both sides."""
_NAMES = {
    "commit": "a commit",
    "run_id": "a run",
    "torch": "a version of torch",
    "driver": "a version of the driver",
}


def confounds(
    columns: tuple[str, str], first: Sequence[Cells], second: Sequence[Cells]
) -> Iterator[str]:
    """`torch 2.12 there, 2.13 here`: of one series, each thing that counts as well. A value that
    only one side knows says nothing. `columns`: what the sides are named by."""
    compared = set(columns)
    if len(compared) > 1 and not compared <= {"commit", "run_id"}:
        yield f"{_NAMES[columns[0]]} there, {_NAMES[columns[1]]} here"
    for fact in _FACTS[columns[0]]:
        there, here = _known(first, fact), _known(second, fact)
        if fact not in compared and there and here and not there & here:
            yield f"{fact} {_listed(there)} there, {_listed(here)} here"


def _known(rows: Sequence[Cells], fact: str) -> set[str]:
    return {value for row in rows if isinstance(value := row[fact], str) and value}


def _listed(values: set[str]) -> str:
    return ", ".join(sorted(values))
