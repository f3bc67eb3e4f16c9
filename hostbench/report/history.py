"""What was judged of a results folder: once, saved beside its table, made anew when what is stored
changes. Triage and the subjects of commits are added when it is read."""

import contextlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from msgspec import msgpack, structs

from hostbench.core.errors import HostbenchError, Warn
from hostbench.core.files import locked, write_atomic
from hostbench.judge.causes import commits_of
from hostbench.judge.events import Event, assess
from hostbench.judge.grid import NEEDED
from hostbench.judge.history import History, judge_history
from hostbench.store import triage
from hostbench.store.points import STATUSES
from hostbench.store.results import Results, give_back_memory
from hostbench.vcs.repo import known_commits, landed

FOLDER = "events"
FORMAT = 15
"""To be raised by hand when what is judged, or how, changes."""


def history_of(results: Results, warn: Warn = lambda text: None) -> History:
    """Everything that is stored, judged, with triage, which a table at a URL has none of. One
    process at a time judges; a folder that cannot be written is judged each time."""
    folder = results.beside / FOLDER
    saved = folder / f"{FORMAT}-{results.state()}.msgpack"
    with locked(folder / "lock"):
        try:
            history = msgpack.decode(saved.read_bytes(), type=History)
        except (OSError, ValueError):  # not there, or damaged
            counts = results.counts.groupby("machine")[[*STATUSES]].sum().sum(axis=1).to_dict()
            # the largest first: what the others need fits into the memory that it has left
            machines = sorted(results.machines(), key=lambda name: (-counts.get(name, 0), name))
            tables = ((name, results.points(name, NEEDED)) for name in machines)
            runs = {run.run_id: run for run in results.runs()}
            history = judge_history(tables, runs, results.facts)
            give_back_memory()
            with contextlib.suppress(OSError, HostbenchError):
                write_atomic(saved, msgpack.encode(history))
                for older in folder.glob("*.msgpack"):
                    if older != saved:
                        older.unlink(missing_ok=True)
    entries = triage.read(results.folder, warn).values() if results.folder else ()
    events = (assess(event, entries) for event in history.events)
    return structs.replace(history, events=tuple(events))


def with_subjects(events: Iterable[Event], root: Path) -> list[Event]:
    """With what landed, from git at `root`; without it the commits that were measured stay."""
    events, ends = list(events), dict[int, tuple[str, str]]()
    for index, event in enumerate(events):
        if event.commits:  # else it lies between points of one commit
            old, *later = (point.commit for point in event.around)
            ends[index] = old, next(commit for commit in reversed(later) if commit != old)
    measured = {commit for pair in ends.values() for commit in pair}
    in_git = known_commits(root, measured) if measured else set()
    between = cache(lambda old, new: landed(root, old, new))
    for index, (old, new) in ends.items():
        if {old, new} <= in_git:
            commits = commits_of(events[index], between(old, new))
            events[index] = structs.replace(events[index], commits=commits)
    return events
