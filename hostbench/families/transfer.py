"""What is asked of the family transfer: how fast, is it asynchronous, does pinned memory pay."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.samples import by_launch, median, median_interval
from hostbench.families import question
from hostbench.families.question import Compare, Curve, Figure, Finding, Picture, Row, Rows

H2D, D2H = "transfer.host_to_device", "transfer.device_to_host"
DIRECTIONS = {H2D: "host to device", D2H: "device to host"}
SHORT = {H2D: "copy to device", D2H: "copy to host"}
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "workload": {H2D: DIRECTIONS[H2D], D2H: DIRECTIONS[D2H]},
    "blocking": {True: "sync", False: "async"},
    "cache": {"warm": "warm cache", "cold": "cold cache"},
    "direction": {"h2d": "H2D", "d2h": "D2H"},
    "route": {"peer": "directly", "through_host": "through the host"},
}
HEALTHY = 0.9
"""Share of the limit in packets that a link without a fault reaches: 0.90 to 0.99 in what is
published for PCIe Gen4 and Gen5."""
NEAR_BAND = 0.95  # share of the lowest published figure that still counts as the same
LONG_BYTES = 16 * units.MIB
"""From here on a copy takes as long as its link is slow; the launch counts for little."""
FAR_BELOW = 0.9
"""Below this share of the lowest figure that others measured nothing makes a link fine."""


def _waits(row: Row) -> str:
    """A call that need not wait, and does."""
    is_slow = row.axes.get("blocking") is False and row.findings.get("asynchronous") is False
    return "not async: the call waits" if is_slow else ""


def _copied(row: Row) -> str:
    """What the observing pass saw cross, as it is stored."""
    copies = row.findings.get("copies")
    return f"copied: {copies}" if copies else "what was copied was not observed"


def _plain_copy(row: Row) -> tuple[str, str, Mapping[str, AxisValue]]:
    """The copy into place in the same direction, from the same memory, called the same way."""
    is_to_host = row.workload.endswith("to_host") or row.axes.get("direction") == "d2h"
    # A blocking .to("cpu") allocates pageable memory, one that need not wait pinned memory.
    memory = row.axes.get("memory") or ("pageable" if row.axes["blocking"] else "pinned")
    axes = {"nbytes": row.axes["nbytes"], "memory": memory, "blocking": row.axes["blocking"]}
    return "copy_", D2H if is_to_host else H2D, axes


def asyncness(row: Row, rows: Rows) -> Iterator[Figure]:
    """1 - call / end to end; the probe behind a delay may contradict when the call returns."""
    if row.call_s is None or row.call_s < 0:
        reason = "the call's own time is not stored"
        yield Figure("asyncness", None, "share", status="refused", reason=reason)
        return
    share, is_async = 1 - row.call_s / row.time, row.findings.get("asynchronous")
    note = f"returns after {units.format_seconds(row.call_s)} of {units.format_seconds(row.time)}"
    if isinstance(is_async, bool) and is_async != (share > 0.5):
        note += ", which the delay probe contradicts"
    yield Figure("asyncness", share, "share", notes=(note,))


def _each_tensor(row: Row) -> str:
    num = int(row.axes["num_tensors"])
    size = units.format_bytes(int(row.axes["nbytes"]) // num)
    return f"{size} and {units.format_seconds(row.time / num)} each"


def _fastest(rows: Rows) -> Rows:
    """Of each direction the fastest copy from pinned memory at the largest size; those without a
    number where none has one. Small copies say nothing of a link."""
    copies = []
    for way in DIRECTIONS:
        pinned = question.where(rows, way, memory="pinned")
        long = [row for row in pinned if int(row.axes["nbytes"]) >= LONG_BYTES]
        rated = [row for row in question.valid(long) if row.gb_per_s] or long
        copies += sorted(rated, key=lambda r: (int(r.axes["nbytes"]), r.gb_per_s or 0.0))[-1:]
    return [replace(row, axes={"nbytes": row.axes["nbytes"]}) for row in copies]


def _is_fine(row: Row) -> bool | None:
    """Whether the link carries what it should, by what is known of it; None where nothing tells, or
    the launches lie on both sides. A floor, which an operator demands, can only say no."""
    # Throttling slows the GPU's clocks, and its link hardly at all.
    faults = [fault for fault in (row.link or "fine").split("; ") if ": throttled" not in fault]
    if faults and faults != ["fine"]:
        return False
    low, is_measured = row.published_low_gb_per_s, row.published_kind == "measured"
    if low is not None and is_measured and _reaches(row, NEAR_BAND * low):
        return True
    if low is not None and _reaches(row, low * (FAR_BELOW if is_measured else 1.0)) is False:
        return False
    if row.encoded_gb_per_s is not None or row.device == "simulated":
        return _reaches(row, HEALTHY * (row.ceiling_gb_per_s or 0.0))
    return _reaches(row, NEAR_BAND * low) if low is not None and is_measured else None


def _reaches(row: Row, gb_per_s: float) -> bool | None:
    """Whether the rate is at least this one; None where the launches' interval holds it."""
    moved = (row.gb_per_s or 0.0) * row.time
    low_s, high_s = median_interval([*row.by_launch.values()], 0.98)  # 1 % on each side
    if moved >= gb_per_s * high_s:
        return True
    return False if moved < gb_per_s * low_s else None


def _of_others(row: Row) -> str:
    """`others report 96%: 55.43 GB/s for H200 (source)`: shares of the same limit, if it is known;
    nothing where nothing is published."""
    ends, limit = (row.published_low_gb_per_s, row.published_high_gb_per_s), row.ceiling_gb_per_s
    shares = dict.fromkeys(f"{rate / limit:.0%}" for rate in ends if rate and limit)
    what = ": ".join(filter(None, [" to ".join(shares), row.published]))
    does = "demand" if row.published_kind == "floor" else "report"
    return f"others {does} {what}" if row.published else ""


def _share_of_limit(row: Row, rows: Rows) -> Iterator[Figure]:
    """One direction: the rate, its share of both limits beside others', what looks wrong."""
    rate = row.gb_per_s or 0.0
    share = row.beside_limit() or f"its limit: {row.ceiling or 'unknown'}"
    notes = ["; ".join(filter(None, [share, _of_others(row)]))]
    if row.encoded_gb_per_s is not None and rate < question.ABOVE * row.encoded_gb_per_s:
        encoded = units.format_rate(row.encoded_gb_per_s)
        notes.append(f"{rate / row.encoded_gb_per_s:.0%} of the encoded {encoded}")
    if (row.link or "fine") != "fine":
        notes.append(f"what looks wrong: {row.link}")
    elif _is_fine(row) is False:
        notes.append("nothing in the facts says why: look at NUMA placement and other traffic")
    yield Figure("", rate, "GB/s", notes=tuple(notes))


def _won_back(cold: Row, rows: Rows) -> Iterator[Figure]:
    """After so many copies pinning has paid: it costs what a cold pin and copy takes beyond a copy
    from memory pinned before. Said where the launches agree, which hardly one does by chance."""
    at = {"nbytes": cold.axes["nbytes"], "blocking": True}
    slow = question.first(rows, H2D, **at, memory="pageable")
    fast = question.first(rows, H2D, **at, memory="pinned")
    if slow is None or fast is None:
        return

    def copies(cold_s: float, slow_s: float, fast_s: float) -> float:
        return max(0.0, cold_s - fast_s) / (slow_s - fast_s) if slow_s > fast_s else math.inf

    counts = [*by_launch(copies, cold.by_launch, slow.by_launch, fast.by_launch).values()]
    low, high = median_interval(counts)
    if not math.isfinite(high):
        status = "refused" if low == math.inf else "undecided"
        reason = "no copy is established to gain anything"
        yield Figure("", None, "copies", status=status, reason=reason)
        return
    if high - low > max(1.0, median(counts)):
        reason = f"launches differ too much: from {max(0.0, low):.1f} to {high:.1f} is possible"
        yield Figure("", None, "copies", status="undecided", reason=reason)
        return
    once = units.format_seconds(max(0.0, cold.time - fast.time))
    each = units.format_seconds(slow.time - fast.time)
    yield Figure("", median(counts), "copies", notes=(f"{once} once, {each} gained per copy",))


def _in_all(row: Row, rows: Rows) -> Iterator[Figure]:
    share = row.number("both_ways_share")
    note = "" if share is None else f"overlapped share of the shorter one {share:.2f}"
    yield Figure("in all", row.gb_per_s, "GB/s", notes=(note,))


def _ways(kind: type[question.Question], text: str, **asked: Any) -> Iterator[question.Question]:
    """The same of both directions."""
    for way, name in DIRECTIONS.items():
        screen = str(asked.get("screen", "")).replace("{way}", SHORT[way])
        yield kind(text=text.format(name), workload=way, **{**asked, "screen": screen})


def _beside_copy(workload: str, text: str, **more: Any) -> Compare:
    return Compare(text=text, workload=f"transfer.{workload}", beside=_plain_copy, **more)


SYNC = {"memory": ("pageable", "pinned"), "blocking": True}
QUESTIONS = (
    *_ways(
        Compare, "How fast is a copy, {}?", unit="GB/s", note=_waits, screen="{way}, {nbytes}"
    ),
    Finding(
        text="Is non_blocking=True from {memory} memory asynchronous?", workload=H2D, also=(D2H,),
        finding="asynchronous", each=("memory",), figures=asyncness,
        where={"blocking": False, "memory": ("pageable", "pinned", "registered")},
        screen="{memory} is async",
    ),
    Compare(
        text="Does pinned memory pay?", workload=H2D, where=SYNC, claim={"memory": "pinned"},
        screen="pageable or pinned, sync",
    ),
    Finding(
        text="Is my link fine?", workload=H2D, also=(D2H,), select=_fastest, finding=_is_fine,
        devices=("cuda", "simulated"), figures=_share_of_limit,
        screen="my link is fine",
    ),
    *_ways(
        Curve, "Latency and bandwidth by size, {}", screen="{way} by size",
        fits=({"blocking": False, "memory": "pinned"}, {"blocking": True, "memory": "pageable"}),
    ),
    *_ways(
        Compare, "From which size is pinned memory faster, {}?", where=SYNC, over="nbytes",
        claim={"memory": "pinned"},
    ),
    Finding(
        text="After how many copies has pinning a tensor paid?", workload="transfer.pin_and_copy",
        where={"cache": "cold", "blocking": True}, figures=_won_back,
    ),
    Finding(
        text="Do copies in both directions run at once?", workload="transfer.both_ways",
        finding="both_at_once", figures=_in_all,
    ),
    _beside_copy("to_device", "What does tensor.to(device) cost beside copy_?"),
    _beside_copy("to_host", 'What does tensor.to("cpu") cost beside copy_?'),
    Compare(
        text="What do a thousand small tensors ({nbytes} in all) cost beside one?",
        workload="transfer.many_tensors", where={"num_tensors": (1000,)}, each=("nbytes",),
        beside=question.same("one tensor", "transfer.many_tensors", num_tensors=1),
        note=_each_tensor,
    ),
    _beside_copy("strided", "What does copying every second element cost?", note=_copied),
    _beside_copy("cast", "What does a cast to float16 during the copy cost?", note=_copied),
    _beside_copy(
        "cast_bfloat16", "What does a cast to bfloat16 during the copy cost?", note=_copied
    ),
    Compare(
        text="How are a thousand small tensors ({nbytes} in all) brought to the device?",
        workload="transfer.many_at_once", each=("nbytes",), note=_each_tensor,
    ),
    Finding(
        text="Is what a non_blocking copy brings to the host stale if it is read at once?",
        workload="transfer.read_back", where={"wait": "none"}, finding="stale",
    ),
    *(
        Compare(text=text, workload=f"transfer.{name}", unit="GB/s", note=Row.beside_limit)
        for name, text in (
            ("on_device", "How fast is a copy inside the device's memory?"),
            ("between_devices", "How fast is a copy from one GPU to another?"),
            ("host_to_all", "How fast are copies from the host to several GPUs at once?"),
        )
    ),
)  # fmt: skip
PICTURES = (
    Picture(
        choice="Copy", text="Copy: sync or async", workload=H2D, also=(D2H,), has_card=True,
        words={"workload": {H2D: "H2D", D2H: "D2H"}},
        usual={"workload": (H2D,), "memory": ("pinned", "pageable")},
    ),
)  # fmt: skip
