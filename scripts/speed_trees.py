"""The results trees of scripts/dashboard-speed: made once and kept, always the same."""

import argparse
import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests import asv_project
from tests.fakes.histories import tree
from tests.fakes.histories.story import (
    MOST_COMMITS,
    HistoryNoise,
    Story,
    StoryEvent,
    StoryMachine,
)

MACHINES = 5
SERIES = sum(map(asv_project.series_of, range(asv_project.NUM_BENCHMARKS)))
LEAST = 2 * MACHINES * SERIES
SMALL = Story(
    seed=14,
    commits=200,
    series=60,
    machines=tuple(
        StoryMachine(name=f"machine-{number}", noise=HistoryNoise(sigma=0.01))
        for number in range(MACHINES)
    ),
    events=(
        StoryEvent(kind="code", at=60, effect=0.15, series="transfer.host_to_device"),
        StoryEvent(kind="code", at=120, effect=-0.1),
        StoryEvent(kind="code", at=180, effect=0.2, series="transfer.device_to_host"),
    ),
)
"""Three commits that are slower or faster, one of them lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    name: str
    folder: Path
    """The results folder."""
    bar: str = ""
    """How fast a page is to be drawn, where that is not told by the bare app."""
    make: Callable[[Path], object] | None = None
    """Writes `results` into an empty folder; None for a tree that is there already."""

    def made(self) -> float:
        """Make it where it is not there; the seconds that it took, else 0."""
        if self.make is None or self.folder.is_dir():
            return 0.0
        start = time.perf_counter()
        home = self.folder.parent
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as unfinished:
            self.make(Path(unfinished) / "tree")
            (Path(unfinished) / "tree").rename(home)
        return time.perf_counter() - start


def small(out: Path) -> Tree:
    """hostbench's own archives: 5 machines x 200 commits x 60 series."""
    return _kept(out, "small", lambda folder: tree.write(folder, SMALL))


def many_points(out: Path, num: float) -> Tree:
    """asv's files, 940 series of each of 5 machines; and a machine of hostbench's own archives, so
    that every page has something to draw. Raises ArgumentTypeError for fewer than two commits."""
    if num < LEAST:
        limit = f"{LEAST} ({MACHINES} machines x 2 commits x {SERIES} series)"
        raise argparse.ArgumentTypeError(f"{num:g} is too few: name at least {limit}")
    commits = round(num / MACHINES / SERIES)

    def make(folder: Path) -> None:
        names = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(commits)]
        asv_project.write(folder / "results", names, [f"asv-{n}" for n in range(MACHINES)])
        own = tree.write(folder / "own", _of_one_machine(min(commits, 100), 60)).results
        for path in (path for path in own.iterdir() if path.is_dir()):
            path.rename(folder / "results" / path.name)
        about = json.loads((own / "benchmarks.json").read_text()) | asv_project.benchmarks()
        (folder / "results/benchmarks.json").write_text(json.dumps(about))
        shutil.rmtree(folder / "own")

    return _kept(out, f"{commits * MACHINES * SERIES}-points", make)


def long_series(out: Path, num: int) -> Tree:
    """One machine, two series of so many points. Raises ArgumentTypeError for too many."""
    if not 1 <= num <= MOST_COMMITS:
        raise argparse.ArgumentTypeError(f"{num} points: name 1 to {MOST_COMMITS}")
    kept = _kept(out, f"{num}-long", lambda folder: tree.write(folder, _of_one_machine(num, 2)))
    return replace(kept, bar="1 s")


def stored(folder: Path) -> Tree:
    """Somebody's tree. Raises ArgumentTypeError where there is no folder."""
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{folder} is no folder: name a results folder")
    return Tree(name=folder.resolve().parent.name, folder=folder.resolve())


def _of_one_machine(commits: int, series: int) -> Story:
    return Story(seed=14, commits=commits, series=series, machines=(StoryMachine(name="own"),))


def _kept(out: Path, name: str, make: Callable[[Path], object]) -> Tree:
    return Tree(name=name, folder=out / name / "results", make=make)
