"""Judge a results folder once, and keep what was found beside its table. One process at a time does
it. It may be killed at any time: the machines that it has finished are taken over by the next."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hostbench.judge.events import Judged, judge_grid
from hostbench.judge.grid import NEEDED, Along, HardwareOf, grids
from hostbench.judge.newest import newest
from hostbench.report import judged_files
from hostbench.report.choice import Request, choose, events
from hostbench.report.judged import Explainer, hardware_of, judge_history
from hostbench.report.judged_rows import event_rows, series_rows
from hostbench.store import kept
from hostbench.store.columns import STATUSES
from hostbench.store.history import History
from hostbench.store.table.files import code_of, digest_of

FOLDER, SERIES, EVENTS = "judged", "series", "events"
_GRIDS = "grids.msgpack"
_ALSO = ["ci_low_s", "ci_high_s", "value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSets:
    """What is kept of a history as it is now, and where."""

    folder: Path
    axis: Along
    machines: dict[str, Path]
    """Machine -> its own set."""
    whole: Path
    """The set with everything."""

    @classmethod
    def of(cls, history: History, axis: Along) -> "KeptSets":
        hardware = hardware_of(history)
        states = {name: _state(history, name, hardware) for name in history.machines()}
        folder = history.beside / FOLDER
        return cls(
            folder=folder,
            axis=axis,
            machines={
                name: folder / f"{axis}-machine-{_code()}-{digest_of([name, state])}"
                for name, state in states.items()
            },
            whole=folder / f"{axis}-all-{_code()}-{digest_of(states)}",
        )


def _state(history: History, machine: str, hardware: HardwareOf) -> str:
    runs = sorted(history.run_ids(machine) & hardware.keys())
    return digest_of([history.state(machine), [[run, dict(hardware[run])] for run in runs]])


def _code() -> str:
    """Changes with the code that judges and explains."""
    code = code_of("core", "facts", "judge", "report", "store", "vcs")
    return hashlib.sha256(code).hexdigest()[:8]


def judge_kept(history: History, own: KeptSets) -> tuple[list[Judged], pd.DataFrame]:
    """Everything, judged, as report.judged.judge_history does it, and the rows of the series. A
    machine whose readings are those that it was judged by is taken over; the others are kept.
    Raises OSError where they cannot be."""
    hardware = hardware_of(history)
    made: dict[str, list[Judged]] = {}
    rows = {"": series_rows([], pd.DataFrame(), "")}
    for machine in _largest_first(history, own):
        place = own.machines[machine]
        try:
            found = judged_files.from_bytes((place / _GRIDS).read_bytes())
            series = kept.read(place, SERIES)
        except (*kept.DAMAGE, *judged_files.DAMAGE):
            found, series = _judge(history, machine, own.axis, hardware)
            kept.write(place, {_GRIDS: judged_files.to_bytes(found), SERIES: series})
        made[machine], rows[machine] = found, series
    of_each = [rows[machine] for machine in ("", *own.machines)]
    every = pd.concat([one for one in of_each if len(one)] or of_each, ignore_index=True)
    return [one for machine in own.machines for one in made[machine]], every


def _largest_first(history: History, own: KeptSets) -> list[str]:
    """Its machines, those with the most points first: what the others need fits into the memory
    that it has left."""
    counted = history.runs_counted()
    num = counted[[*STATUSES]].sum(axis=1).groupby(counted["machine"]).sum().to_dict()
    return sorted(own.machines, key=lambda machine: num.get(machine, 0), reverse=True)


def restored(own: KeptSets) -> list[Judged]:
    """What was judged of every machine. Raises one of judged_files.DAMAGE."""
    files = (place / _GRIDS for place in own.machines.values())
    return [one for path in files for one in judged_files.from_bytes(path.read_bytes())]


def judged_now(history: History, axis: Along) -> list[Judged]:
    """As report.judged.judge_history; taken over where every machine is kept as it is now."""
    try:
        return restored(KeptSets.of(history, axis))
    except judged_files.DAMAGE:
        return judge_history(history, axis)


def _judge(
    history: History, machine: str, axis: Along, hardware: HardwareOf
) -> tuple[list[Judged], pd.DataFrame]:
    rows = history.points(machine, NEEDED)
    last = newest(rows, axis)
    found = grids(rows, machine, axis, hardware)
    del rows
    more = history.points(machine, _ALSO).iloc[last.index]
    judged = [judge_grid(grid) for grid in found]
    return judged, series_rows(judged, last.join(more), machine)


def ensured(history: History, axis: Along, root: Path) -> KeptSets:
    """What is kept, once it is made: what has changed is judged, everything explained. git is asked
    at `root` for what landed. Raises OSError where it cannot be written."""
    own = KeptSets.of(history, axis)
    with kept.lock(own.folder / f"lock-{axis}"):
        if not own.whole.is_dir():
            judged, series = judge_kept(history, own)
            explainer = Explainer(history, judged, root, axis)
            found = events(choose(judged, Request.read([])))
            causes = [(event, explainer.cause(event, of)) for event, of in found]
            kept.write(own.whole, {SERIES: series, EVENTS: event_rows(causes)})
            stay = {own.whole, *own.machines.values()}
            kept.forget(set(kept.found(own.folder, f"{axis}-")) - stay)
    return own
