"""The results folder as the pages see it. The only file that caches."""

import argparse
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import streamlit as st

from hostbench.store import peers
from hostbench.store.history import History

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


def results_folder() -> Path:
    """`-- --results DIR`, else HOSTBENCH_RESULTS, else ./results."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--results")
    named = parser.parse_known_args(sys.argv[1:])[0].results
    return Path(named or os.environ.get("HOSTBENCH_RESULTS") or "results")


def load(folder: Path) -> Results:
    """Read the folder, or take it from the cache while no file in it has changed.

    Raises UsageError when there is no such folder.
    """
    points, others, runs, warnings = _read(str(folder), _signature(folder))
    return Results(points=points, peers=others, runs=runs, warnings=warnings)


def _signature(folder: Path) -> int:
    """Changes whenever a stored file comes, goes or is written."""
    stats = []
    for path in (path for pattern in STORED for path in folder.rglob(pattern)):
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


_COLUMNS = ("run_id", "profile", "launches", "device", "by", "complete")
