"""The answers of the family `collectives`: how all-reduce scales, and what a small one costs."""

from collections.abc import Iterator

import pandas as pd

from hostbench import units
from hostbench.bandwidth import bus_bytes_per_s, scaling_efficiency
from hostbench.report.rows import Row, dicts, label, largest, ok, size, unseen
from hostbench.units import KIB

SMALL_BYTES = 64 * KIB
"""Up to here the time is latency, and a bandwidth says little."""
_BACKENDS = {"cuda": "nccl", "cpu": "gloo"}


def collectives(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Question and answer: the largest size as bandwidth, the smallest as time."""
    if rows["nbytes"].max() > SMALL_BYTES:
        yield "How does all-reduce scale?", _scaling(largest(rows))
    smallest = rows[rows["nbytes"] == rows["nbytes"].min()]
    if rows["nbytes"].min() <= SMALL_BYTES:
        yield "What does a small all-reduce cost?", _latency(smallest)


def _scaling(rows: pd.DataFrame) -> str:
    measured = dicts(ok(rows).sort_values("num_ranks"))
    bus = {_num(row): _bus(row) for row in measured}
    efficiency = scaling_efficiency(bus)
    if not efficiency:
        return unseen(rows[rows["num_ranks"] > 1])
    fewest = min(efficiency)
    parts = []
    for row in measured:
        rate = bus[_num(row)]
        if rate is None:
            continue
        notes = [f"{100 * efficiency[_num(row)]:.0f} %"] if _num(row) > fewest else []
        text = f"{units.format_rate(rate / units.GB)} at {_num(row)} ranks"
        parts.append(text + _noted(notes + _flags(row)))
    return f"{_what(rows)}, bus bandwidth: {', '.join(parts)}{_missing(rows)}{label(rows)}"


def _latency(rows: pd.DataFrame) -> str:
    measured = ok(rows).sort_values("num_ranks")
    if measured.empty:
        return unseen(rows)
    parts = [
        f"{units.format_seconds(row['seconds'])} over {_num(row)} rank{'s' * (_num(row) > 1)}"
        + _noted(_flags(row))
        for row in dicts(measured)
    ]
    return f"{_what(rows)}: {', '.join(parts)}{_missing(rows)}{label(rows)}"


def _what(rows: pd.DataFrame) -> str:
    device = str(rows["device"].iloc[0])
    return f"{size(rows)} by {_BACKENDS.get(device, device)}"


def _missing(rows: pd.DataFrame) -> str:
    """The numbers of ranks without a number, with the reason."""
    lacking = dicts(rows[(rows["status"] != "ok")].sort_values("num_ranks"))
    return "".join(f"; {_num(row)} ranks: {row['status']}, {row['reason']}" for row in lacking)


def _bus(row: Row) -> float | None:
    return bus_bytes_per_s(int(row["nbytes"]), row["seconds"], _num(row))


def _num(row: Row) -> int:
    return int(row["num_ranks"])


def _flags(row: Row) -> list[str]:
    return ["oversubscribed"] if "oversubscribed" in str(row["flags"]) else []


def _noted(notes: list[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
