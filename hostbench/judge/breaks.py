"""Where a line is broken: what is measured, or what it is measured on, is no longer the same.

Only a workload's version and the machine itself (its CPU, its GPU, MIG) break a line. Any other
fact that changes is a possible cause of a step, which is found and reported like every other.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hostbench.judge.levels import Floats

Versions = npt.NDArray[np.int64]
"""Series x columns; -1 where there is no point, or none that says its version."""
Reasons = Iterator[tuple[tuple[int, int], str]]
"""((series, first column after the break), what changed)."""


def newest_version_counts(logs: Floats, version: Versions, started: Sequence[int]) -> None:
    """Where versions of a workload interleave (newer benchmarks run on older commits), an older one
    ends where a newer one begins: its later points are taken out, in place. `started`: when each
    column ran; the newer version is what ran last."""
    times = np.array(started)
    for i in np.flatnonzero([len(set(row[row >= 0])) > 1 for row in version]):
        row = version[i]
        last = {one: times[row == one].max() for one in set(row[row >= 0].tolist())}
        end = len(row)
        for one in sorted(last, key=lambda one: -last[one]):
            own = np.flatnonzero(row == one)
            gone = own[own >= end]
            logs[i, gone], row[gone] = np.nan, -1
            end = min(end, int(own[0]))


def version_breaks(version: Versions, names: Sequence[str]) -> Reasons:
    for i in np.flatnonzero([len(set(row[row >= 0])) > 1 for row in version]):
        known = np.flatnonzero(version[i] >= 0)
        row = version[i, known]
        for at in np.flatnonzero(np.diff(row)):
            old, new = short_version(names[row[at]]), short_version(names[row[at + 1]])
            yield (int(i), int(known[at + 1])), f"version {old} -> {new}"


def short_version(version: str) -> str:
    """asv's own versions are hashes of the code."""
    return version[:8] if len(version) > 16 else version


def hardware_breaks(logs: Floats, known: Sequence[Mapping[str, str]]) -> Reasons:
    """Where a part of the machine is known to be another one than before: in every series, at its
    first point from there on. `known`: of each column, facts.causes.identity; empty where untold.
    """
    valid, last = ~np.isnan(logs), dict[str, str]()
    for number, parts in enumerate(known):
        changed = [
            f"{name}: {last[name]} -> {value}"
            for name, value in parts.items()
            if last.get(name, value) != value
        ]
        last |= parts
        if not changed:
            continue
        both = valid[:, :number].any(axis=1) & valid[:, number:].any(axis=1)
        for i in np.flatnonzero(both):
            yield (int(i), number + int(np.argmax(valid[i, number:]))), "; ".join(changed)
