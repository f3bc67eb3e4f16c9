"""What a results folder holds, as tests look at it."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hostbench.core import journal
from hostbench.core.records import Run
from hostbench.store import archive
from hostbench.store.results import frame_of_run


class Tree(NamedTuple):
    """As the commands and pages read it."""

    frame: pd.DataFrame
    runs: list[Run]
    warnings: list[str]


def read_tree(results: Path) -> Tree:
    from hostbench.store.results import Results  # needs deltalake, which a GPU machine may lack

    history = Results(results)
    runs = [history.run(run) for run in history.runs()]
    return Tree(history.frame(), runs, history.warnings)


def frame_of(part: Run, results: Path = Path("nowhere")) -> pd.DataFrame:
    """The rows of a run as the folder would show them, of which only the published
    figures are read."""
    warnings: list[str] = []
    rows = frame_of_run(results, part, warnings.append)
    assert not warnings
    return rows


def runs_of(results: Path) -> list[Run]:
    """Every run, the oldest first. Raises DataError where a file is damaged."""
    archives = map(archive.read, sorted(results.glob(f"*/runs/*{archive.SUFFIX}")))
    journals = (journal.read(path) for path in journal.find(results))
    return sorted([*archives, *journals], key=lambda run: run.header.started_at)


def only_run(results: Path) -> Run:
    (run,) = runs_of(results)
    return run
