"""`nvbandwidth -j` beside a run: what it measured, and our rate of the same copy.

Nothing is stored. The layout as in v0.8 (NVIDIA/nvbandwidth, json_output.cpp): `nvbandwidth` holds
`testcases`, each with `name`, `status`, `bandwidth_description` and `bandwidth_matrix`, whose cells
are text: a number or `N/A`. A test that fails is listed twice, first as running. A bidirectional
test between GPUs has the rows of three matrices one after another, the total last.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from hostbench.core.case import as_typed
from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import read_stored
from hostbench.core.units import format_bytes
from hostbench.families import load
from hostbench.report.blocks import Column, Table
from hostbench.report.rows import rows_of, valid, where


class Testcase(msgspec.Struct, frozen=True):
    """One test as nvbandwidth wrote it."""

    name: str
    status: str = "no figures"
    error: str | None = None
    bandwidth_description: str = ""
    bandwidth_matrix: list[list[str | float | None]] = []

    @property
    def values(self) -> list[float]:
        """One for each GPU or pair of GPUs."""
        matrix = self.bandwidth_matrix
        width = max(map(len, matrix), default=0)
        if width > 1 and len(matrix) > width and len(matrix) % width == 0:
            matrix = matrix[-width:]
        return [number for cells in matrix for cell in cells if (number := _number(cell))]


class _Tests(msgspec.Struct, frozen=True):
    testcases: list[Testcase] = []
    error: str = "none ran"


def read(path: Path) -> list[Testcase]:
    """Raises UsageError where the file cannot be read, DataError where nvbandwidth did not write
    it, or it ran no test."""
    try:
        tests = msgspec.json.decode(read_stored(path), type=dict[str, _Tests])["nvbandwidth"]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, KeyError, RecursionError) as error:
        remedy = "write it again with `nvbandwidth -j > FILE`"
        raise DataError(f"{path} is none of its files, or cut short ({error}): {remedy}") from error
    if not tests.testcases:
        raise DataError(f"{path} holds no test of nvbandwidth ({tests.error:.200})")
    return [*{test.name: test for test in tests.testcases}.values()]  # listed again: the last


def beside(tests: Sequence[Testcase], frame: pd.DataFrame) -> Table:
    """A row for each test, with what the run has of the same copy at its largest size."""
    rows = [row for row in valid(rows_of(frame)) if row.device == "cuda" and row.gb_per_s]
    works = load().values()

    def row_of(test: Testcase) -> dict[str, Any]:
        same = [
            row
            for work in works
            if test.name in work.nvbandwidth
            for row in where(rows, work.name, **work.nvbandwidth[test.name])
        ]
        ours = max(same, key=lambda row: row.nbytes or 0, default=None)
        return {
            "test": test.name,
            "lowest": min(test.values, default=None),
            "highest": max(test.values, default=None),
            "unit": "ns" if "(ns)" in test.bandwidth_description else "GB/s",
            "status": (test.error or test.status).lower(),
            "gb_per_s": ours and ours.gb_per_s,
            "nbytes": ours and int(ours.nbytes or 0),
            "case": ours and ours.case,
        }

    return Table(_COLUMNS, list(map(row_of, tests)))


def _number(cell: str | float | None) -> float | None:
    try:
        number = float(cell or 0)
    except ValueError:
        return None
    return number if 0 < number < math.inf else None


def _figure(low: float | None, high: float | None, unit: str, status: str) -> str:
    if low is None or high is None:
        return status
    return f"{low:g}{f' to {high:g}' * (high != low)} {unit}"


def _own_rate(gb_per_s: float | None, nbytes: int | None) -> str:
    return "-" if gb_per_s is None else f"{gb_per_s:.4g} GB/s at {format_bytes(nbytes or 0)}"


_COLUMNS = (
    Column(("test",), "nvbandwidth's test"),
    Column(("lowest", "highest", "unit", "status"), "its figure", _figure, right=True),
    Column(("gb_per_s", "nbytes"), "ours", _own_rate, right=True),
    Column(("case",), "case", lambda case: as_typed(case or ""), code=True),
)
