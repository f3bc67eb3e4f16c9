"""The answers of the family `allocation`: on the CPU and moved, or directly on the device."""

from collections.abc import Iterator

import pandas as pd

from hostbench.core import units
from hostbench.report.rows import label, largest, ok, seconds, size, unseen


def allocation(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    biggest = largest(rows)
    for fill in dict.fromkeys(biggest["fill"]):
        question = f"Create {fill} on the CPU and move it, or directly on the device?"
        yield question, _two_places(biggest[biggest["fill"] == fill])


def _two_places(rows: pd.DataFrame) -> str:
    measured = ok(rows)
    moved = seconds(measured, place="cpu_then_move")
    direct = seconds(measured, place="direct")
    if not moved or not direct:
        return unseen(rows)
    times = f"moved {units.format_seconds(moved)}, direct {units.format_seconds(direct)}"
    if set(measured["fill"]) == {"empty"}:
        return f"{size(measured)}: {times}: nothing is enqueued or touched{label(measured)}"
    better = "direct is faster" if direct < moved else "moving is faster"
    factor = units.format_factor(max(moved, direct) / min(moved, direct))
    return f"{size(measured)}: {times}: {better}, {factor}{label(measured)}"
