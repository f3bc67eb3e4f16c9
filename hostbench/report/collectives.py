"""The answers of the family `collectives`: how all-reduce scales, and what a small one costs."""

from collections.abc import Iterator

import pandas as pd

from hostbench.core import units
from hostbench.core.bandwidth import bus_bytes_per_s, scaling_efficiency
from hostbench.core.units import KIB
from hostbench.ranks.backends import BACKENDS
from hostbench.report.rows import Row, dicts, label, ok, size, unseen

SMALL_BYTES = 64 * KIB
"""Up to here the time is latency, and a bandwidth says little."""


def collectives(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Question and answer: the largest size with a bandwidth, the smallest one with a time."""
    small = rows["nbytes"] <= SMALL_BYTES
    if not small.all():
        yield "How does all-reduce scale?", _scaling(rows[~small])
    if small.any():
        yield "What does a small all-reduce cost?", _latency(rows[small])


def backend_of(device: str) -> str:
    """How ranks on that kind of device talk to each other."""
    found = BACKENDS.get(device)
    return found.name if found else "an unknown backend"


def _scaling(rows: pd.DataFrame) -> str:
    sizes = _with_several_ranks(rows)
    if not sizes:
        return unseen(rows[rows["num_ranks"] > 1])
    chosen = rows[rows["nbytes"] == max(sizes)]
    measured = dicts(ok(chosen[chosen["num_ranks"] > 1]).sort_values("num_ranks"))
    bus = {_num(row): _bus(row) for row in measured}
    efficiency = scaling_efficiency(bus)
    fewest = min(efficiency)
    parts = []
    for row in measured:
        share = f"{100 * efficiency[_num(row)]:.0f} % of the {fewest}-rank bandwidth"
        rate = units.format_rate((bus[_num(row)] or 0.0) / units.GB)
        notes = [share] * (_num(row) > fewest) + _flags(row)
        parts.append(f"{rate} at {_ranks(row)}{_noted(notes)}")
    lacking = _missing(chosen) + _passed_over(rows[rows["nbytes"] > max(sizes)])
    return f"{_what(chosen)}, bus bandwidth: {', '.join(parts)}{lacking}{label(rows)}"


def _latency(rows: pd.DataFrame) -> str:
    sizes = _with_several_ranks(rows) or set(ok(rows)["nbytes"])
    if not sizes:
        return unseen(rows)
    chosen = rows[rows["nbytes"] == min(sizes)]
    parts = [
        f"{units.format_seconds(row['seconds'])} over {_ranks(row)}{_noted(_flags(row))}"
        for row in dicts(ok(chosen).sort_values("num_ranks"))
    ]
    lacking = _missing(chosen) + _passed_over(rows[rows["nbytes"] < min(sizes)])
    return f"{_what(chosen)}: {', '.join(parts)}{lacking}{label(rows)}"


def _with_several_ranks(rows: pd.DataFrame) -> set[int]:
    """The sizes that have a number at 2 or more ranks."""
    return set(ok(rows[rows["num_ranks"] > 1])["nbytes"])


def _what(rows: pd.DataFrame) -> str:
    return f"{size(rows)} by {backend_of(str(rows['device'].iloc[0]))}"


def _missing(rows: pd.DataFrame) -> str:
    """The numbers of ranks without a number, with the reason."""
    lacking = dicts(rows[(rows["status"] != "ok")].sort_values("num_ranks"))
    return "".join(f"; {_ranks(row)}: {row['status']}, {row['reason']}" for row in lacking)


def _passed_over(rows: pd.DataFrame) -> str:
    """The sizes that were asked for but have no number at 2 or more ranks, with the reasons."""
    said = ""
    for _, some in rows.groupby("nbytes"):
        lacking = dicts(some[some["status"] != "ok"].sort_values("num_ranks"))
        for row in lacking:
            said += f"; {size(some)} at {_ranks(row)}: {row['status']}, {row['reason']}"
        if not any(_num(row) > 1 for row in lacking):
            said += f"; {size(some)}: not measured at 2 or more ranks"
    return said


def _bus(row: Row) -> float | None:
    return bus_bytes_per_s(int(row["nbytes"]), row["seconds"], _num(row))


def _num(row: Row) -> int:
    return int(row["num_ranks"])


def _ranks(row: Row) -> str:
    return f"{_num(row)} rank{'s' * (_num(row) > 1)}"


def _flags(row: Row) -> list[str]:
    return ["oversubscribed"] if "oversubscribed" in str(row["flags"]) else []


def _noted(notes: list[str]) -> str:
    return f" ({', '.join(notes)})" if notes else ""
