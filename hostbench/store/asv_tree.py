"""Any asv results tree, read as asv wrote it: ours or another project's.

hostbench.store.asv_points makes points of it. Sole readers of asv's file format (api version 2).
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE, damaged, load_json, read_stored
from hostbench.core.records import DAMAGE

OnFile = Callable[[Path], None]
"""Is told of each file that is about to be read: a large tree takes minutes."""


def ignore_file(_: Path) -> None:
    """An OnFile where nobody waits."""


def run_id(commit: str, env_name: str) -> str:
    return f"asv-{commit[:8]}-{env_name}"


def environment_of(run_id: str) -> str | None:
    """asv's environment in such a run_id; None for hostbench's own, whose points continue a run's
    series, and for the id of a run."""
    name = run_id[len("asv-") + 8 + 1 :] if run_id.startswith("asv-") else ""
    return None if not name or name.startswith("hostbench-") else name


def load(path: Path, warn: Warn, raw: bytes | None = None) -> Any:
    """The JSON of a file in a machine's folder or beside those, whose bytes may be `raw`; None, and
    a warning, where it cannot be read."""
    try:
        data = _decoded(read_stored(path, path.parents[1]) if raw is None else raw)
    except (OSError, ValueError, RecursionError) as error:
        warn(damaged(path, error))
        return None
    if data is None:
        warn(f"{path} is damaged (it holds null alone); {REPLACE}")
    return data


def _decoded(raw: bytes) -> Any:
    """A file that holds a bare NaN, which only the standard json reads, takes twice as long."""
    if b"NaN" not in raw and b"Infinity" not in raw:
        with contextlib.suppress(msgspec.DecodeError):  # json says better what is wrong
            return msgspec.json.decode(raw)
    return load_json(raw)


def started(results: Path, commit: str, machine: str | None) -> Iterator[tuple[str, str, int]]:
    """(machine, benchmark, when asv started it in ms) of what our environment stored of a commit,
    on one machine or on all."""
    for path in sorted(results.glob(f"{machine or '*'}/{commit[:8]}-hostbench-*.json")):
        data = load(path, lambda _: None)
        with contextlib.suppress(
            *DAMAGE, OverflowError
        ):  # reading the points says what is wrong with it
            if data["commit_hash"] == commit:
                index = data["result_columns"].index("started_at")
                for name, row in data["results"].items():
                    if len(row) > index and row[index] is not None:
                        yield path.parent.name, name, int(row[index])


def described(folder: Path, warn: Warn) -> dict[str, Any]:
    """The benchmarks.json in there: benchmark -> what asv knows of it; empty without one."""
    path = folder / "benchmarks.json"
    own = load(path, warn) if path.exists() else {}
    return own if isinstance(own, dict) else {}
