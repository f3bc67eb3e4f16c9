"""What lies in a results folder: every file that gives rows, with its size and time of change."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hostbench.runner import journal
from hostbench.store import archive, asv_tree

Stat = list[int]
"""[size in bytes, time of the last change in ns]: a list, as JSON gives it back."""


@dataclass(slots=True, kw_only=True)
class Scan:
    """Paths relative to the results folder, each kind in the order in which the frame reads it."""

    machines: list[str] = field(default_factory=list)
    """Folders that hold a file of asv's, if only machine.json."""
    asv: dict[str, dict[str, Stat]] = field(default_factory=dict)
    """By machine."""
    archives: dict[str, Stat] = field(default_factory=dict)
    journals: dict[str, Stat] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    """Names that are no UTF-8: what they hold cannot be named, and is left out."""

    def of_commit(self, commit: str | None) -> list[object]:
        """What our environment stored of a commit, on any machine: a journal's rows hang on it."""
        if commit is None:
            return []
        start = f"{commit[:8]}-hostbench-"
        return [
            [path, stat]
            for machine, files in self.asv.items()
            for path, stat in files.items()
            if path.startswith(f"{machine}/{start}")
        ]


def scan(results: Path) -> Scan:
    """One pass over the folder, without opening a file."""
    found = Scan()
    for machine in sorted(_folders(results)):
        if not is_utf8(machine):
            found.odd.append(machine)
            continue
        folder = results / machine
        stored = _files(folder, machine, ".json")
        if stored:
            found.machines.append(machine)
        for name in asv_tree.NO_RESULTS:
            stored.pop(f"{machine}/{name}", None)
        found.asv[machine] = stored
        found.archives |= _files(folder / "runs", f"{machine}/runs", archive.SUFFIX)
    for path in journal.find(results):
        stat = stat_of(path)
        if stat and is_utf8(path.name):
            found.journals[path.relative_to(results).as_posix()] = stat
    for paths in (*found.asv.values(), found.archives):
        odd = [name for name in paths if not is_utf8(name)]
        found.odd += odd
        for name in odd:
            del paths[name]
    return found


def is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def stat_of(path: Path) -> Stat | None:
    """None for what is not there (any more)."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def _folders(results: Path) -> Iterator[str]:
    with os.scandir(results) as entries:
        for entry in entries:
            if entry.is_dir():
                yield entry.name


def _files(folder: Path, shown: str, suffix: str) -> dict[str, Stat]:
    found = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    with contextlib.suppress(FileNotFoundError):  # it has just gone
                        stat = entry.stat()
                        found[f"{shown}/{entry.name}"] = [stat.st_size, stat.st_mtime_ns]
    except OSError:
        return {}
    return dict(sorted(found.items()))
