"""What one side of `hostbench compare A B` names: the runs of a commit, machine, version,
asv environment or run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.suggest import did_you_mean

Key = tuple[str, ...]
"""Where a series was measured, case, version."""
COLUMNS = {name: name for name in ("machine", "torch", "driver", "environment")} | {"run": "run_id"}
"""Prefix of a name -> column; without a prefix it is a commit."""
_PREFIXES = ", ".join(f"{name}:" for name in COLUMNS)
LEVEL = "level"
"""A first side: the runs before the second one."""
_MIN_DIGITS = 4
"""Of an abbreviated commit, as in git."""

Resolve = Callable[[str], str | None]
"""A branch, tag or other name of a commit -> its 40 hex digits; None where git knows it not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRuns:
    """One side: what was asked for, and the runs that it names, as Results.sides has them."""

    text: str
    column: str
    rows: pd.DataFrame

    @property
    def runs(self) -> set[tuple[str, str]]:
        """(machine, run_id): asv's own points of a commit have the same id on every machine."""
        return set(zip(self.rows["machine"], self.rows["run_id"], strict=True))

    @property
    def is_level(self) -> bool:
        return self.text == LEVEL and self.rows.empty

    @property
    def called(self) -> str:
        """What a page calls it: `main (03845e94)`, for main moves on."""
        if self.is_level:
            return "the level of the runs before"
        commit = str(self.rows["commit"].iloc[0])
        is_name = self.column == "commit" and not commit.startswith(self.text)
        return f"{self.text} ({commit[:8]})" if is_name else self.text


def chosen(runs: pd.DataFrame, names: Sequence[str], resolve: Resolve) -> list[SideRuns]:
    """For each name the runs that may be judged; a run by its id may be scratch, too. A first name
    LEVEL stands for the runs before the second side, a commit or a run.

    Raises UsageError for a name that means nothing, and then NothingMeasured for one that no run
    has.
    """
    is_level = names[0] == LEVEL
    sides = [_side(runs, text, resolve) for text in (names[1:] if is_level else names)]
    for side in sides:
        if side.rows.empty:
            raise NothingMeasured(_no_run(runs, side, resolve))
        named = side.rows[side.column].nunique()
        if named > 1:
            raise UsageError(f"{side.text!r} names {named} of {side.column}: write more of it")
    if is_level:
        if sides[0].column not in ("commit", "run_id"):
            raise UsageError(f"{names[1]!r} has no runs before it: name a commit or a run, or two")
        sides.insert(0, SideRuns(text=LEVEL, column=sides[0].column, rows=runs.iloc[:0]))
    return sides


def _side(runs: pd.DataFrame, text: str, resolve: Resolve) -> SideRuns:
    prefix, colon, value = text.partition(":")
    if colon and prefix not in COLUMNS:
        raise UsageError(f"cannot read {text!r}: a side is a commit, or begins with {_PREFIXES}")
    column = COLUMNS[prefix] if colon else "commit"
    if colon and not value:
        raise UsageError(f"{text!r} names no {prefix}: write one after the colon")
    judged = _judged(runs, column)
    values = judged[column].astype("string")
    if column in ("run_id", "environment"):
        matches = values.str.startswith(value)
    elif colon:
        matches = values == value
        if column != "machine" and not matches.any():  # `2.13` is `2.13.0+cpu`, not `2.130`
            matches = values.str.startswith((f"{value}.", f"{value}+"))
    else:
        commit = resolve(text)
        matches = values.str.startswith(commit or text)
        is_stored = runs[column].astype("string").str.startswith(text).any()
        if commit is None and (len(text) < _MIN_DIGITS or not is_stored):
            raise UsageError(
                f"git knows no {text!r} here, and no stored run's commit begins so; name a branch, "
                f"a tag, a commit ({_MIN_DIGITS} digits or more), or {_PREFIXES}"
            )
    return SideRuns(text=text, column=column, rows=judged[matches.fillna(False).astype(bool)])


def _judged(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    return runs[runs["scratch"].isna()] if column != "run_id" else runs


def _no_run(runs: pd.DataFrame, side: SideRuns, resolve: Resolve) -> str:
    known = list(dict.fromkeys(_judged(runs, side.column)[side.column].dropna()))
    if side.column == "commit":
        newest = ", ".join(value[:8] for value in known[-5:]) or "none"
        commit = resolve(side.text) or side.text
        return (
            f"no run of {side.text!r} ({commit[:8]}) that may be judged is stored; `hostbench run` "
            "there measures it, and of hostbench's own commits `hostbench ab` both sides; the "
            f"newest that are: {newest}"
        )
    name = side.text.partition(":")[2]
    which = "run" if side.column == "run_id" else "run that may be judged"
    newest = f"the newest: {', '.join(known[-5:])}" if known else "none of those stored names one"
    return f"no {which} has {side.text!r}{did_you_mean(name, known)}; {newest}"


def check(first: SideRuns, second: SideRuns) -> None:
    """Raises UsageError for sides of two kinds, but a commit and a run, and for sides that share
    some of their runs. The same side twice may be compared."""
    kinds = {first.column, second.column}
    if len(kinds) > 1 and kinds != {"commit", "run_id"}:
        raise UsageError(
            f"{first.text!r} and {second.text!r} are of two kinds: name two commits or runs, or "
            "two of one kind, as two machines"
        )
    if first.runs != second.runs and (shared := first.runs & second.runs):
        raise UsageError(
            f"{first.text!r} and {second.text!r} share {len(shared)} runs: name sides that share "
            "none, or single runs by run:ID"
        )
