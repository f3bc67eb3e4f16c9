"""Two results folders as one: of each file, whether it is shared, and what two versions come to.

Archives are immutable and named apart, so most files are copied, and the rest is merged: nothing
that one side has is lost.
"""

import io
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from hostbench.core.errors import DataError
from hostbench.core.files import read_limited
from hostbench.limits import published
from hostbench.store import archive, nights, peers, triage

Sharing = Literal["kept", "first", "rows", "described", "edited"]
"""kept: written once, under a name of its own. first: whichever is there stays. rows: asv's file of
a commit, the newest row of each benchmark. described: benchmarks.json, everything that either
knows. edited: what people write; a version that only one side changed."""

SENT = "notified"
"""The folder of what was sent (hostbench/notify/sent.py)."""
SENT_SUFFIX = ".txt"

_OF_COMMIT = re.compile(r"[0-9a-f]{8}-.+\.json")
_FIRST, _DESCRIBED = "machine.json", "benchmarks.json"


def sharing(path: str) -> Sharing | None:
    """How a file of a results folder is shared, by its path in there; None: not at all, as of
    journals, traces and what is no result."""
    parts = path.split("/")
    name, folder = parts[-1], parts[0]
    hidden = any(not part or part.startswith(".") for part in parts)
    if hidden or not path.isprintable() or any(len(part.encode()) > 255 for part in parts):
        return None
    if len(parts) == 1:
        return "described" if name == _DESCRIBED else "edited" if name == published.FILE else None
    if folder == triage.FOLDER:
        return "edited" if len(parts) == 2 and name.endswith(triage.SUFFIX) else None
    if folder == SENT:
        return "kept" if len(parts) == 2 and name.endswith(SENT_SUFFIX) else None
    return _of_machine(parts[1:])


def _of_machine(parts: list[str]) -> Sharing | None:
    if len(parts) == 2:
        endings = {"runs": archive.SUFFIX, nights.FOLDER: nights.SUFFIX, "peers": peers.SUFFIX}
        ending = endings.get(parts[0])
        return "kept" if ending and parts[1].endswith(ending) else None
    if len(parts) > 2:
        return None
    if parts[0] in (_FIRST, _DESCRIBED):
        return "first" if parts[0] == _FIRST else "described"
    return "rows" if _OF_COMMIT.fullmatch(parts[0]) else None


def merged(path: str, ours: bytes, theirs: bytes, base: bytes | None) -> bytes:
    """What two versions of a file come to; `base` is what both once were, where that is known.

    Raises DataError where one cannot be read, or both were edited.
    """
    how = sharing(path)
    if how == "rows":
        return _rows(path, ours, theirs)
    if how == "described":
        return _described(path, ours, theirs)
    if how == "edited" and ours != theirs:
        if base not in (ours, theirs):
            raise DataError(f"{path} was edited on both sides: make them the same by hand")
        return theirs if ours == base else ours
    return theirs


def _rows(path: str, ours: bytes, theirs: bytes) -> bytes:
    """The row that asv started last of each benchmark."""
    both = _table(path, ours), _table(path, theirs)
    if both[0].get("result_columns") != both[1].get("result_columns"):
        raise DataError(f"{path} has other columns on the two sides: two versions of asv wrote it")
    older, newer = sorted(both, key=_newest)
    try:
        at = newer["result_columns"].index("started_at")
        rows = dict(older["results"])
        for name, row in newer["results"].items():
            if name not in rows or _started(row, at) >= _started(rows[name], at):
                rows[name] = row
        whole = {**older, **newer, "results": rows}
        if "durations" in whole:
            whole["durations"] = {**older.get("durations", {}), **newer.get("durations", {})}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is no file of asv's on one side ({error})") from error
    return _unchanged(whole, None, ours, theirs)


def _newest(table: Mapping[str, Any]) -> float:
    try:
        at = table["result_columns"].index("started_at")
        return max((_started(row, at) for row in table["results"].values()), default=0)
    except (KeyError, TypeError, ValueError, AttributeError):
        return 0


def _started(row: Any, at: int) -> float:
    value = row[at] if isinstance(row, list) and len(row) > at else None
    return value if isinstance(value, int | float) else 0


def _described(path: str, ours: bytes, theirs: bytes) -> bytes:
    """Of a benchmark that both know, what we know."""
    return _unchanged({**_table(path, theirs), **_table(path, ours)}, 4, ours, theirs)


def _unchanged(whole: Mapping[str, Any], indent: int | None, *sides: bytes) -> bytes:
    """The bytes of the side that says the same, else new ones, in asv's form."""
    text = json.dumps(whole, sort_keys=True)
    for side in sides:
        if json.dumps(json.loads(side), sort_keys=True) == text:
            return side
    separators = None if indent else (",", ":")
    return json.dumps(whole, indent=indent, sort_keys=bool(indent), separators=separators).encode()


def _table(path: str, content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(read_limited(io.BytesIO(content)))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read on one side ({error})") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} cannot be read on one side (it holds no table)")
    return found
