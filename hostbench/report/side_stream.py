"""The loop that most articles print: a copy stream and non_blocking=True, from either memory."""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from hostbench.core import units
from hostbench.families.overlap.loops import NUM_BATCHES
from hostbench.measure.measure import asyncness
from hostbench.report.rows import Row, dicts, label, ok, unseen

QUESTION = "What does the usual snippet (a copy stream, non_blocking=True) do from pageable memory?"


def snippet(biggest: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Where CUDA is: a cpu device's copies are asynchronous from pageable memory, too."""
    rows = biggest[(biggest["schedule"] == "copy_stream") & (biggest["memory"] == "pageable")]
    if rows.empty or set(rows["device"]) == {"cpu"}:
        return
    measured = dicts(ok(rows))
    if not measured:
        yield QUESTION, unseen(rows)
        return
    row = measured[0]
    size = units.format_bytes(int(row["batch_bytes"]))
    words = [f"{NUM_BATCHES} batches of {size} take {units.format_seconds(row['seconds'])}"]
    yield QUESTION, f"{', '.join([*words, *_seen(row)])}; {held(row)}{label(rows)}"


def _seen(row: Row) -> list[str]:
    """What the observing pass saw of the device: the host may be held while the device overlaps."""
    found = row["findings"] if isinstance(row["findings"], dict) else {}
    share = found.get("overlap_share")
    if not isinstance(share, int | float):
        return []
    return [f"observed: copies and computes ran side by side for {share:.0%} of the shorter"]


def held(row: Row) -> str:
    """How much of the loop its own calls keep the host busy or waiting."""
    if not row["call_s"] > 0 or not row["seconds"] > 0:
        return "the calls' own time is not stored"
    share = asyncness(row["call_s"], row["seconds"])
    return (
        f"the calls hold the host for {100 * (1 - share):.0f} % of the loop (asyncness {share:.2f})"
    )


def lines(biggest: pd.DataFrame, shares: Mapping[str, float]) -> list[str]:
    """The same from each kind of memory, with its efficiency where it is known; NaN is not."""
    rows = biggest[(biggest["schedule"] == "copy_stream") & (biggest["status"] == "ok")]
    found = []
    for row in dicts(rows):
        share = shares.get(row["memory"], math.nan)
        said = "not said" if math.isnan(share) else f"{share:.2f}"
        size, time = (
            units.format_bytes(int(row["batch_bytes"])),
            units.format_seconds(row["seconds"]),
        )
        found.append(
            f"From {row['memory']} memory on a stream of its own, batches of {size}: {time}, "
            f"efficiency {said}, {held(row)}."
        )
    return found
