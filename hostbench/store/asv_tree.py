"""Any asv results tree, read as asv wrote it: ours or another project's.

Sole owner of asv's file format (api version 2). The files hold bare NaN, so the standard json is
used. NaN is skipped, null is failed; half a file is a warning with its path, and the rest is read.
"""

import ast
import contextlib
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hostbench.core.clock import END_S, FIRST_S, YEARS

Warn = Callable[[str], None]

Params = tuple[tuple[str, Any], ...]
"""(parameter name, value) of one combination."""

NO_RESULTS = ("machine.json", "benchmarks.json")
"""`.json` files of a machine's folder that asv takes for no results."""

_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_FIRST_MS, _END_MS = FIRST_S * 1000, END_S * 1000
CORRECT = "shown without it until it is corrected"
"""How the warning of a date ends that is none: nothing else is wrong with the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvPoint:
    """One value of one benchmark, parameter combination, machine and commit."""

    machine: str
    commit: str
    committed_ms: int | None
    env_name: str
    benchmark: str
    params: Params
    version: str | None
    unit: str
    status: str
    value: float | None
    started_ms: int | None
    ci: tuple[float | None, float | None]
    quartiles: tuple[float | None, float | None]
    num_samples: int | None
    samples: tuple[float, ...]
    """Empty where asv kept none."""
    requirements: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOfCommit:
    """Which benchmarks a result file holds, and when asv started each: [(name, ms)]."""

    machine: str
    started: tuple[tuple[str, int], ...]


def machines(results: Path, warn: Warn) -> dict[str, dict[str, Any]]:
    """Folder name -> its machine.json, for each folder of result files.

    One whose machine.json is missing or damaged is a warning; its points are read all the same.
    """
    found = {}
    for folder in sorted({path.parent for path in results.glob("*/*.json")}):
        data = load(folder / "machine.json", warn)
        found[folder.name] = {**(data if isinstance(data, dict) else {}), "folder": folder}
    return found


def points(results: Path, warn: Warn) -> Iterator[AsvPoint]:
    """Every point of the tree."""
    about = described(results, warn)
    for machine, entry in machines(results, warn).items():
        whole = {**about, **described(results, warn, machine)}
        for path in sorted(entry["folder"].glob("*.json")):
            if path.name not in NO_RESULTS:
                yield from points_of(path, machine, load(path, warn), whole, warn)


def points_of_commit(results: Path, machine: str, commit: str) -> Iterator[AsvPoint]:
    """The points of one commit's files on one machine; damaged ones are left out."""

    def quiet(_: str) -> None:
        """Whoever reads the tree has warned."""

    whole = {**described(results, quiet), **described(results, quiet, machine)}
    for path in sorted((results / machine).glob("*.json")):
        if path.name.startswith(f"{commit[:8]}-"):
            data = load(path, quiet)
            if isinstance(data, dict) and data.get("commit_hash") == commit:
                yield from points_of(path, machine, data, whole, quiet)


def described(results: Path, warn: Warn, machine: str = "") -> Mapping[str, Any]:
    """benchmarks.json: benchmark name -> what asv knows of it; empty where it is missing.

    A machine that was imported from another project has one of its own, which asv leaves alone.
    """
    path = results / machine / "benchmarks.json"
    benchmarks = load(path, warn) if path.exists() else {}
    return benchmarks if isinstance(benchmarks, dict) else {}


def points_of(
    path: Path, machine: str, data: Any, described: Mapping[str, Any], warn: Warn
) -> Iterator[AsvPoint]:
    """The points of one file's content, as far as it can be read."""
    try:
        odd = _odd_times(data)
        if odd:
            more = f" (and {len(odd) - 1} more)" if odd[1:] else ""
            warn(f"{path} has {odd[0]}, no time in milliseconds of {YEARS}{more}; {CORRECT}")
        yield from _points_of(machine, data, described)
    except _DAMAGE as error:
        warn(f"{path} is no asv result file ({type(error).__name__}: {error}); left out")


def cases(benchmark: str, params: Any, described: Mapping[str, Any]) -> tuple[str, list[Params]]:
    """A benchmark's unit, and its combinations of parameters in the order of its lists."""
    about = _about(described, benchmark)
    return _unit(about), _combinations(params or [], about)


def files_of_commit(results: Path, commit: str, machine: str | None) -> Iterator[FileOfCommit]:
    """The files of our environment for one commit, on one machine or on all."""
    for path in sorted(results.glob(f"{machine or '*'}/{commit[:8]}-hostbench-*.json")):
        data = load(path, lambda _: None)
        with contextlib.suppress(*_DAMAGE):  # reading the points says what is wrong with it
            if data["commit_hash"] == commit:
                yield FileOfCommit(machine=path.parent.name, started=_started(data))


def _started(data: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    place = data["result_columns"].index("started_at")
    rows = data["results"].items()
    return tuple(
        (name, int(row[place])) for name, row in rows if len(row) > place and row[place] is not None
    )


def load(path: Path, warn: Warn) -> Any:
    """A file's JSON; None, and a warning, where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        warn(f"{path} cannot be read ({error}); left out")
        return None


def _points_of(machine: str, data: Any, described: Mapping[str, Any]) -> Iterator[AsvPoint]:
    if data is None:
        return
    columns = data["result_columns"]
    of_file = {
        "machine": machine,
        "commit": str(data["commit_hash"]),
        "committed_ms": milliseconds(data.get("date")),
        "env_name": str(data.get("env_name") or ""),
        "requirements": {k: str(v) for k, v in (data.get("requirements") or {}).items()},
    }
    for name, cells in data["results"].items():
        row = dict(zip(columns, cells, strict=False))  # asv trims nulls at the right end
        yield from _points_of_row(of_file, name, row, _about(described, name))


def _points_of_row(
    of_file: Mapping[str, Any], name: str, row: Mapping[str, Any], about: Mapping[str, Any]
) -> Iterator[AsvPoint]:
    combinations = _combinations(row.get("params") or [], about)
    result = row.get("result")
    values = result if isinstance(result, list) else [result] * len(combinations)
    of_row = {
        **of_file,
        "benchmark": name,
        "version": None if row.get("version") is None else str(row["version"]),
        "unit": _unit(about),
        "started_ms": milliseconds(row.get("started_at")),
    }
    for place, params in enumerate(combinations):
        value = values[place] if place < len(values) else None
        status, number = _status(value)
        yield AsvPoint(
            params=params,
            status=status,
            value=number,
            ci=(_at(row, "stats_ci_99_a", place), _at(row, "stats_ci_99_b", place)),
            quartiles=(_at(row, "stats_q_25", place), _at(row, "stats_q_75", place)),
            num_samples=_count(row, place),
            samples=_samples(row, place),
            **of_row,
        )


def _combinations(params: Any, about: Mapping[str, Any]) -> list[Params]:
    names = _names(about)
    if len(names) != len(params):  # benchmarks.json describes another version of the benchmark
        names = [f"param{place + 1}" for place in range(len(params))]
    literals = [[_literal(text) for text in one] for one in params]
    return [tuple(zip(names, one, strict=False)) for one in itertools.product(*literals)]


def _unit(about: Mapping[str, Any]) -> str:
    return str(about.get("unit", "unit"))


def _status(value: Any) -> tuple[str, float | None]:
    if value is None:
        return "failed", None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "failed", None
    return ("skipped", None) if math.isnan(value) else ("ok", float(value))


def _at(row: Mapping[str, Any], column: str, place: int) -> float | None:
    values = row.get(column)
    value = values[place] if isinstance(values, list) and place < len(values) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def milliseconds(value: Any) -> int | None:
    """A time since the epoch that can be kept; None for anything else."""
    is_time = type(value) in (int, float) and _FIRST_MS <= value < _END_MS
    return int(value) if is_time else None


def _odd_times(data: Any) -> list[str]:
    """What stands where a time should, and is none."""
    if data is None:
        return []
    columns = data["result_columns"]
    place = columns.index("started_at") if "started_at" in columns else sys.maxsize
    found = [("date", data.get("date"))]
    for name, cells in data["results"].items():
        if len(cells) > place:  # asv trims nulls at the right end
            found.append((f"started_at of {name}", cells[place]))
    return [
        f"{what} {value!r:.40}"
        for what, value in found
        if value is not None and milliseconds(value) is None
    ]


def _count(row: Mapping[str, Any], place: int) -> int | None:
    repeat = _at(row, "stats_repeat", place)
    return None if repeat is None else int(repeat)


def _samples(row: Mapping[str, Any], place: int) -> tuple[float, ...]:
    every = row.get("samples")
    own = every[place] if isinstance(every, list) and place < len(every) else None
    kept = own if isinstance(own, list) else []
    return tuple(one for one in kept if isinstance(one, int | float) and math.isfinite(one))


def _about(described: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    about = described.get(name)
    return about if isinstance(about, dict) else {}


def _names(about: Mapping[str, Any]) -> list[str]:
    names = about.get("param_names")
    is_good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_good and len(set(names)) == len(names) else []  # type: ignore[arg-type,return-value]


@lru_cache(maxsize=4096)
def _literal_of(text: str) -> Any:
    """Raises what ast.literal_eval does; TypeError for what no set could hold."""
    value = ast.literal_eval(text)
    hash(value)
    return value


def _literal(text: Any) -> Any:
    """asv stores the repr of each parameter. What no set could hold stays text."""
    try:
        return _literal_of(text) if isinstance(text, str) else str(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return str(text)
