"""Both directions at once, `.to()`, many tensors, and copies that stay on GPUs."""

import math
from collections.abc import Callable, Iterator

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
    seconds,
    size,
    times,
    unseen,
    where,
)
from hostbench.report.words import DIRECTIONS

Answers = Iterator[tuple[str, str]]


def both_ways(rows: pd.DataFrame) -> Answers:
    """The total rate beside the sum of both directions alone, and what the observing pass saw."""
    found = where(rows, workload="transfer.both_ways")
    if len(found):
        yield "Do copies in both directions run at once?", _both_ways(largest(found), rows)


def _both_ways(found: pd.DataFrame, rows: pd.DataFrame) -> str:
    measured = ok(found)
    if measured.empty:
        return unseen(found)
    parts = []
    for row in dicts(measured):
        rate = float(row["gb_per_s"])
        text = f"{row['memory']}: {_observed(row)}, {units.format_rate(rate)} in all"
        one_way = int(row["nbytes"])
        alone = [_alone(rows, name, row["memory"], one_way) for name in DIRECTIONS]
        if None not in alone:
            together = sum(filter(None, alone))
            text += f", {rate / together:.0%} of the {units.format_rate(together)} of both alone"
        parts.append(text)
    named = lost(found, lambda row: str(row["memory"]))
    return f"{size(measured)} each way, {'; '.join(parts)}{named}{label(found)}"


def _observed(row: Row) -> str:
    found = row["findings"] if isinstance(row["findings"], dict) else {}
    share, at_once = found.get("both_ways_share"), found.get("both_at_once")
    if at_once not in (True, False):
        return "not observed"
    seen = f" (observed: {share:.0%} of the shorter one)" if isinstance(share, float) else ""
    return f"{'yes' if at_once else 'no, one after the other'}{seen}"


def _alone(rows: pd.DataFrame, workload: str, memory: str, nbytes: int) -> float | None:
    """GB/s of the non-blocking copy of one direction by itself."""
    known = times(where(rows, workload=workload, memory=memory, blocking=False))
    return units.gb_per_s(nbytes, known[nbytes]) if known.get(nbytes, 0) > 0 else None


def to_device(rows: pd.DataFrame) -> Answers:
    found = where(rows, workload="transfer.to_device")
    if len(found):
        question = "What does tensor.to(device) cost beside a copy_ into place?"
        in_place = where(rows, workload="transfer.host_to_device")
        yield question, _new_tensors(largest(found), in_place, mode)


def to_host(rows: pd.DataFrame) -> Answers:
    found = where(rows, workload="transfer.to_host")
    if len(found):
        question = 'What does tensor.to("cpu") cost beside a copy_ into place?'
        in_place = where(rows, workload="transfer.device_to_host")
        memory = ["pageable" if blocking else "pinned" for blocking in found["blocking"]]
        made = largest(found.assign(memory=memory))
        yield question, _new_tensors(made, in_place, lambda row: f"{mode(row)} (its choice)")


def _new_tensors(found: pd.DataFrame, in_place: pd.DataFrame, name: Callable[[Row], str]) -> str:
    """Into a new tensor with a warm and a cold cache, beside the same copy into one that is there.

    On the cpu device `.to("cpu")` has no pinned memory to choose: its rows say so themselves.
    """
    measured = ok(found)
    if measured.empty:
        return unseen(found)
    parts = []
    for _, group in measured.groupby(["memory", "blocking"], sort=False):
        first = dicts(group)[0]
        axes = {"memory": first["memory"], "blocking": first["blocking"]}
        copy_s = times(where(in_place, **axes)).get(int(first["nbytes"]))
        said = [f"copy_ {units.format_seconds(copy_s)}"] if copy_s else []
        for cache in ("warm", "cold"):
            new_s = seconds(group, cache=cache)
            if new_s:
                beside = f" ({factor(new_s, copy_s)})" if copy_s else ""
                said.append(f"new, {cache} cache {units.format_seconds(new_s)}{beside}")
        parts.append(f"{name(first)}: {', '.join(said)}")
    named = lost(found, lambda row: f"{mode(row)}, {row['cache']} cache")
    return f"{size(measured)}: {'; '.join(parts)}{named}{label(measured)}"


def many(rows: pd.DataFrame) -> Answers:
    """The same bytes as one tensor and as a thousand, in each way of calling."""
    found = where(rows, workload="transfer.many_tensors")
    if not len(found):
        return
    parts = []
    for _, group in ok(found).groupby("nbytes"):
        nbytes = int(group["nbytes"].iloc[0])
        num = int(group["num_tensors"].max())
        ways = []
        for row in dicts(group[group["num_tensors"] > 1]):
            axes = {"memory": row["memory"], "blocking": row["blocking"]}
            one_s = seconds(group, num_tensors=1, **axes)
            if one_s:
                each = units.format_seconds(row["seconds"] / num)
                ways.append(f"{mode(row)} {factor(row['seconds'], one_s)} ({each} each)")
        if ways:
            part = units.format_bytes(nbytes // num)
            parts.append(f"{num} of {part} take {', '.join(ways)}")
    question = "What do a thousand small tensors cost beside one of the same bytes?"
    named = lost(found, lambda row: f"{row['num_tensors']:.0f} tensors, {mode(row)}")
    yield question, "; ".join(parts) + named + label(found) if parts else unseen(found)


def between(rows: pd.DataFrame) -> Answers:
    inside = where(rows, workload="transfer.on_device")
    if len(inside):
        yield "How fast is a copy inside the device's memory?", _inside(largest(inside))
    peers = where(rows, workload="transfer.between_devices")
    if len(peers):
        yield "How fast is a copy from one GPU to another?", _peers(largest(peers))


def _inside(rows: pd.DataFrame) -> str:
    measured = dicts(ok(rows))
    if not measured:
        return unseen(rows)
    rate, limit = (float(measured[0][name]) for name in ("gb_per_s", "ceiling_gb_per_s"))
    of_it = "" if math.isnan(limit) else f", {rate / limit:.0%} of the ceiling"
    text = f"{size(rows)}: {units.format_rate(rate)}{of_it}; it is read and written, so the memory"
    return f"{text} moves {units.format_rate(2 * rate)}{label(rows)}"


def _peers(rows: pd.DataFrame) -> str:
    names = {"peer": "directly", "through_host": "through the host"}
    parts = [
        f"{names.get(row['route'], row['route'])} {units.format_rate(row['gb_per_s'])}"
        for row in dicts(ok(rows))
    ]
    if not parts:
        return unseen(rows)
    named = lost(rows, lambda row: names.get(row["route"], str(row["route"])))
    return f"{size(rows)}: {', '.join(parts)}{named}{label(rows)}"
