"""Does pinned memory pay: by how much, from which size on, and after how many copies."""

from collections.abc import Iterator

import pandas as pd

from hostbench.core import units
from hostbench.core.latency import break_even, crossover
from hostbench.report.rows import (
    Row,
    dicts,
    factor,
    label,
    largest,
    ok,
    size,
    times,
    unseen,
    where,
)
from hostbench.report.winner import NO_DIFFERENCE, differ, no_interval, over_same
from hostbench.report.words import DIRECTIONS, crossed

H2D = "transfer.host_to_device"


def pays(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    copies = where(rows, workload=H2D)
    if len(copies):
        yield "Does pinned memory pay?", _pays(copies)


def pinning(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """From which size on, and after how many copies."""
    copies = where(rows, workload=H2D)
    yield from _crossovers(rows)
    made = where(rows, workload="transfer.pin_and_copy")
    if len(made):
        yield "After how many copies has pinning a tensor paid?", _break_even(made, copies)


def _pays(h2d: pd.DataFrame) -> str:
    both = set(h2d.loc[h2d["memory"] == "pinned", "nbytes"])
    both &= set(h2d.loc[(h2d["memory"] == "pageable") & h2d["blocking"].astype(bool), "nbytes"])
    biggest = largest(h2d[h2d["nbytes"].isin(both)] if both else h2d)
    pinned = ok(biggest[biggest["memory"] == "pinned"])
    if pinned.empty:
        return unseen(biggest[biggest["memory"] == "pinned"])
    plain = dicts(where(ok(biggest), memory="pageable", blocking=True))
    if not plain:
        return "cannot be said: the pageable copy has no number"
    base, best = plain[0], dicts(pinned.nsmallest(1, "seconds"))[0]
    slow, fast = base["seconds"], best["seconds"]
    note = no_interval([best, base], ", no interval")
    return (
        f"{_verb(best, base)}: {size(pinned)} host to device take "
        f"{units.format_seconds(fast)} from pinned memory, {units.format_seconds(slow)} from "
        f"pageable ({factor(slow, fast)}{note}){label(pinned)}"
    )


def _verb(pinned: Row, pageable: Row) -> str:
    """By more than SAME, as for the crossover, and by more than the intervals."""
    for verb, fast, slow in (("yes", pinned, pageable), ("no", pageable, pinned)):
        if differ(fast, slow) and over_same(fast, slow):
            return verb
    return NO_DIFFERENCE


def _crossovers(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Each direction of which both kinds of memory were asked for at two sizes or more."""
    said: dict[str, str] = {}
    lacking = []
    for workload, direction in DIRECTIONS.items():
        copies = where(rows, workload=workload, blocking=True)
        both = [where(copies, memory=memory) for memory in ("pageable", "pinned")]
        if len(set(both[0]["nbytes"]) & set(both[1]["nbytes"])) < 2:
            continue
        pageable, pinned = map(times, both)
        without = pd.concat([one for one in both if len(ok(one)) < 2] or both)
        without = without[without["status"] != "ok"]
        if len(set(pageable) & set(pinned)) > 1:
            said[direction] = crossed(crossover(pageable, pinned))
        elif len(without):
            said[direction] = unseen(without)
            lacking.append(without)
    if not said:
        return
    question = "From which size on is pinned memory faster?"
    if len(lacking) == len(said):
        yield question, unseen(pd.concat(lacking))
        return
    yield question, "; ".join(f"{one}, {text}" for one, text in said.items()) + label(rows)


def _break_even(made: pd.DataFrame, copies: pd.DataFrame) -> str:
    """Pinning costs what a cold pin and copy takes beyond a copy from memory pinned before."""
    cold = times(where(made, cache="cold", blocking=True))
    warm = times(where(made, cache="warm", blocking=True))
    pageable = times(where(copies, memory="pageable", blocking=True))
    pinned = times(where(copies, memory="pinned", blocking=True))
    sizes = sorted(set(cold) & set(pageable) & set(pinned))
    if not sizes:
        if ok(made).empty:
            return unseen(made)
        return "cannot be said: no size has a cold pin_memory() and both plain copies"
    parts = [_paid(nbytes, cold, pageable, pinned) for nbytes in sizes]
    anew = [f"{_name(n)} {factor(warm[n], pageable[n])}" for n in sizes if n in warm]
    if anew:
        parts.append(f"pinning anew for every copy, with a warm cache, takes {', '.join(anew)} ")
        parts[-1] += "of the pageable copy's time"
    return "; ".join(parts) + label(made)


def _paid(
    nbytes: int, cold: dict[int, float], pageable: dict[int, float], pinned: dict[int, float]
) -> str:
    cost_s = cold[nbytes] - pinned[nbytes]
    found = break_even(cost_s, pageable[nbytes], pinned[nbytes])
    if found.refused:
        return f"{_name(nbytes)}: never, {found.refused}"
    once, gain = units.format_seconds(max(0.0, cost_s)), units.format_seconds(found.gain_s)
    return f"{_name(nbytes)}: after {found.copies:.1f} ({once} once, {gain} gained per copy)"


def _name(nbytes: int) -> str:
    return units.format_bytes(nbytes)
