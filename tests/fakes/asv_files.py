"""asv's own files, for a tree that no asv makes: a simulation's. Real runs have asv write them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hostbench.core.asv_names import asv_name
from hostbench.core.files import write_atomic
from hostbench.measure.workload import Workload

PYTHON = "3.11"
ENVIRONMENT = f"hostbench-py{PYTHON}"


def write_machine(results: Path, entry: Mapping[str, str]) -> None:
    """machine.json. `entry` is `hostbench.facts.asv_machine_entry`."""
    _write(results / entry["machine"] / "machine.json", {**entry, "version": 1}, indent=4)


def write_benchmarks(results: Path, works: Iterable[Workload]) -> None:
    """benchmarks.json: what asv and the frame need to know of each workload."""
    about: dict[str, Any] = {}
    for work in works:
        name = asv_name(work.name)
        about[name] = {
            "code": "",
            "name": name,
            "param_names": list(work.axes),
            "params": [[repr(value) for value in values] for values in work.axes.values()],
            "type": "track",
            "unit": "seconds",
            "version": work.version,
        }
    _write(results / "benchmarks.json", {**about, "version": 2}, indent=4)


def write_commit(
    results: Path, entry: Mapping[str, str], contents: Sequence[Mapping[str, Any]]
) -> None:
    """The file of one commit on one machine. `contents`: what the archives of its runs hold, the
    oldest first; asv keeps the newest numbers of each benchmark."""
    newest = {key: value for key, value in contents[-1].items() if key != "hostbench"}
    commit = newest["commit_hash"]
    data = {
        **newest,
        "env_name": ENVIRONMENT,
        "params": {**entry, "python": PYTHON},
        "python": PYTHON,
        "results": {name: row for one in contents for name, row in one["results"].items()},
    }
    _write(results / entry["machine"] / f"{commit[:8]}-{ENVIRONMENT}.json", data)


def _write(path: Path, data: Mapping[str, Any], indent: int | None = None) -> None:
    write_atomic(path, json.dumps(data, indent=indent).encode() + b"\n")
