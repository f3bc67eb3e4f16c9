"""What was judged of a results folder, as frames that a page draws: judged once, saved beside its
table, made anew when the readings or the code that judges change."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hostbench.core.clock import today
from hostbench.core.files import locked
from hostbench.judge.events import Judged, judge_grid
from hostbench.judge.grid import NEEDED, Along, HardwareOf, grids
from hostbench.judge.newest import newest
from hostbench.report.choice import Request, choose, events
from hostbench.report.event_words import entry_in_words
from hostbench.report.judged import RECENT, Explainer, hardware_of
from hostbench.report.judged_rows import event_rows, series_rows
from hostbench.store.columns import STATUSES
from hostbench.store.results import Results
from hostbench.store.triage import EventName, Triage, entry_for

FOLDER = "judged"
FORMAT = 1
"""To be raised by hand when what is judged, or how, changes."""
_ALSO = ["ci_low_s", "ci_high_s", "value"]
_DAMAGE = (OSError, ValueError)
"""What reading a saved file raises that is damaged, or has gone."""
_OF_TRIAGE = ("id", "commit", "direction", "effect", "near")


class JudgedTables(NamedTuple):
    """The columns are those of report.judged_rows."""

    events: pd.DataFrame
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


def with_triage(events: pd.DataFrame, triage: Triage) -> pd.DataFrame:
    """As of today: `recent` (begun within the newest RECENT runs), `fails`, and what somebody has
    said: `triage` (its state), `triage_said` (in words), `lapsed` (why it counts no more)."""
    rows = [_of_triage(triage, *row) for row in events[list(_OF_TRIAGE)].itertuples(index=False)]
    entries = pd.DataFrame(rows, columns=["triage", "triage_said", "lapsed"], dtype=object)
    recent = events["from_end"] <= RECENT
    stayed = (events["status"] == "confirmed") & (events["effect"] > 0) & recent
    counts = entries["triage"].notna() & (entries["lapsed"] == "")
    return events.assign(recent=recent, fails=stayed & ~counts, **entries)


def _of_triage(
    triage: Triage, id: str, commit: str, direction: str, effect: float, near: Iterable[str]
) -> tuple[str | None, str | None, str]:
    event = EventName(
        id=id, commit=commit, direction=direction, effect=effect, near=frozenset(near)
    )
    entry = entry_for(triage.entries.values(), event, today())
    if entry is None:
        return None, None, ""
    return entry.state, entry_in_words(entry), entry.lapsed(event, today())


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
        events=event_rows((one, explainer.cause(one, own)) for one, own in found),
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
    events, series = (pd.read_parquet(saved / f"{name}.parquet") for name in JudgedTables._fields)
    return JudgedTables(events, series)


def _write(saved: Path, tables: JudgedTables) -> None:
    """Written elsewhere and renamed, so that a reader sees all of it; older ones go."""
    axis = saved.stem
    unfinished = Path(tempfile.mkdtemp(prefix=f"{axis}.", dir=saved.parent))
    for name, rows in zip(JudgedTables._fields, tables, strict=True):
        rows.to_parquet(unfinished / f"{name}.parquet", index=False)
    for older in saved.parent.glob(f"{axis}.*"):
        if older != unfinished:
            shutil.rmtree(older, ignore_errors=True)
    unfinished.rename(saved)
