"""Any asv results tree, read as asv wrote it: ours or another project's.

Sole reader of asv's file format (api version 2). A file that holds bare NaN, which only the
standard json reads, takes twice as long.
"""

import ast
import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hostbench.core.clock import END_S, FIRST_S
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE, damaged, read_stored

Params = tuple[tuple[str, Any], ...]
"""(parameter name, value) of one combination."""

OnFile = Callable[[Path], None]
"""Is told of each file that is about to be read: a large tree takes minutes."""


def ignore_file(_: Path) -> None:
    """Where nobody waits."""


NO_RESULTS = ("machine.json", "benchmarks.json")
"""`.json` files of a machine's folder that asv takes for no results."""

_DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
_FIRST_MS, _END_MS = FIRST_S * 1000, END_S * 1000


def described(results: Path, warn: Warn, machine: str = "") -> dict[str, Any]:
    """benchmarks.json: benchmark name -> what asv knows of it; empty where it is missing.

    A machine of another project may have one of its own, which asv leaves alone.
    """
    path = results / machine / "benchmarks.json"
    benchmarks = load(path, warn) if path.exists() else {}
    return benchmarks if isinstance(benchmarks, dict) else {}


_UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}


def cases(benchmark: str, params: Any, described: Mapping[str, Any]) -> tuple[str, list[Params]]:
    """A benchmark's unit, and its combinations of parameters in the order of its lists."""
    about = _about(described, benchmark)
    return _unit(about, benchmark), _combinations(params or [], about)


def num_cases(params: Any) -> int:
    """How many combinations of parameters there are."""
    return math.prod(len(one) for one in params or [])


def started(results: Path, commit: str, machine: str | None) -> Iterator[tuple[str, str, int]]:
    """(machine, benchmark, when asv started it in ms) of what our environment stored of a commit,
    on one machine or on all."""
    for path in sorted(results.glob(f"{machine or '*'}/{commit[:8]}-hostbench-*.json")):
        data = load(path, quiet)
        with contextlib.suppress(*_DAMAGE):  # reading the points says what is wrong with it
            if data["commit_hash"] == commit:
                place = data["result_columns"].index("started_at")
                for name, row in data["results"].items():
                    if len(row) > place and row[place] is not None:
                        yield path.parent.name, name, int(row[place])


def quiet(_: str) -> None:
    """Where whoever reads the tree has warned."""


def load(path: Path, warn: Warn) -> Any:
    """The JSON of a file in a machine's folder or beside those; None, and a warning, where it
    cannot be read."""
    try:
        found = _decoded(read_stored(path, path.parents[1]))
    except (OSError, ValueError, RecursionError) as error:
        warn(damaged(path, error))
        return None
    if found is None:
        warn(f"{path} is damaged (it holds null alone); {REPLACE}")
    return found


def _decoded(raw: bytes) -> Any:
    if b"NaN" not in raw and b"Infinity" not in raw:
        with contextlib.suppress(msgspec.DecodeError):  # json says better what is wrong
            return msgspec.json.decode(raw)
    return json.loads(raw.decode())


def _combinations(params: Any, about: Mapping[str, Any]) -> list[Params]:
    names = _names(about)
    if len(names) != len(params):  # benchmarks.json describes another version of the benchmark
        names = [f"param{place + 1}" for place in range(len(params))]
    literals = [[_literal(text) for text in one] for one in params]
    return [tuple(zip(names, one, strict=False)) for one in itertools.product(*literals)]


def _unit(about: Mapping[str, Any], benchmark: str) -> str:
    """Of one that benchmarks.json no longer has: what asv takes a function of that name for."""
    kind = "".join(benchmark.rpartition(".")[2].partition("_")[:2])
    return str(about.get("unit", _UNITS.get(kind, "unit")))


def milliseconds(value: Any) -> int | None:
    """A time since the epoch that can be kept; None for anything else."""
    is_time = type(value) in (int, float) and _FIRST_MS <= value < _END_MS
    return int(value) if is_time else None


def run_id(commit: str, env_name: str) -> str:
    return f"asv-{commit[:8]}-{env_name}"


def environment_of(run_id: str) -> str | None:
    """asv's environment in such a run_id; None for hostbench's own, whose points continue a run's
    series, and for the id of a run."""
    name = run_id[len("asv-") + 8 + 1 :] if run_id.startswith("asv-") else ""
    return None if not name or name.startswith("hostbench-") else name


def hardware(entry: Mapping[str, Any]) -> str | None:
    """What machine.json calls the GPU, else the CPU."""
    named = entry.get("gpu") or entry.get("cpu")
    return None if named is None else str(named)


def _about(described: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    about = described.get(name)
    return about if isinstance(about, dict) else {}


def _names(about: Mapping[str, Any]) -> list[str]:
    names = about.get("param_names")
    is_good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_good and len(set(names)) == len(names) else []  # type: ignore[arg-type,return-value]


@lru_cache(maxsize=4096)
def _literal_of(text: str) -> Any:
    value = ast.literal_eval(text)
    return value if isinstance(value, str | int | float | bool | None) else text


def _literal(text: Any) -> Any:
    """asv stores the repr of each parameter. What is no plain value stays text."""
    try:
        return _literal_of(text) if isinstance(text, str) else str(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return str(text)
