"""Is the link between host and device well? What was measured against what it can carry."""

import math
from collections.abc import Iterator

import pandas as pd

from hostbench.core import units
from hostbench.report.rows import Row, dicts, label, largest, ok, unseen

QUESTION = "Is my link fine?"

HEALTHY = 0.9
"""Share of the ceiling in packets that a link without a fault reaches: 0.90 to 0.99 in what is
published for PCIe Gen4 and Gen5 (docs/method.md)."""

NEAR_BAND = 0.95
"""Share of the lowest published figure that still counts as the same."""

FAR_BELOW = 0.9
"""Below this share of the lowest figure that others measured nothing makes a link fine."""

_WAYS = {
    "transfer.host_to_device": "host to device",
    "transfer.device_to_host": "device to host",
}


def link(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """The question and its answer from the family's rows of one run; nothing where neither ran."""
    copies = rows[rows["workload"].isin(_WAYS)]
    if len(copies):
        yield QUESTION, _host_memory(copies) if _is_cpu(copies) else _link(copies)


def _is_cpu(rows: pd.DataFrame) -> bool:
    measured = ok(rows)
    return set((measured if len(measured) else rows)["device"]) == {"cpu"}


def _link(copies: pd.DataFrame) -> str:
    pinned = copies[copies["memory"] == "pinned"]
    best = _best(pinned)
    if not best:
        return unseen(pinned if len(pinned) else copies)
    judged = [_is_fine(row) for row in best]
    wrong = next((str(row["link"]) for row in best if _text(row["link"])), "fine")
    faults = [] if wrong == "fine" else [one for one in wrong.split("; ") if _limits(one)]
    missing = _missing(copies)
    if faults or False in judged:
        verdict = "no"
    elif None in judged:
        verdict = "cannot be judged"
    else:
        only = " and ".join(_WAYS[row["workload"]] for row in best)
        verdict = f"only {only} could be judged, and is fine" if missing else "yes"
    found = "" if wrong == "fine" else f". What looks wrong: {wrong}"
    if verdict == "no" and not found:
        found = ". Nothing in the facts says why: look at NUMA placement and other traffic"
    return f"{verdict}: {'; '.join([*map(_way, best), *missing])}{found}{label(pinned)}"


def _missing(copies: pd.DataFrame) -> list[str]:
    """The directions of which no copy from or to pinned memory has a valid number; why."""
    found = []
    for workload, way in _WAYS.items():
        rows = copies[copies["workload"] == workload]
        pinned = rows[rows["memory"] == "pinned"]
        if not len(ok(pinned)):
            found.append(
                f"{way}: {unseen(pinned if len(pinned) else rows[rows['status'] != 'ok'])}"
            )
    return found


def _limits(verdict: str) -> bool:
    """Throttling slows the GPU's clocks, and its link hardly at all."""
    return ": throttled" not in verdict


def _best(rows: pd.DataFrame) -> list[Row]:
    """The fastest measured row of each direction at the largest size."""
    found = []
    for workload in _WAYS:
        measured = ok(largest(rows[rows["workload"] == workload])).dropna(subset=["gb_per_s"])
        if len(measured):
            found += dicts(measured.nlargest(1, "gb_per_s"))
    return found


def _is_fine(row: Row) -> bool | None:
    """None where nothing can tell: no measured figure of others, and no packet model.

    A floor, which an operator demands, can only make it False.
    """
    rate, low = float(row["gb_per_s"]), float(row["published_low_gb_per_s"])
    encoded, limit = float(row["encoded_gb_per_s"]), float(row["ceiling_gb_per_s"])
    measured = row["published_kind"] == "measured"
    if measured and rate >= NEAR_BAND * low:
        return True
    if rate < low * (FAR_BELOW if measured else 1.0):  # False where low is NaN
        return False
    if not math.isnan(encoded) or row["device"] == "simulated":
        return rate >= HEALTHY * limit
    return False if measured else None


def _way(row: Row) -> str:
    """One direction: the rate, its share of both ceilings, and what is published."""
    rate, limit = float(row["gb_per_s"]), float(row["ceiling_gb_per_s"])
    size = units.format_bytes(int(row["nbytes"]))
    text = f"{_WAYS[row['workload']]} {units.format_rate(rate)} ({size})"
    if math.isnan(limit):
        text += f", its ceiling is unknown ({row['ceiling']})"
    else:
        text += f" is {rate / limit:.0%} of the {units.format_rate(limit)} that the link can carry"
        text += f" ({row['ceiling']})"
    encoded = float(row["encoded_gb_per_s"])
    if not math.isnan(encoded):
        text += f" and {rate / encoded:.0%} of the encoded {units.format_rate(encoded)}"
    return text + (f", published: {row['published']}" if _text(row["published"]) else "")


def _host_memory(copies: pd.DataFrame) -> str:
    """The cpu device has no link: how its copies compare with a plain memory copy."""
    best = _best(copies)
    if not best:
        return unseen(copies)
    parts = []
    for row in best:
        rate, limit = float(row["gb_per_s"]), float(row["ceiling_gb_per_s"])
        text = f"{_WAYS[row['workload']]} {units.format_rate(rate)}"
        parts.append(text if math.isnan(limit) else f"{text}, {rate / limit:.0%} of it")
    limit = float(best[0]["ceiling_gb_per_s"])
    memory = str(best[0]["ceiling"])
    if not math.isnan(limit):
        memory = f"the limit is {memory}: {units.format_rate(limit)}"
    size = units.format_bytes(int(best[0]["nbytes"]))
    return f"there is no link here; {memory}. Copies of {size}: {'; '.join(parts)}{label(copies)}"


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)
