"""Copy and compute loops: each way to write one against serial and ideal. No streamlit."""

from dataclasses import dataclass

import pandas as pd
from derive import hover

from hostbench.core import units
from hostbench.core.efficiency import Efficiency
from hostbench.report.overlap import SCHEDULES, loops
from hostbench.report.side_stream import lines

HALVES = {"copy_only": "copies alone", "compute_only": "compute alone"}
SERIAL = {"serial": "serial: wait for each copy and each compute"}
WORDS = {**HALVES, **SERIAL, **SCHEDULES}

_FROM_EFFICIENCY = {
    "ideal_s": "ideal_s",
    "share": "share",
    "share_low": "low",
    "share_high": "high",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The loops of one batch size and one kind of memory."""

    nbytes: int
    memory: str
    rows: pd.DataFrame
    ideal_s: float | None
    """The bound that the report names, too; None where every efficiency is refused."""


def pipelines(rows: pd.DataFrame) -> pd.DataFrame:
    """Loops in the order of WORDS with ideal, efficiency (`share`), its interval or refusal."""
    found = hover(rows)
    held = {(one.nbytes, one.memory, one.schedule): one.efficiency for one in loops(rows)}
    keys = list(zip(found["batch_bytes"], found["memory"], found["schedule"], strict=True))
    known = [held.get((int(size), memory, schedule)) for size, memory, schedule in keys]
    found["size"] = [units.format_bytes(int(size)) for size in found["batch_bytes"]]
    found["what"] = found["schedule"].map(WORDS)
    found["asyncness"] = 1 - found["call_s"] / found["seconds"]
    for column, field in _FROM_EFFICIENCY.items():
        found[column] = pd.Series([getattr(one, field, None) for one in known], found.index, float)
    found["efficiency"] = [_said(one) for one in known]
    found["refused"] = [
        _refused(one, schedule, status)
        for one, schedule, status in zip(known, found["schedule"], found["status"], strict=True)
    ]
    place = found["schedule"].map(list(WORDS).index)
    ordered = found.assign(place=place).sort_values(["batch_bytes", "memory", "place"])
    return ordered.drop(columns="place").reset_index(drop=True)


def _refused(known: Efficiency | None, schedule: str, status: str) -> str:
    """Why an overlapped loop with a number has no efficiency."""
    if schedule not in SCHEDULES or status != "ok":
        return ""
    return known.refused or "" if known else "serial has no valid number"


def _said(known: Efficiency | None) -> str:
    if known is None or known.share is None:
        return ""
    if known.low is None or known.high is None:
        return f"{known.share:.2f} (no interval)"
    return f"{known.share:.2f} ({known.low:.2f} to {known.high:.2f})"


def groups(found: pd.DataFrame) -> list[Group]:
    """By size, then memory; only those that have a number."""
    made = []
    for _, rows in found.groupby(["batch_bytes", "memory"], sort=True):
        if rows["seconds"].notna().any():
            ideals = rows["ideal_s"].dropna()
            made.append(
                Group(
                    nbytes=int(rows["batch_bytes"].iloc[0]),
                    memory=str(rows["memory"].iloc[0]),
                    rows=rows,
                    ideal_s=float(ideals.iloc[0]) if len(ideals) else None,
                )
            )
    return made


def refusals(found: pd.DataFrame) -> list[str]:
    """Each refusal in words with the loops that it concerns."""
    refused = found[found["refused"] != ""]
    which = refused["memory"] + " " + refused["size"] + ", " + refused["what"]
    return [
        f"No efficiency is said, because {why}: {'; '.join(names)}."
        for why, names in which.groupby(refused["refused"], sort=False)
    ]


def side_stream(found: pd.DataFrame) -> list[str]:
    """What a copy on a side stream does from each kind of memory, at the largest batch: as the
    report says it."""
    biggest = found[found["batch_bytes"] == found["batch_bytes"].max()]
    loop = biggest[biggest["schedule"] == "copy_stream"]
    return lines(biggest, dict(zip(loop["memory"], loop["share"], strict=True)))
