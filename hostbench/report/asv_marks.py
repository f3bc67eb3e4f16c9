"""What `asv compare` says of two commits: its rule, on what asv's own files of them hold."""

import math
from collections.abc import Collection, Iterator
from pathlib import Path

from hostbench.judge.asv_rule import AsvMark, AsvRow, mark
from hostbench.report.places import Key, Places
from hostbench.store import asv_tree
from hostbench.store.table import asv_points
from hostbench.store.table.asv_points import Layout, Points


def marks(
    results: Path, machines: Collection[str], commits: tuple[str, str], places: Places
) -> dict[Key, AsvMark]:
    """Series -> mark, of those that asv's files have a number of at both commits. Of several rows
    of one series (hostbench under two versions of Python) the last."""
    found: dict[Key, AsvMark] = {}
    for machine in machines:
        first, second = (_points(results, machine, commit, places) for commit in commits)
        found |= {
            key: mark(first[key, e], second[key, e]) for key, e in first if (key, e) in second
        }
    return found


def _points(
    results: Path, machine: str, commit: str, places: Places
) -> dict[tuple[Key, str], AsvRow]:
    """(series, asv's environment) -> what asv stored of it; what is damaged is told elsewhere."""
    found = {}
    for points in _files(results, machine, commit):
        place = places.of(machine, asv_tree.run_id(commit, points.env_name))
        names = ("value", "ci_low_s", "ci_high_s", "num_samples")
        rows = zip(
            points.layout.columns["case"].to_pylist(),
            points.layout.benchmark_of.tolist(),
            points.samples_of_points(),
            *(points.numbers[name].tolist() for name in names),
            strict=True,
        )
        for case, benchmark, samples, value, low, high, repeat in rows:
            if case is not None and not math.isnan(value):
                found[(*place, case, str(points.versions[benchmark])), points.env_name] = AsvRow(
                    seconds=value,
                    low=low,
                    high=high,
                    samples=samples,
                    repeat=None if math.isnan(repeat) else int(repeat),
                )
    return found


def _files(results: Path, machine: str, commit: str) -> Iterator[Points]:
    """The files of one commit on one machine."""

    quiet = asv_tree.quiet
    described = asv_tree.described(results, quiet) | asv_tree.described(results, quiet, machine)
    layouts: list[Layout] = []
    for path in asv_tree.result_files(results / machine):
        data = asv_tree.load(path, quiet) if path.name.startswith(f"{commit[:8]}-") else None
        if isinstance(data, dict) and data.get("commit_hash") == commit:
            points = asv_points.read(path, data, described, layouts, quiet)
            if points is not None:
                yield points
