"""What was judged of a results folder: once, saved beside its table, made anew when what is stored
changes."""

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from msgspec import msgpack

from hostbench.core.files import locked
from hostbench.judge.events import Event, Judged, judge_grid
from hostbench.judge.grid import NEEDED, Along, HardwareOf, grids
from hostbench.judge.newest import newest
from hostbench.report.choice import Request, choose, events
from hostbench.report.judged import Explainer, hardware_of
from hostbench.report.judged_rows import series_rows
from hostbench.store.columns import STATUSES
from hostbench.store.results import Results

FOLDER = "judged"
FORMAT = 2
"""To be raised by hand when what is judged, or how, changes."""
_ALSO = ["ci_low_s", "ci_high_s", "value"]
_DAMAGE = (OSError, ValueError)
"""What reading a saved file raises that is damaged, or has gone."""


class JudgedTables(NamedTuple):
    """Events with their causes, the machines' own first, and a row for each series, with the
    columns of report.judged_rows."""

    events: list[Event]
    series: pd.DataFrame


def judged_tables(history: Results, axis: Along, root: Path) -> JudgedTables:
    """All series and events of a history, with git asked at `root` for what landed. One process at
    a time judges; a folder that cannot be written is judged each time."""
    folder = history.beside / FOLDER
    saved = folder / f"{axis}.{_digest(history)}"
    with contextlib.suppress(*_DAMAGE):
        return _read(saved)
    with locked(folder / f"lock-{axis}"):
        with contextlib.suppress(*_DAMAGE):
            return _read(saved)  # another process made it meanwhile
        tables = _judged(history, axis, root)
        with contextlib.suppress(OSError):
            _write(saved, tables)
    return tables


def _digest(history: Results) -> str:
    """Changes with what is stored."""
    return f"{FORMAT}-{history.state()}"


def _judged(history: Results, axis: Along, root: Path) -> JudgedTables:
    hardware, judged = hardware_of(history), list[Judged]()
    series = [series_rows([], pd.DataFrame(), "")]
    for machine in _largest_first(history):
        own, rows = _of_machine(history, machine, axis, hardware)
        judged += own
        series.append(rows)
    explainer = Explainer(history, judged, root, axis)
    found = events(choose(judged, Request.read([])))
    return JudgedTables(
        events=[explainer.explain(*pair) for pair in found],
        series=pd.concat([own for own in series if len(own)] or series, ignore_index=True),
    )


def _largest_first(history: Results) -> list[str]:
    """The machines, those with the most points first: what the others need fits into the memory
    that it has left."""
    counted = history.runs_counted()
    num = counted[[*STATUSES]].sum(axis=1).groupby(counted["machine"]).sum().to_dict()
    return sorted(history.machines(), key=lambda machine: num.get(machine, 0), reverse=True)


def _of_machine(
    history: Results, machine: str, axis: Along, hardware: HardwareOf
) -> tuple[list[Judged], pd.DataFrame]:
    rows = history.points(machine, NEEDED)
    last = newest(rows, axis)
    found = grids(rows, machine, axis, hardware)
    del rows
    more = history.points(machine, _ALSO).iloc[last.index]
    judged = [judge_grid(grid) for grid in found]
    return judged, series_rows(judged, last.join(more), machine)


def _read(saved: Path) -> JudgedTables:
    """Raises one of _DAMAGE."""
    events = msgpack.decode((saved / "events.msgpack").read_bytes(), type=list[Event])
    return JudgedTables(events, pd.read_parquet(saved / "series.parquet"))


def _write(saved: Path, tables: JudgedTables) -> None:
    """Written elsewhere and renamed, so that a reader sees all of it; older ones go."""
    axis = saved.stem
    unfinished = Path(tempfile.mkdtemp(prefix=f"{axis}.", dir=saved.parent))
    (unfinished / "events.msgpack").write_bytes(msgpack.encode(tables.events))
    tables.series.to_parquet(unfinished / "series.parquet", index=False)
    for older in saved.parent.glob(f"{axis}.*"):
        if older != unfinished:
            shutil.rmtree(older, ignore_errors=True)
    unfinished.rename(saved)
