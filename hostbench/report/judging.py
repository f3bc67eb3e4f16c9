"""Judge a results folder once, and keep what was found beside its table.

    python -m hostbench.report.judging RESULTS AXIS FOLDER

does so in a process of its own, which says how far it is in a file of FOLDER. One process at a time
does it. It may be killed at any time: the machines that it has finished are taken over by the next.
"""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from msgspec import MsgspecError, Struct, json

from hostbench.core import asv_config
from hostbench.core.errors import UsageError
from hostbench.core.files import is_url, write_atomic
from hostbench.judge.causes import Cause
from hostbench.judge.events import DetectedEvent, Judged, judge_grid
from hostbench.judge.grid import NEEDED, Along, HardwareOf, grids
from hostbench.judge.newest import newest
from hostbench.report import judged_files
from hostbench.report.choice import Request, choose, events
from hostbench.report.judged import Explainer, hardware_of, judge_history
from hostbench.report.judged_rows import event_rows, machine_rows, series_rows
from hostbench.store import kept
from hostbench.store.columns import STATUSES
from hostbench.store.history import History
from hostbench.store.table.files import code_of, digest_of

Say = Callable[[str], None]
FOLDER, SERIES, EVENTS, MACHINES = "judged", "series", "events", "machines"
_GRIDS = "grids.msgpack"
_ALSO = ["ci_low_s", "ci_high_s", "value"]
_OFTEN_S = 0.25
"""The time between two notes of how far it is."""
_AT_ONCE = 1000
"""Events between two of them."""


class Progress(Struct, frozen=True):
    """How far a process has come, or why it ended."""

    said: str
    error: str = ""


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
    def of(cls, history: History, axis: Along, folder: Path | None = None) -> "KeptSets":
        """In a folder, beside the table unless one is given."""
        hardware = hardware_of(history)
        states = {name: _state(history, name, hardware) for name in history.machines()}
        folder = folder or history.beside / FOLDER
        return cls(
            folder=folder,
            axis=axis,
            machines={
                name: folder / f"{axis}-machine-{_code()}-{digest_of([name, state])}"
                for name, state in states.items()
            },
            whole=folder / f"{axis}-all-{_code()}-{digest_of(states)}",
        )

    def before(self) -> list[Path]:
        """Sets with everything that the same code made, the newest first."""
        return kept.found(self.folder, f"{self.axis}-all-{_code()}-")

    @property
    def progress(self) -> Path:
        return self.folder / f"progress-{self.axis}.json"


def _state(history: History, machine: str, hardware: HardwareOf) -> str:
    runs = sorted(history.run_ids(machine) & hardware.keys())
    return digest_of([history.state(machine), [[run, dict(hardware[run])] for run in runs]])


def _code() -> str:
    """Changes with the code that judges and explains."""
    code = code_of("core", "facts", "judge", "report", "store", "vcs")
    return hashlib.sha256(code).hexdigest()[:8]


def judge_kept(history: History, own: KeptSets, say: Say) -> tuple[list[Judged], pd.DataFrame]:
    """Everything, judged, as report.judged.judge_history does it, and the rows of the series. A
    machine whose readings are those that it was judged by is taken over; the others are kept.
    Raises OSError where they cannot be."""
    hardware = hardware_of(history)
    made: dict[str, list[Judged]] = {}
    rows = {"": series_rows([], pd.DataFrame(), "")}
    for number, machine in enumerate(_largest_first(history, own), 1):
        say(f"judging {machine}: machine {number} of {len(own.machines)}")
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


def make(history: History, own: KeptSets, root: Path, say: Say) -> None:
    """Judge what has changed, explain everything, keep it. git is asked at `root` for what landed.
    Raises OSError where it cannot be written."""
    judged, series = judge_kept(history, own, say)
    explainer = Explainer(history, judged, root, own.axis)
    found = events(choose(judged, Request.read([])))
    tables = {
        SERIES: series,
        MACHINES: machine_rows(judged),
        EVENTS: event_rows(_explained(explainer, found, say)),
    }
    kept.write(own.whole, tables)
    stay = {own.whole, *own.before()[:2], *own.machines.values()}
    kept.forget(set(kept.found(own.folder, f"{own.axis}-")) - stay)


def ensured(history: History, axis: Along, root: Path) -> KeptSets:
    """What is kept, once it is made. Raises OSError where it cannot be written."""
    own = KeptSets.of(history, axis)
    with kept.lock(own.folder / f"lock-{axis}"):
        if not own.whole.is_dir():
            make(history, own, root, lambda _: None)
    return own


def _explained(
    explainer: Explainer, found: Sequence[tuple[DetectedEvent, Judged]], say: Say
) -> Iterator[tuple[DetectedEvent, Cause]]:
    for number, (one, judged) in enumerate(found):
        if number % _AT_ONCE == 0:
            say(f"explaining {number:,} of {len(found):,} events")
        yield one, explainer.cause(one, judged)


def start(results: Path | str, own: KeptSets) -> subprocess.Popen[bytes]:
    """A process that makes what is kept, with git asked in the project that the results lie in,
    else where this one was started. Where another is at it, it waits for that and takes over what
    it can."""
    module = [sys.executable, "-P", "-m", "hostbench.report.judging"]
    root = None
    if not is_url(str(results)):
        results = Path(results).resolve()
        root = asv_config.project_root(results)
    return subprocess.Popen(
        [*module, str(results), own.axis, str(own.folder.absolute())],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def progress(own: KeptSets) -> Progress:
    """What the process said last."""
    try:
        return json.decode(own.progress.read_bytes(), type=Progress)
    except (OSError, MsgspecError):
        return Progress(said="starting")


def main(results: str, axis: Along, folder: str) -> int:
    with kept.lock(Path(folder) / f"lock-{axis}"):
        place = Path(folder) / f"progress-{axis}.json"
        last = 0.0

        def say(text: str, error: str = "") -> None:
            nonlocal last
            if error or time.monotonic() - last > _OFTEN_S:
                last = time.monotonic()
                write_atomic(place, json.encode(Progress(said=text, error=error)))

        try:
            say("reading what is stored")
            history = History(results if is_url(results) else Path(results))
            own = KeptSets.of(history, axis, Path(folder))
            if not own.whole.is_dir():
                make(history, own, Path.cwd(), say)
            place.unlink(missing_ok=True)
        except Exception as error:  # whoever waits for it reads why
            is_told = isinstance(error, UsageError | OSError)
            say("", str(error) if is_told else f"{type(error).__name__}: {error}")
            raise
    return 0


if __name__ == "__main__":
    _, _results, _axis, _folder = sys.argv
    sys.exit(main(_results, "commit" if _axis == "commit" else "run-time", _folder))
