"""asv's own files of a run that hostbench has measured, written by asv's own classes.

`asv show`, `compare` and `publish` find them as if asv had measured: the launch medians of each
case are its samples. asv is pinned, and imported here alone, where a run is recorded.
"""

import datetime
import itertools
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hostbench.core.case import Case, asv_name
from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored, write_atomic
from hostbench.core.records import Run
from hostbench.measure.workload import Workload
from hostbench.store.points import FrameRow, case_rows

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ENVIRONMENT = f"hostbench-py{PYTHON}"
"""As hostbench.asv_env names it: one for all versions of torch, so that a series goes on."""


def record(
    results: Path,
    entry: Mapping[str, str],
    run: Run,
    works: Mapping[str, Workload],
    authored_s: int,
) -> None:
    """Add a run to asv's file of its commit; whatever else is in there stays. `entry`: what asv
    knows of the machine (`facts.asv_machine_entry`). `authored_s`: the author's date of the commit,
    asv's date of it, in seconds since the epoch.

    Raises UsageError where its files cannot be read or written.
    """
    from asv import util
    from asv.benchmarks import Benchmarks
    from asv.results import Results

    measured = {row["case"]: row for row in case_rows(run)}
    params, commit = {**entry, "python": PYTHON}, str(run.header.commit)
    stored = Results(params, {}, commit, authored_s * 1000, PYTHON, ENVIRONMENT, {})
    try:
        stored.load_data(str(results))
        benchmarks = [
            _add(stored, work, measured)
            for work in works.values()
            if any(row["workload"] == work.name for row in measured.values())
        ]
        path = results / "benchmarks.json"  # without which asv shows nothing
        known = json.loads(read_stored(path)) if path.is_file() else {}
        known.pop("version", None)
        for benchmark in benchmarks:
            name = benchmark["name"]  # what asv says of it besides stays
            known[name] = {"code": "", **known.get(name, {}), **benchmark}
        conf = SimpleNamespace(benchmark_dir="", results_dir=str(results))
        Benchmarks(conf, known.values()).save()
        machine = results / entry["machine"] / "machine.json"
        write_atomic(machine, json.dumps({**entry, "version": 1}, indent=4).encode() + b"\n")
        stored.save(str(results))
    except (util.UserError, OSError, ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"asv's files in {results} cannot be read or written ({why:.200})"
        ) from error


def _add(stored: Any, work: Workload, measured: Mapping[str, FrameRow]) -> dict[str, Any]:
    """Add a workload's cases, where the run has them: numbers, null of a failed and NaN of a
    skipped one, as asv has it. What benchmarks.json says of the workload."""
    from asv.runner import BenchmarkResult

    combinations = itertools.product(*work.axes.values())
    axes = (dict(zip(work.axes, combination, strict=True)) for combination in combinations)
    rows = [measured.get(str(Case(work.name, values))) for values in axes]
    samples = [
        [*row["launches"].values()] if row and row["status"] == "ok" and "launches" in row else None
        for row in rows
    ]
    values = [
        0.0 if numbers else math.nan if row is None or row["status"] == "skipped" else None
        for row, numbers in zip(rows, samples, strict=True)
    ]
    benchmark = {
        "name": asv_name(work.name),
        "param_names": list(work.axes),
        "params": [[repr(value) for value in values] for values in work.axes.values()],
        "type": "track",
        "unit": "seconds",
        "version": next(row["version"] for row in rows if row),
    }
    stored.add_result(
        benchmark,
        BenchmarkResult(values, samples, [1 if cell else None for cell in samples], 0, "", None),
        datetime.datetime.now(datetime.UTC),
        record_samples=True,
        selected_idx={index for index, row in enumerate(rows) if row is not None},
    )
    return benchmark
