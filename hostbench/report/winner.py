"""Whether one time is shorter than another: only where their intervals do not touch."""

from collections.abc import Sequence

from hostbench.core.latency import SAME
from hostbench.report.rows import Row

NO_DIFFERENCE = "no difference seen"


def has_interval(row: Row) -> bool:
    return bool(row["ci_low_s"] <= row["ci_high_s"])  # False for NaN


def differ(fast: Row, slow: Row) -> bool:
    """Whether the 99 % intervals do not touch; without both, whether `slow` is over SAME
    longer."""
    if has_interval(fast) and has_interval(slow):
        return bool(fast["ci_high_s"] < slow["ci_low_s"])
    return over_same(fast, slow)


def over_same(fast: Row, slow: Row) -> bool:
    return bool(slow["seconds"] > (1 + SAME) * fast["seconds"])


def no_interval(rows: Sequence[Row], form: str = " (no interval)") -> str:
    """That, where a comparison of these had to do without."""
    return "" if all(map(has_interval, rows)) else form


def fastest(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Rows from the fastest on: `events is fastest`, or those that cannot be told from it."""
    if len(rows) == 1:
        return f"only {names[0]} has a number"
    note = no_interval(rows)
    tied = [name for row, name in zip(rows, names, strict=True) if not differ(rows[0], row)]
    if len(tied) == 1:
        return f"{tied[0]} is fastest{note}"
    if len(tied) == len(rows):
        return f"{NO_DIFFERENCE}{note}"
    return f"{NO_DIFFERENCE} between {' and '.join(tied)}, the fastest{note}"
