"""Reading the JSON that `nvbandwidth -j` prints, with its known oddities. Pure: text in, rows out.

Seen in the source of v0.8 (NVIDIA/nvbandwidth, json_output.cpp): one object `nvbandwidth` with
`version`, `Driver Version`, `GPU Device list`, `error`, `warning` and `testcases`; a test case has
`name`, `status`, `bandwidth_description` and `bandwidth_matrix`, whose cells are text: a number or
`N/A`. A test that fails is listed twice, first as running. A bidirectional test between GPUs has
the rows of three matrices one after another, the total last. Neither the buffer's size nor samples
are told. Numbers as cells, a missing outer object and a `bufferSize` in MiB are read too.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hostbench.core import files
from hostbench.core.errors import DataError
from hostbench.core.units import MIB

TOOL = "nvbandwidth"
_REMEDY = "write it again with `nvbandwidth -j > FILE`"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvbandwidthPoint:
    """One cell of a test's matrix, or one test without a number."""

    test: str
    status: str
    """ok, skipped, failed."""
    reason: str | None = None
    value: float | None = None
    unit: str = "GB/s"
    """GB/s (10**9 bytes per second) or ns, as the test's description says."""
    row: int | None = None
    column: int | None = None
    """A GPU; `row` is None where the row is the CPU."""


def content_of(data: bytes, name: str) -> dict[str, Any]:
    """The object that nvbandwidth printed. Raises DataError that names the file and the remedy."""
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        begun = data.lstrip()[:1] == b"{"
        kind = "is cut short or damaged" if begun else "is no JSON"
        raise DataError(f"{name} {kind} ({error}): {_REMEDY}") from error
    inner = inner_of(found)
    if inner is None:
        raise DataError(f"{name} is JSON, but not nvbandwidth's (no test cases): {_REMEDY}")
    try:
        num_points = sum(1 for _ in points(inner))
    except ValueError as error:
        raise DataError(f"{name} has {error}") from error
    if not num_points:
        why = inner.get("error") or "it ran no test"
        raise DataError(f"{name} holds no result ({why!s:.200}): nothing to import")
    content: dict[str, Any] = found
    return content


def inner_of(found: Any) -> dict[str, Any] | None:
    """The object that holds the test cases, or the error that came in their place."""
    if not isinstance(found, dict):
        return None
    inner = found.get(TOOL, found)
    if not isinstance(inner, dict):
        return None
    told = "error" in inner and TOOL in found
    return inner if isinstance(inner.get("testcases"), list) or told else None


def buffer_bytes(inner: Mapping[str, Any]) -> int | None:
    """The size of one copy where the file tells it (v0.8 does not)."""
    size = _number(inner.get("bufferSize"))
    return None if size is None or size <= 0 else int(size * MIB)


def points(inner: Mapping[str, Any]) -> Iterator[NvbandwidthPoint]:
    """Every figure of the file, in its order. Raises ValueError where those are too many."""
    for number, point in enumerate(_points(inner)):
        if number == files.MAX_POINTS:
            raise ValueError(
                f"more than {number:,} figures, the most that is read: import fewer tests at a time"
            )
        yield point


def _points(inner: Mapping[str, Any]) -> Iterator[NvbandwidthPoint]:
    tests = inner.get("testcases")
    named = [
        one
        for one in (tests if isinstance(tests, list) else [])
        if isinstance(one, dict) and isinstance(one.get("name"), str)
    ]
    ended = {one["name"] for one in named if _status(one) != "running"}
    for one in named:
        if _status(one) == "running" and one["name"] in ended:
            continue  # listed again with how it ended
        yield from _points_of(one)


def _points_of(test: Mapping[str, Any]) -> Iterator[NvbandwidthPoint]:
    name, status = test["name"], _status(test)
    matrix = _last_matrix(test.get("bandwidth_matrix"))
    failure = test.get("error")
    if status == "waived":
        yield NvbandwidthPoint(
            test=name, status="skipped", reason="nvbandwidth waived it on this machine"
        )
    elif status not in ("passed", "") or failure or not matrix:
        why = failure or (f"status {test.get('status')!s:.40}" if status else "no figures")
        yield NvbandwidthPoint(test=name, status="failed", reason=f"nvbandwidth: {why!s:.200}")
    else:
        yield from _cells(name, matrix, str(test.get("bandwidth_description", "")))


def _cells(test: str, matrix: list[list[Any]], description: str) -> Iterator[NvbandwidthPoint]:
    unit = "ns" if "(ns)" in description else "GB/s"
    between = len(matrix) > 1 or "GPU(row)" in description
    for place, cells in enumerate(matrix):
        row = place if between else None
        for column, cell in enumerate(cells):
            number = _number(cell)
            if number is not None and number > 0:
                yield NvbandwidthPoint(
                    test=test, status="ok", value=number, unit=unit, row=row, column=column
                )
            elif row != column:  # a GPU with itself is no case
                why = f"nvbandwidth gives {cell!s:.40}"
                yield NvbandwidthPoint(
                    test=test, status="skipped", reason=why, unit=unit, row=row, column=column
                )


def _last_matrix(found: Any) -> list[list[Any]]:
    """The rows; of several square matrices one after another the last, which is the total."""
    if not isinstance(found, list) or not all(isinstance(row, list) for row in found):
        return []
    width = max(map(len, found), default=0)
    if width > 1 and len(found) > width and len(found) % width == 0:
        return found[-width:]
    return found


def _status(test: Mapping[str, Any]) -> str:
    return str(test.get("status") or "").lower()


def _number(cell: Any) -> float | None:
    """A number, also one written as text; None for `N/A` and anything else."""
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        return None
    try:
        number = float(cell)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
