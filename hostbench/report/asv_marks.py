"""What `asv compare` says of two commits: its rule, on what asv's own files of them hold."""

import math
from collections.abc import Collection
from pathlib import Path

from hostbench.core.records import DAMAGE
from hostbench.judge.asv_rule import AsvMark, AsvRow, mark
from hostbench.report.places import Key, Places
from hostbench.store import asv_rows, asv_tree


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
    for one in asv_tree.points_of_commit(results, machine, commit):
        try:
            about, _ = asv_rows.about_case(one.benchmark, one.params, one.unit)
        except DAMAGE:
            continue
        if one.value is not None:
            place = places.of(machine, asv_rows.run_id(commit, one.env_name))
            low, high = (math.nan if bound is None else bound for bound in one.ci)
            found[(*place, about["case"], str(one.version)), one.env_name] = AsvRow(
                seconds=one.value,
                low=low,
                high=high,
                samples=one.samples,
                repeat=one.num_samples,
            )
    return found
