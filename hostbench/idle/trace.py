"""What counts of a trace, as tables with named columns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hostbench.core.units import number_of
from hostbench.device.chrome import EventArgs, TraceEvent, copy_way, is_collective, read_chrome
from hostbench.idle.intervals import Intervals, union
from hostbench.idle.lines import BORDER, MARK, MARK_FIELDS

NONE = -1
"""In a column of whole numbers: there is none."""
KERNEL, COLLECTIVE, COPY, INSIDE = "kernel", "collective", "copy", "inside"
"""What a device did: a kernel, one that talks to other devices, a copy from or to elsewhere, a
memset or a copy inside it."""
_CALL, _OP, _NOTE = "call", "op", "note"
_KINDS = {
    **dict.fromkeys(("kernel", "Kernel"), KERNEL),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), COPY),
    **dict.fromkeys(("gpu_memset", "Memset"), INSIDE),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), _CALL),
    **dict.fromkeys(("cpu_op", "Operator"), _OP),
    "user_annotation": _NOTE,
}
"""By category; those in capitals are of 2021."""
_COLUMNS = {
    **dict.fromkeys(("kind", "name", "thread"), "str"),
    **dict.fromkeys(("start_us", "length_us"), "float"),
    **dict.fromkeys(("device", "nbytes", "correlation"), "int64"),
}
LINE = ("file", "line", "function")
"""The columns of a line of a user's code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One process's trace: tables of one row an event. Times are seconds from its first event."""

    file: str
    rank: int | None
    warnings: tuple[str, ...]
    work: pd.DataFrame
    """What devices did: start_s, end_s, kind (as above), name (of a copy its way), device, nbytes;
    call, the row of `calls` that launched it, or NONE."""
    calls: pd.DataFrame
    """The host's calls of CUDA's runtime and driver: start_s, end_s, name, thread."""
    ops: pd.DataFrame
    """Operations of torch: start_s, end_s, name, thread."""
    marks: pd.DataFrame
    """What hostbench writes behind a wait: start_s, thread, file, line, function; call, what would
    wait if there were a GPU, else empty."""
    steps: Intervals
    """The annotations ProfilerStep#N, or what lies between two of our own marks; they may touch."""
    loads: Intervals
    """In which the host waited for the next batch of a DataLoader."""


def read_trace(path: Path) -> Trace:
    """One file. Raises UsageError, DataError."""
    chrome = read_chrome(path)
    counted = [event for event in chrome.events if event.cat in _KINDS and event.ph in ("X", "B")]
    whole = [event for event in counted if event.ph == "X" and event.ts is not None]
    table = pd.DataFrame.from_records(map(_row, whole), columns=list(_COLUMNS)).astype(_COLUMNS)
    # Whole nanoseconds, so that what touches does so exactly.
    start_ns = ((table["start_us"] - table["start_us"].iloc[:1].sum()) * 1e3).round()
    table["start_s"] = start_ns / 1e9
    table["end_s"] = (start_ns + (table["length_us"].clip(lower=0) * 1e3).round()) / 1e9
    kind, name = table["kind"], table["name"]
    is_step, is_mark = name.str.startswith("ProfilerStep#"), name.str.startswith(MARK)
    is_load = name.str.startswith("enumerate(DataLoader)") & kind.isin((_OP, _NOTE))
    calls = table[kind == _CALL].reset_index(drop=True)
    work = table[kind.isin((KERNEL, COLLECTIVE, COPY, INSIDE))]
    caller = {
        number: row for row, number in reversed([*calls["correlation"].items()]) if number > 0
    }
    marks = table[is_mark].join(name[is_mark].str.extract(MARK_FIELDS)).dropna(subset=["file"])
    num_left_out = chrome.num_left_out + len(counted) - len(whole)
    warning = (
        f"{path.name}: {number_of(num_left_out, 'event')} left out: times or numbers that are "
        "none, or a beginning and an end apart (ph B)"
    )
    return Trace(
        file=path.name,
        rank=chrome.rank,
        warnings=(warning,) if num_left_out else (),
        work=work.assign(call=work["correlation"].map(caller).fillna(NONE).astype("int64")),
        calls=calls,
        ops=table[(kind == _OP) & ~is_step & ~is_mark & (name != BORDER)],
        marks=marks.astype({"line": int}),
        steps=_steps(table[is_step], table.loc[name == BORDER, "start_s"]),
        loads=union(table[is_load])[0],
    )


def _row(event: TraceEvent) -> tuple[Any, ...]:
    """As _COLUMNS names it."""
    kind, name = _KINDS[str(event.cat)], str(event.name)
    args = event.args or EventArgs()
    if kind == COPY:
        name = copy_way(name)
        kind = INSIDE if name == "D2D" else COPY
    elif kind == KERNEL and is_collective(name):
        kind = COLLECTIVE
    device = args.device if args.device is not None else event.pid
    return (
        kind,
        name,
        f"{event.pid}/{event.tid}",
        event.ts,
        event.dur or 0.0,
        device if isinstance(device, int) else 0,
        args.nbytes or 0,
        args.correlation or 0,
    )


def _steps(annotations: pd.DataFrame, borders: pd.Series) -> Intervals:
    """Of annotations that bear one name, on two threads, one step is made."""
    if len(borders) > 1:
        starts = borders.sort_values().to_numpy()
        return Intervals(starts[:-1], starts[1:])
    steps = annotations.groupby("name").agg({"start_s": "min", "end_s": "max"})
    steps = steps.sort_values("start_s")
    return Intervals(steps["start_s"].to_numpy(), steps["end_s"].to_numpy())
