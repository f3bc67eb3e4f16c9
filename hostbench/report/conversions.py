"""What a strided copy and a cast on the way hide: the time beside a plain copy, what crossed."""

import re
from collections.abc import Iterator

import pandas as pd

from hostbench.core import units
from hostbench.report.rows import (
    Row,
    dicts,
    factor,
    label,
    largest,
    lost,
    mode,
    ok,
    times,
    unseen,
    where,
)

_QUESTIONS = {
    "transfer.strided": "What does copying every second element hide?",
    "transfer.cast": "What does a cast on the way (float32 to float16) hide?",
}
_PLAIN = {"h2d": "transfer.host_to_device", "d2h": "transfer.device_to_host"}
_COPY = re.compile(r"1 x (?P<way>H2D|D2H) (?P<memory>pageable|pinned), (?P<size>.+) in all")


def conversions(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    for workload, question in _QUESTIONS.items():
        found = where(rows, workload=workload)
        if len(found):
            yield question, _answer(largest(found), rows)


def _answer(found: pd.DataFrame, rows: pd.DataFrame) -> str:
    """From the memory that is best; what pageable memory adds is no matter of the conversion."""
    measured = ok(found)
    if measured.empty:
        return unseen(found)
    pinned = measured[measured["memory"] == "pinned"]
    chosen = pinned if len(pinned) else measured
    parts = [_one(row, rows) for row in dicts(chosen.sort_values("direction", ascending=False))]
    size = units.format_bytes(int(chosen["nbytes"].iloc[0]))
    return f"{size}: {'; '.join(parts)}{lost(found, _name)}{label(chosen)}"


def _name(row: Row) -> str:
    return f"{str(row['direction']).upper()} {mode(row)}"


def _one(row: Row, rows: pd.DataFrame) -> str:
    workload = _PLAIN.get(str(row["direction"]), "")
    axes = {"memory": row["memory"], "blocking": row["blocking"]}
    plain = times(where(rows, workload=workload, **axes))
    alone_s = plain.get(int(row["nbytes"]))
    beside = f" ({factor(row['seconds'], alone_s)} a plain copy's)" if alone_s else ""
    return f"{_name(row)} {units.format_seconds(row['seconds'])}{beside}: {hidden(row)}"


def hidden(row: Row) -> str:
    """What the observing pass saw cross, in words; as it is stored where it is something else."""
    found = row["findings"] if isinstance(row["findings"], dict) else {}
    seen = found.get("copies")
    if not isinstance(seen, str):
        return "what crossed was not observed"
    match = _COPY.fullmatch(seen)
    if not match:
        return f"observed {seen}"
    try:
        nbytes = units.parse_bytes(match["size"])
    except ValueError:
        return f"observed {seen}"
    half = nbytes <= 0.75 * int(row["nbytes"])
    said = "half of the bytes cross" if half else "all bytes cross"
    if str(row["workload"]).endswith("cast"):
        said += f", cast {'before' if half else 'after'} the link"
    if match["memory"] != str(row["memory"]).replace("registered", "pinned"):
        said += f", through {match['memory']} memory that torch allocates"
    return said
