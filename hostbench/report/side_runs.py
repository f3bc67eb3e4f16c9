"""What one side of `hostbench compare A B` names: the runs of a commit, machine, version or run."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from hostbench.core.errors import NothingMeasured, UsageError

COLUMNS = {"machine": "machine", "torch": "torch", "driver": "driver", "run": "run_id"}
"""Prefix of a name -> column; without a prefix it is a commit."""
_MIN_DIGITS = 4
"""Of an abbreviated commit, as in git."""

Resolve = Callable[[str], str | None]
"""A branch, tag or other name of a commit -> its 40 hex digits; None where git knows it not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRuns:
    """One side: what was asked for, and the runs that it names, as History.sides has them."""

    text: str
    column: str
    rows: pd.DataFrame

    @property
    def runs(self) -> set[tuple[str, str]]:
        """(machine, run_id): asv's own points of a commit have the same id on every machine."""
        return set(zip(self.rows["machine"], self.rows["run_id"], strict=True))


def chosen(runs: pd.DataFrame, text: str, resolve: Resolve) -> SideRuns:
    """Runs that may be judged; a run by its id may be scratch, too.

    Raises UsageError for a name that cannot be read, NothingMeasured where no run has it.
    """
    prefix, colon, value = text.partition(":")
    if colon and prefix not in COLUMNS:
        known = ", ".join(f"{name}:" for name in COLUMNS)
        raise UsageError(f"cannot read {text!r}: a side is a commit, or begins with {known}")
    column = COLUMNS[prefix] if colon else "commit"
    judged = runs[runs["scratch"].isna()] if column != "run_id" else runs
    values = judged[column].astype("string")
    if colon:
        matches = values.str.startswith(value) if column == "run_id" else values == value
    else:
        commit = resolve(text)
        if commit is None and len(text) < _MIN_DIGITS:
            raise UsageError(
                f"git knows no {text!r} here, and a commit needs {_MIN_DIGITS} digits or more"
            )
        matches = values.str.startswith(commit or text)
    rows = judged[matches.fillna(False).astype(bool)]
    if rows.empty or (not value and colon):
        newest = list(dict.fromkeys(values.dropna()))[-5:]
        shown = (value[:8] for value in newest) if column == "commit" else newest
        which = "run" if column == "run_id" else "run that may be judged"
        raise NothingMeasured(
            f"no {which} has {text!r}; the newest: {', '.join(shown) or 'nothing'}"
        )
    named = rows[column].nunique()
    if named > 1:
        raise UsageError(f"{text!r} names {named} of {column}: write more of it")
    return SideRuns(text=text, column=column, rows=rows)


def check(first: SideRuns, second: SideRuns) -> None:
    """Raises UsageError for a machine against what is none, and for sides that share some of their
    runs. The same side twice may be compared."""
    for one, other in ((first, second), (second, first)):
        if one.column == "machine" != other.column:
            raise UsageError(
                f"{one.text!r} is a machine and {other.text!r} is none: name two machines, or "
                f"--machine {one.text.partition(':')[2]} and two sides that ran on it"
            )
    for one, other in ((first, second), (second, first)):
        shared = one.runs & other.runs
        if shared and shared != one.runs:
            raise UsageError(
                f"{len(shared)} of the {len(one.runs)} runs of {one.text!r} are runs of "
                f"{other.text!r} too: name sides that share none, or single runs by run:ID"
            )
