"""The answer in plain words: each piece of the usual advice with this machine's figure.

Pure functions from the rows of one run to sentences. What cannot be seen on the machine is said to
be so, with the reason; a number of the cpu device is always named as one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hostbench import units

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the host/device paradigm with what this run says about it."""

    family: str
    question: str
    text: str


def answers(frame: pd.DataFrame) -> list[Answer]:
    """Answers for one run's rows of the tidy frame; families without rows give none."""
    found = []
    for family, make in _FAMILIES.items():
        rows = frame[frame["family"] == family]
        if len(rows):
            found += [Answer(family=family, question=q, text=text) for q, text in make(rows)]
    return found


_DIRECTIONS = {
    "transfer.host_to_device": "host to device",
    "transfer.device_to_host": "device to host",
}


def _transfer(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    for workload, direction in _DIRECTIONS.items():
        one_way = _largest(rows[rows["workload"] == workload])
        if len(one_way):
            yield f"How fast is a copy, {direction}?", _rates(one_way)
    largest = _largest(rows)
    for memory in ("pageable", "pinned"):
        chosen = largest[(largest["memory"] == memory) & ~largest["blocking"].astype(bool)]
        if len(chosen):
            question = f"Is non_blocking=True from {memory} memory asynchronous?"
            yield question, _asynchronous(chosen)
    yield "Does pinned memory pay?", _pinned(largest)


def _rates(rows: pd.DataFrame) -> str:
    """Every measured combination with its factor over the sync pageable one."""
    measured = _ok(rows)
    if measured.empty:
        return _unseen(rows)
    base = _seconds(measured, memory="pageable", blocking=True)
    parts = []
    for row in _dicts(measured.sort_values("gb_per_s")):
        text = f"{_mode(row)} {units.format_rate(row['gb_per_s'])}"
        if base and row["seconds"] != base:
            text += f" ({units.format_factor(base / row['seconds'])})"
        parts.append(text)
    return f"{_size(measured)}: " + ", ".join(parts) + _label(measured)


def _mode(row: Row) -> str:
    return f"{'sync' if row['blocking'] else 'async'} {row['memory']}"


def _asynchronous(rows: pd.DataFrame) -> str:
    measured = _ok(rows)
    if measured.empty:
        return _unseen(rows)
    parts = []
    for row in _dicts(measured):
        direction = _DIRECTIONS.get(row["workload"], row["workload"])
        share = 1 - row["call_s"] / row["seconds"]
        call, whole = units.format_seconds(row["call_s"]), units.format_seconds(row["seconds"])
        verb = "yes, the call returns after" if share > 0.5 else "no, the call itself takes"
        parts.append(f"{direction}: {verb} {call} of {whole} (asyncness {share:.2f})")
    return f"{_size(measured)}, " + "; ".join(parts) + _label(measured)


def _pinned(rows: pd.DataFrame) -> str:
    h2d = rows[rows["workload"] == "transfer.host_to_device"]
    pinned = _ok(h2d[h2d["memory"] == "pinned"])
    if pinned.empty:
        return _unseen(h2d[h2d["memory"] == "pinned"])
    base = _seconds(_ok(h2d), memory="pageable", blocking=True)
    if not base:
        return "cannot be said: the pageable copy has no number"
    best = float(pinned["seconds"].min())
    verb = "yes" if best < base else "no"
    return (
        f"{verb}: {_size(pinned)} host to device take {units.format_seconds(best)} from pinned "
        f"memory, {units.format_seconds(base)} from pageable "
        f"({units.format_factor(base / best)}){_label(pinned)}"
    )


def _allocation(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    largest = _largest(rows)
    for fill in dict.fromkeys(largest["fill"]):
        question = f"Create {fill} on the CPU and move it, or directly on the device?"
        yield question, _two_places(largest[largest["fill"] == fill])


def _two_places(rows: pd.DataFrame) -> str:
    measured = _ok(rows)
    moved = _seconds(measured, place="cpu_then_move")
    direct = _seconds(measured, place="direct")
    if not moved or not direct:
        return _unseen(rows)
    better = "direct is faster" if direct < moved else "moving is faster"
    factor = units.format_factor(max(moved, direct) / min(moved, direct))
    return (
        f"{_size(measured)}: moved {units.format_seconds(moved)}, direct "
        f"{units.format_seconds(direct)}: {better}, {factor}{_label(measured)}"
    )


_FAMILIES: dict[str, Callable[[pd.DataFrame], Iterator[tuple[str, str]]]] = {
    "transfer": _transfer,
    "allocation": _allocation,
}


def _dicts(rows: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]


def _ok(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.loc[rows["status"] == "ok"]


def _largest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the largest size that has a number, or of the largest there is."""
    measured = _ok(rows)
    source = measured if len(measured) else rows
    largest: pd.DataFrame = rows.loc[rows["nbytes"] == source["nbytes"].max()]
    return largest


def _seconds(rows: pd.DataFrame, **axes: str | bool) -> float | None:
    for name, value in axes.items():
        rows = rows[rows[name] == value]
    return float(rows["seconds"].iloc[0]) if len(rows) else None


def _size(rows: pd.DataFrame) -> str:
    return units.format_bytes(int(rows["nbytes"].iloc[0]))


def _label(rows: pd.DataFrame) -> str:
    """Numbers without an accelerator say so each time."""
    return " [cpu device, no GPU]" if set(rows["device"]) == {"cpu"} else ""


def _unseen(rows: pd.DataFrame) -> str:
    """Why there is no number: the reasons that were recorded, each once."""
    reasons = [str(reason) for reason in dict.fromkeys(rows["reason"].dropna())]
    failed = "failed" in set(rows["status"])
    text = "; ".join(reasons) or "this run did not measure it"
    return f"{'failed' if failed else 'cannot be seen here'}: {text}"
