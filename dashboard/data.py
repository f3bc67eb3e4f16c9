"""The results folder as the pages see it. The only file that caches."""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import streamlit as st

from hostbench.judge.events import Judged
from hostbench.judge.grid import Axis
from hostbench.report.choice import Wanted, choose, events
from hostbench.report.judged import Told, explain, judge_history
from hostbench.store import peers, triage
from hostbench.store.history import History
from hostbench.store.triage import Triage

STORED = ("*.json", "*.json.gz", "*.jsonl", "published.toml")
NO_MACHINE = "(not named yet)"
_Read: TypeAlias = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A results folder as read."""

    points: pd.DataFrame
    """The tidy frame of hostbench.store.frame without other tools' points; a machine without a name
    is NO_MACHINE."""
    peers: pd.DataFrame
    """Other tools' points of these machines, in the same columns."""
    runs: pd.DataFrame
    """One row per hostbench run: run_id, profile, launches, device, by, complete."""
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What `hostbench changes` finds in a results folder; shared, so only read it."""

    judged: tuple[Judged, ...]
    told: tuple[Told, ...]
    """Every event of everything, explained, in the order of hostbench.report.choice.events."""
    triage: Triage
    workloads: Mapping[tuple[str, str], str]
    """(machine, case) -> workload."""
    warnings: tuple[str, ...]


def results_folder() -> Path:
    """`-- --results DIR`, else HOSTBENCH_RESULTS, else ./results."""
    return Path(_named("--results") or os.environ.get("HOSTBENCH_RESULTS") or "results")


def _named(option: str) -> str | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, dest="value")
    value: str | None = parser.parse_known_args(sys.argv[1:])[0].value
    return value


def load(folder: Path) -> Results:
    """Read the folder, or take it from the cache while no file in it has changed.

    Raises UsageError when there is no such folder.
    """
    points, others, runs, warnings = _read(str(folder), _signature(folder))
    return Results(points=points, peers=others, runs=runs, warnings=warnings)


def changes(folder: Path, axis: Axis) -> Changes:
    """Judge the folder, or take it from the cache: what was judged while no file has changed, and
    what was told of it while no entry of triage has and the day is the same.

    git is asked where the dashboard was started (`-- --root DIR`, else here). Raises UsageError
    when there is no such folder.
    """
    said = _stats((folder / triage.FOLDER).glob(f"*{triage.SUFFIX}"))
    day, root = str(pd.Timestamp.now("UTC").date()), _named("--root") or "."
    return _changes(str(folder), axis, root, _signature(folder), said, day)


def _signature(folder: Path) -> int:
    """Changes whenever a stored file comes, goes or is written."""
    return _stats(path for pattern in STORED for path in folder.rglob(pattern))


def _stats(paths: Iterable[Path]) -> int:
    stats = []
    for path in paths:
        with suppress(FileNotFoundError):  # a journal that has just become an archive
            stat = path.stat()
            stats.append((str(path), stat.st_size, stat.st_mtime_ns))
    return hash(tuple(sorted(stats)))


@st.cache_data(max_entries=4, show_spinner="Reading the results ...")
def _read(folder: str, signature: int) -> _Read:
    history = History(Path(folder))
    whole = history.frame()
    points = peers.ours(whole)
    others = whole.drop(index=points.index)
    points = points.assign(machine=points["machine"].fillna(NO_MACHINE))
    runs = pd.DataFrame([asdict(run) for run in history.runs()], columns=list(_COLUMNS))
    return points, others, runs, history.warnings


@st.cache_resource(max_entries=4, show_spinner="Judging the results ...")
def _judged(folder: str, axis: Axis, signature: int) -> tuple[Judged, ...]:
    return tuple(judge_history(History(Path(folder)), axis))


@st.cache_resource(max_entries=4, show_spinner="Looking for causes ...")
def _changes(folder: str, axis: Axis, root: str, signature: int, said: int, day: str) -> Changes:
    history, judged = History(Path(folder)), _judged(folder, axis, signature)
    explainer, entries = explain(history, judged, Path(root), axis)
    found = events(choose(judged, Wanted.read([])))
    named = {
        (machine, str(case)): str(workload)
        for machine in history.machines()
        for case, workload in history.points(machine, ("case", "workload"))
        .drop_duplicates()
        .itertuples(index=False)
    }
    return Changes(
        judged=judged,
        told=tuple(explainer.tell(*pair) for pair in found),
        triage=entries,
        workloads=named,
        warnings=tuple(history.warnings),
    )


_COLUMNS = ("run_id", "profile", "launches", "device", "by", "complete")
