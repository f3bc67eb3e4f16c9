"""What a results folder holds, as tests look at it."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from hostbench.runner import journal
from hostbench.store import adopt, archive
from hostbench.store.runs import WholeRun, put_together


class Tree(NamedTuple):
    """As the commands and pages read it."""

    frame: pd.DataFrame
    runs: list[WholeRun]
    warnings: list[str]


def read_tree(results: Path) -> Tree:
    from hostbench.store.history import History  # needs deltalake, which a GPU machine may lack

    history = History(results)
    runs = [history.whole(run) for run in history.runs()]
    return Tree(history.frame(), runs, history.warnings)


def runs_of(results: Path) -> list[WholeRun]:
    """Every run, the oldest first. Raises DataError where a file is damaged."""
    archives = map(archive.read, sorted(results.glob(f"*/runs/*{archive.SUFFIX}")))
    journals = (adopt.from_journal(results, path) for path in journal.find(results))
    return put_together([*archives, *journals])
