"""What is asked of the family transfer: how fast, is it asynchronous, does pinned memory pay."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch
from hostbench.core.latency import break_even
from hostbench.core.samples import launch_interval, median
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report.answer import Answer, Figure, Ratio, ScreenLine, State
from hostbench.report.kinds import Compare, Curve, Finding, Question
from hostbench.report.kinds.question import ABOVE, NOT_ASKED, beside_limit, few_launches, why
from hostbench.report.rows import Row, Rows, first, valid, where

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
_COPY = re.compile(r"1 x (?P<way>H2D|D2H) (?P<memory>pageable|pinned), (?P<size>.+) in all")

HEALTHY = 0.9
"""Share of the limit in packets that a link without a fault reaches: 0.90 to 0.99 in what is
published for PCIe Gen4 and Gen5."""
NEAR_BAND = 0.95
"""Share of the lowest published figure that still counts as the same."""
FAR_BELOW = 0.9
"""Below this share of the lowest figure that others measured nothing makes a link fine."""


def _waits(row: Row) -> str:
    """A call that need not wait, and does."""
    is_slow = row.axes.get("blocking") is False and row.findings.get("asynchronous") is False
    return "not async: the call waits" if is_slow else ""


def _crossed(row: Row) -> str:
    """What the observing pass saw cross, in words; as it is stored where it is something else."""
    observed = row.findings.get("copies")
    if not isinstance(observed, str):
        return "what crossed was not observed"
    match = _COPY.fullmatch(observed)
    try:
        nbytes = units.parse_bytes(match["size"]) if match else None
    except ValueError:
        nbytes = None
    if match is None or nbytes is None:
        return f"observed {observed}"
    is_half = nbytes <= 0.75 * (row.nbytes or 0)
    said = "half of the bytes cross" if is_half else "all bytes cross"
    if row.workload.endswith("cast"):
        said += f", cast {'before' if is_half else 'after'} the link"
    if match["memory"] != str(row.axes["memory"]).replace("registered", "pinned"):
        said += f", through {match['memory']} memory that torch allocates"
    return said


def _plain_copy(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
    """The copy into place in the same direction, from the same memory, called the same way."""
    turned = {"h2d": H2D, "d2h": D2H}.get(str(row.axes.get("direction")))
    to_host = row.workload.endswith("to_host")
    # A blocking .to("cpu") allocates pageable memory, one that need not wait pinned memory.
    memory = row.axes.get("memory") or ("pageable" if row.axes["blocking"] else "pinned")
    axes = {"nbytes": row.axes["nbytes"], "memory": memory, "blocking": row.axes["blocking"]}
    return turned or (D2H if to_host else H2D), axes


def _one_tensor(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
    return row.workload, {**row.axes, "num_tensors": 1}


def _each_tensor(row: Row) -> str:
    num = int(row.axes["num_tensors"])
    size = units.format_bytes(int(row.axes["nbytes"]) // num)
    return f"{size} and {units.format_seconds(row.time / num)} each"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkHealth(Question):
    """Is the link between host and device well? What was measured against what it can carry."""

    def answers(self, rows: Rows) -> Iterator[Answer]:
        copies = [row for row in rows if row.workload in DIRECTIONS and row.device != "cpu"]
        pinned = where(copies, memory="pinned")
        best = _fastest(pinned)
        if best:
            lacking = [way for way in DIRECTIONS if way not in {row.workload for row in best}]
            state, verdict, notes = _judged(best, lacking)
            figures = [*map(_share_of_limit, best)]
            rates = ", ".join(units.format_rate(row.gb_per_s or 0.0) for row in best)
            short = verdict.partition(":")[0]
            line = ScreenLine(what="my link, both directions", figures=rates, verdict=short)
            figures += [_not_measured(way, where(copies, way)) for way in lacking]
            yield self.made(
                self.text, state, verdict, figures=tuple(figures), notes=notes, lines=(line,)
            )
        elif copies:
            yield self.unavailable(self.text, pinned or copies)


_Judged = tuple[State, str, tuple[str, ...]]
"""State, verdict and notes of an answer."""


def _judged(best: Rows, lacking: Sequence[str]) -> _Judged:
    found = {_health(row) for row in best}
    wrong = next((row.link for row in best if row.link), "fine")
    # Throttling slows the GPU's clocks, and its link hardly at all.
    faults = [one for one in wrong.split("; ") if one != "fine" and ": throttled" not in one]
    said = () if wrong == "fine" else (f"What looks wrong: {wrong}.",)
    if faults or "short" in found:
        unknown = "Nothing in the facts says why: look at NUMA placement and other traffic."
        return "no", "no: it carries less than it should", said or (unknown,)
    if "unknown" in found:
        return "undecided", "cannot be judged: nothing tells what it should carry", said
    if "unsure" in found:
        few = few_launches(best) or "launches lie on both sides of what it should carry"
        return "undecided", f"undecided: {few}", said
    if lacking:
        only = " and ".join(DIRECTIONS[row.workload] for row in best)
        return "partly", f"only {only} could be judged, and is fine", said
    return "yes", "fine", said


def _fastest(rows: Rows) -> list[Row]:
    """The fastest measured row of each direction at the largest size."""
    found = []
    for way in DIRECTIONS:
        measured = [row for row in valid(where(rows, way)) if row.gb_per_s]
        if measured:
            size = max(int(row.axes["nbytes"]) for row in measured)
            at = where(measured, nbytes=size)
            found.append(max(at, key=lambda row: row.gb_per_s or 0))
    return found


Health = Literal["fine", "short", "unsure", "unknown"]
"""It carries what it should, or less; the launches do not tell, or nothing tells what it should."""
_HEALTH: Mapping[bool | None, Health] = {True: "fine", False: "short", None: "unsure"}


def _health(row: Row) -> Health:
    """A floor, which an operator demands, can only make it short."""
    low = row.published_low_gb_per_s
    is_measured = row.published_kind == "measured"
    if low is not None:
        if is_measured and _reaches(row, NEAR_BAND * low):
            return "fine"
        if _reaches(row, low * (FAR_BELOW if is_measured else 1.0)) is False:
            return "short"
    if row.encoded_gb_per_s is not None or row.device == "simulated":
        return _HEALTH[_reaches(row, HEALTHY * (row.ceiling_gb_per_s or 0.0))]
    return "unknown" if low is None or not is_measured else _HEALTH[_reaches(row, NEAR_BAND * low)]


def _reaches(row: Row, gb_per_s: float) -> bool | None:
    """Whether the rate is at least this one; None where the launches' interval holds it."""
    moved = (row.gb_per_s or 0.0) * row.time
    low_s, high_s = launch_interval([*row.by_launch.values()])
    if moved >= gb_per_s * high_s:
        return True
    return False if moved < gb_per_s * low_s else None


def _share_of_limit(row: Row) -> Figure:
    """One direction: the rate, its share of both limits, and what is published."""
    rate = row.gb_per_s or 0.0
    said = [beside_limit(row) or f"its limit: {row.ceiling}"]
    if row.encoded_gb_per_s is not None and rate < ABOVE * row.encoded_gb_per_s:
        encoded = units.format_rate(row.encoded_gb_per_s)
        said.append(f"{rate / row.encoded_gb_per_s:.0%} of the encoded {encoded}")
    said += [f"published: {row.published}"] if row.published else []
    size = units.format_bytes(int(row.axes["nbytes"]))
    label = f"{DIRECTIONS[row.workload]}, {size}"
    return Figure(label=label, value=rate, unit="GB/s", note="; ".join(said))


def _not_measured(way: str, rows: Rows) -> Figure:
    lost = [why(row) for row in where(rows, memory="pinned") if not row.is_valid]
    failed = [one for one in lost if one[0] == "failed"]
    status, reason = next(iter((*failed, *lost)), ("not measured", NOT_ASKED))
    return Figure(label=DIRECTIONS[way], value=None, unit="GB/s", status=status, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinningPays(Question):
    """After how many copies the cost of pinning has been won back.

    Pinning costs what a cold pin and copy takes beyond a copy from memory pinned before.
    """

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        copies = where(rows, H2D, blocking=True)
        figures: list[Figure] = []
        told: list[str] = []
        gains: list[Conclusion] = []
        for nbytes in sorted({int(row.axes["nbytes"]) for row in group}):
            cold, warm = (
                first(group, nbytes=nbytes, cache=c, blocking=True) for c in ("cold", "warm")
            )
            slow, fast = (first(copies, nbytes=nbytes, memory=m) for m in ("pageable", "pinned"))
            size = units.format_bytes(nbytes)
            if cold and slow and fast:
                gains.append(conclude(fast.by_launch, slow.by_launch))
                one = _won_back(f"{size}, copies", (cold, slow, fast), gains[-1])
                figures.append(one)
                told += [] if one.value is None else [f"after {one.value:.1f} copies of {size}"]
            if warm and slow:
                anew = conclude(warm.by_launch, slow.by_launch)
                ratio = Ratio(to="a pageable copy", conclusion=anew)
                label = f"{size}, pinning anew, warm cache"
                figures.append(Figure(label=label, value=warm.time, unit="s", ratio=ratio))
        if told:
            return self.made(text, "figure", "; ".join(told), figures=tuple(figures))
        state: State = "undecided"
        verdict = "undecided: no copy is established to gain anything"
        if not gains:
            verdict = "undecided: no size has a cold pin_memory() and both plain copies"
        elif any(one.verdict == "faster" for one in gains):
            verdict = "undecided: a copy gains something, but launches differ too much to say more"
        elif all(one.verdict in ("slower", "same") for one in gains):
            state, verdict = "no", "never: no copy gains anything"
        return self.made(text, state, verdict, figures=tuple(figures))


def _won_back(label: str, parts: tuple[Row, Row, Row], gain: Conclusion) -> Figure:
    """So many copies, where the rule says that a copy gains something, and the launches how many.
    `parts`: pinned anew, pageable, pinned before."""
    cold, slow, fast = parts
    cost_s = cold.time - fast.time
    found = break_even(cost_s, slow.time, fast.time)
    refused = found.refused
    if gain.verdict != "faster":
        refused = "no copy is established to gain anything"
    if refused:
        return Figure(label=label, value=None, unit="", status="refused", reason=refused)
    counts = by_launch(_copies, *(part.by_launch for part in parts))
    low, high = launch_interval([*counts.values()])
    if high - low > max(1.0, found.copies) or not low <= found.copies + 1e-9 <= high + 2e-9:
        why = f"launches differ too much: from {max(0.0, low):.1f} to {high:.1f} is possible"
        return Figure(label=label, value=None, unit="", status="undecided", reason=why)
    once, each = units.format_seconds(max(0.0, cost_s)), units.format_seconds(found.gain_s)
    return Figure(
        label=label, value=found.copies, unit="", note=f"{once} once, {each} gained per copy"
    )


def _copies(cold_s: float, slow_s: float, fast_s: float) -> float:
    """In one launch; endless where a copy gains nothing."""
    return max(0.0, cold_s - fast_s) / (slow_s - fast_s) if slow_s > fast_s else math.inf


def _of_both_alone(row: Row, rows: Rows) -> Figure:
    """The rate of both together beside the sum of each alone."""
    same = {name: row.axes[name] for name in ("memory", "nbytes")}
    alone = [first(rows, way, **same, blocking=False) for way in DIRECTIONS]
    ratio = None
    if row.gb_per_s and (expected := _at_both_rates([one.by_launch for one in alone if one])):
        together = row.gb_per_s * row.time / median([*expected.values()])
        ratio = Ratio(
            to=f"both alone ({units.format_rate(together)})",
            conclusion=conclude(row.by_launch, expected),
            of_rates=True,
        )
    size = units.format_bytes(int(row.axes["nbytes"]))
    label = f"{row.axes['memory']}, {size} each way, in all"
    return Figure(label=label, value=row.gb_per_s, unit="GB/s", ratio=ratio)


def _at_both_rates(alone: Sequence[Launches]) -> Launches:
    """How long both together take where each keeps its rate; nothing without both."""
    if len(alone) != 2:
        return {}
    return by_launch(lambda there_s, back_s: 2 / (1 / there_s + 1 / back_s), *alone)


QUESTIONS = (
    *(
        Compare(
            text=f"How fast is a copy, {name}?",
            workload=way,
            show="rate",
            note=_waits,
            screen=f"{SHORT[way]}, {{nbytes}}",
        )
        for way, name in DIRECTIONS.items()
    ),
    Finding(
        text="Is non_blocking=True from {memory} memory asynchronous?",
        workload=H2D,
        also=(D2H,),
        finding="asynchronous",
        where={"blocking": False},
        each=("memory",),
        stretch={True: "async", False: "not async", None: "not to be told"},
        screen="non_blocking=True, {memory}",
    ),
    Compare(
        text="Does pinned memory pay?",
        workload=H2D,
        where={"memory": ("pageable", "pinned"), "blocking": True},
        claim={"memory": "pinned"},
        screen="pageable or pinned, sync",
    ),
    LinkHealth(text="Is my link fine?", workload=H2D),
    *(
        Curve(
            text=f"What do latency and bandwidth make of a copy, {name}?",
            workload=way,
            fits=(
                {"blocking": False, "memory": "pinned"},
                {"blocking": True, "memory": "pageable"},
            ),
            screen=f"{SHORT[way]} by size",
        )
        for way, name in DIRECTIONS.items()
    ),
    *(
        Curve(
            text=f"From which size on is pinned memory faster, {name}?",
            workload=way,
            where={"blocking": True, "memory": ("pageable", "pinned")},
            crossing=("memory", "pageable", "pinned"),
        )
        for way, name in DIRECTIONS.items()
    ),
    PinningPays(
        text="After how many copies has pinning a tensor paid?", workload="transfer.pin_and_copy"
    ),
    Finding(
        text="Do copies in both directions run at once?",
        workload="transfer.both_ways",
        finding="both_at_once",
        share="both_ways_share",
        beside=_of_both_alone,
    ),
    *(
        Compare(
            text=f"What does {call} cost beside a copy_ into place?",
            workload=workload,
            beside=_plain_copy,
            beside_name="copy_",
        )
        for workload, call in (
            ("transfer.to_device", "tensor.to(device)"),
            ("transfer.to_host", 'tensor.to("cpu")'),
        )
    ),
    Compare(
        text="What do a thousand small tensors of {nbytes} in all cost beside one?",
        workload="transfer.many_tensors",
        where={"num_tensors": (1000,)},
        each=("nbytes",),
        beside=_one_tensor,
        beside_name="one tensor",
        note=_each_tensor,
    ),
    *(
        Compare(
            text=f"What does {what} hide?",
            workload=workload,
            beside=_plain_copy,
            beside_name="a plain copy",
            note=_crossed,
        )
        for workload, what in (
            ("transfer.strided", "copying every second element"),
            ("transfer.cast", "a cast on the way (float32 to float16)"),
        )
    ),
    Curve(
        text="How fast is a copy inside the device's memory?",
        workload="transfer.on_device",
    ),
    Compare(
        text="How fast is a copy from one GPU to another?",
        workload="transfer.between_devices",
        show="rate",
        note=beside_limit,
    ),
)
