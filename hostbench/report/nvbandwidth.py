"""`nvbandwidth -j` beside a run: what it measured, and our rate of the same copy.

Nothing is stored. The layout as in v0.8 (NVIDIA/nvbandwidth, json_output.cpp): `nvbandwidth` holds
`testcases`, each with `name`, `status`, `bandwidth_description` and `bandwidth_matrix`, whose cells
are text: a number or `N/A`. A test that fails is listed twice, first as running. A bidirectional
test between GPUs has the rows of three matrices one after another, the total last.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hostbench.core.case import as_typed
from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import read_stored
from hostbench.core.units import format_bytes
from hostbench.families import load
from hostbench.report.blocks import Column, Table


class Testcase(NamedTuple):
    """One test of nvbandwidth."""

    name: str
    unit: str
    """GB/s (10**9 bytes a second), or ns."""
    values: tuple[float, ...]
    """One for each GPU or pair of GPUs."""
    status: str
    """As nvbandwidth says it: passed, waived, error, ..."""


def read(path: Path) -> list[Testcase]:
    """Raises UsageError where the file cannot be read, DataError where nvbandwidth did not write
    it, or it ran no test."""
    try:
        found = json.loads(read_stored(path).decode())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        remedy = "write it again with `nvbandwidth -j > FILE`"
        raise DataError(f"{path} is no JSON, or was cut short ({error}): {remedy}") from error
    inner = found.get("nvbandwidth", found) if isinstance(found, dict) else None
    listed = inner.get("testcases") if isinstance(inner, dict) else None
    named = [t for t in listed or () if isinstance(t, dict) and isinstance(t.get("name"), str)]
    if not named:
        why = inner.get("error") if isinstance(inner, dict) else None
        raise DataError(f"{path} holds no test of nvbandwidth ({why or 'none ran'!s:.200})")
    ended = {test["name"]: test for test in named}  # of one that is listed again the last
    return [_test(test) for test in ended.values()]


def beside(tests: list[Testcase], rows: pd.DataFrame) -> Table:
    """A row for each test, with what the run has of the same copy at its largest size."""
    return Table(_COLUMNS, [_row(test, rows) for test in tests])


def _test(test: dict[str, Any]) -> Testcase:
    matrix = test.get("bandwidth_matrix")
    matrix = matrix if isinstance(matrix, list) and all(isinstance(r, list) for r in matrix) else []
    width = max(map(len, matrix), default=0)
    if width > 1 and len(matrix) > width and len(matrix) % width == 0:
        matrix = matrix[-width:]
    values = [_number(cell) for cells in matrix for cell in cells]
    return Testcase(
        name=test["name"],
        unit="ns" if "(ns)" in str(test.get("bandwidth_description")) else "GB/s",
        values=tuple(value for value in values if value is not None),
        status=str(test.get("error") or test.get("status") or "no figures").lower(),
    )


def _number(cell: Any) -> float | None:
    try:
        number = float(cell) if isinstance(cell, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < math.inf and not isinstance(cell, bool) else None


def _row(test: Testcase, rows: pd.DataFrame) -> dict[str, Any]:
    ours = _ours(test.name, rows)
    return {
        "test": test.name,
        "lowest": min(test.values, default=None),
        "highest": max(test.values, default=None),
        "unit": test.unit,
        "status": test.status,
        "gb_per_s": None if ours is None else float(ours["gb_per_s"]),
        "nbytes": None if ours is None else int(ours["nbytes"]),
        "case": None if ours is None else str(ours["case"]),
    }


def _figure(low: float | None, high: float | None, unit: str, status: str) -> str:
    if low is None or high is None:
        return status
    return f"{low:g}{f' to {high:g}' * (high != low)} {unit}"


def _own_rate(gb_per_s: float | None, nbytes: int | None) -> str:
    if gb_per_s is None or nbytes is None:
        return "-"
    return f"{gb_per_s:.4g} GB/s at {format_bytes(nbytes)}"


_COLUMNS = (
    Column(("test",), "nvbandwidth's test"),
    Column(("lowest", "highest", "unit", "status"), "its figure", _figure, right=True),
    Column(("gb_per_s", "nbytes"), "ours", _own_rate, right=True),
    Column(("case",), "case", lambda case: as_typed(case or ""), code=True),
)


def _ours(test: str, rows: pd.DataFrame) -> Any:
    """The row of the same copy with the most bytes; None where the run has none."""
    rows = rows[(rows["status"] == "ok") & (rows["device"] == "cuda") & rows["gb_per_s"].notna()]
    for work in load().values():
        if test in work.nvbandwidth:
            own = rows[rows["workload"] == work.name]
            for axis, value in work.nvbandwidth[test].items():
                own = own[own[axis] == value] if axis in own else own.iloc[:0]
            return own.sort_values("nbytes").iloc[-1] if len(own) else None
    return None
