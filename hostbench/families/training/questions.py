"""What is asked of the family training: what wrappers cost and hold, what hides, what saves."""

import math
from collections.abc import Mapping
from dataclasses import replace
from operator import add, sub
from typing import Any

from hostbench.core.case import AxisValue
from hostbench.core.efficiency import by_launch, overlap
from hostbench.core.samples import launch_interval, median
from hostbench.core.units import about_bytes, format_seconds
from hostbench.families.training import KINDS
from hostbench.report.answer import Answer, Axis, Figure, Point, Rule, State
from hostbench.report.kinds import Compare, Finding, Question, Scaling, marks
from hostbench.report.kinds.parts import HARDLY, HIDES
from hostbench.report.kinds.question import figure
from hostbench.report.rows import Row, Rows, first, valid

STEP = "training.step"
FLOAT32: Mapping[str, AxisValue] = {"dtype": "float32"}
PER_RANK: Mapping[str, AxisValue] = {**FLOAT32, "batch": "per_rank"}
WRAPPED = ("ddp", "zero1", "fsdp2", "tensor_parallel")
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "wrap": {
        "plain": "one process", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp2": "FSDP2",
        "tensor_parallel": "tensor parallelism",
    },
    "batch": {"per_rank": "the same batch on each rank", "total": "one batch shared out"},
    "part": {
        "compute": "compute with the update", "optimizer": "the update alone",
        "communication": "communication alone",
    },
    "micro_batches": {number: f"{number} micro-batches" for number in (2, 4, 8)},
    "bucket_cap_mb": {number: f"{number}MiB" for number in (1, 5, 25, 100)},
    "sync": {"each": "a sum after each", "last": "no_sync before the last"},
    "reshard": {True: "parameters given up after the forward", False: "parameters kept"},
    "num_ahead": {0: "", 1: "1 layer ahead", 2: "2 layers ahead"},
    "params": {"float32": ""},
    "habit": {
        "none": "no habit", "item": ".item() in each step", "item_on_rank_0": ".item() on rank 0",
        "item_every_10": ".item() in every 10th step", "clip_grad_norm": "clip_grad_norm_",
    },
}  # fmt: skip


class Held(Finding):
    """What a rank holds by wrapper, beside one process."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        answer = Finding.answer(self, text, group, rows)
        plain = first(rows, STEP, wrap="plain", **PER_RANK)
        alone = [_held(plain, rows)] if plain else []
        held = [shown for shown in (*alone, *answer.figures) if shown.value is not None]
        bars = [Point(shown.label, shown.value or 0.0, text=str(shown)) for shown in held]
        rules = tuple(Rule(shown.label, shown.value or 0.0) for shown in alone)
        y = Axis("bytes of a rank", "bytes", better="lower")
        chart = marks.chart("bar", marks.LANES, y, bars, rules=rules)
        return replace(answer, figures=(*alone, *answer.figures), chart=chart)


class Exposed(Question):
    """The parts of a step, and the share of its communication that is hidden: 1 - exposed / all of
    it, where exposed is the step without its compute. Decided by the rule of `overlap`."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        named = {str(row.axes["part"]): row for row in valid(group)}
        bars = [marks.point(row, self.word("part", part)) for part, row in named.items()]
        figures = [figure(self.word("part", part), row) for part, row in named.items()]
        if lacking := {"step", "compute", "communication"} - named.keys():
            verdict = f"undecided: this run has no number of {', '.join(sorted(lacking))}"
            return self.made(text, "undecided", verdict, figures, lost=group)
        step, compute, alone = (named[n].by_launch for n in ("step", "compute", "communication"))
        hidden = overlap(by_launch(add, compute, alone), step, compute)
        share = Figure("hidden share", hidden.share, "share", low=hidden.low, high=hidden.high)
        if hidden.share is None:
            why = hidden.refused or hidden.undecided
            share = replace(share, status="refused" if hidden.refused else "undecided", reason=why)
        seconds = [*by_launch(sub, step, compute).values()] or [math.nan]
        low, high = launch_interval(seconds)
        between = f"99 % interval {format_seconds(low)} to {format_seconds(high)}"
        exposed = Figure("exposed", median(seconds), "s", low=low, high=high, note=between)
        bars.append(Point("exposed", max(0.0, median(seconds)), low=max(0.0, low), high=high))
        chart = marks.chart("bar", marks.LANES, marks.TIME, bars)
        state: State = "undecided"
        verdict = f"undecided: {share.reason}"
        if hidden.share is not None:
            is_much, is_some = hidden.share >= HIDES, hidden.share >= HARDLY
            state = "yes" if is_much else "partly" if is_some else "no"
            verdict = f"{hidden.share:.0%} of it, {str(share).partition(', ')[2]}; {exposed}"
        figures = [*figures, exposed, share]
        return self.made(text, state, verdict, figures, lost=group, chart=chart)


def _one_process(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
    return STEP, {**row.axes, "num_ranks": 1, "wrap": "plain"}


def _crowded(row: Row) -> str:
    return "oversubscribed" if row.is_oversubscribed else ""


def _waits(row: Row) -> str:
    """The share of its steps in which each rank waits for data."""
    named = [(name[5:], share) for name, share in row.findings.items() if name[:5] == "wait_"]
    return ", ".join(f"{rank.replace('_', ' ')} waits {share:.0%}" for rank, share in named)


def _held(row: Row, rows: Rows) -> Figure:
    held = [float(row.findings.get(f"{kind}_bytes") or 0) for kind in KINDS]
    parts = zip(KINDS, map(about_bytes, held), strict=True)
    note = ", ".join(f"{kind} {nbytes}" for kind, nbytes in parts)
    return Figure(WORDS["wrap"][row.axes["wrap"]], sum(held), "bytes", note=note)


def _over(text: str, workload: str, **more: Any) -> Compare:
    asked: dict[str, Any] = {"each": ("num_ranks",), "note": _crowded, **more}
    return Compare(text=text, workload=f"training.{workload}", **asked)


QUESTIONS = (
    _over(
        "What does a step over {num_ranks} cost, by wrapper?", "step",
        where={**PER_RANK, "wrap": WRAPPED}, beside=_one_process, beside_name="one process",
        screen="a step over {num_ranks}", learnt="{choice} over {num_ranks}",
        screen_each=({"wrap": "ddp"}, {"wrap": "fsdp2"}),
    ),
    Scaling(
        text="How does {wrap} scale, with {batch}?", workload=STEP,
        where={**FLOAT32, "wrap": WRAPPED}, each=("wrap", "batch"), beside=_one_process,
        beside_name="one process",
        parts=lambda row: int(row.axes["num_ranks"]) if row.axes["batch"] == "total" else 1,
    ),
    Held(
        text="Over {num_ranks}, does each hold what the formulas say?", workload=STEP,
        each=("num_ranks",), where={**PER_RANK, "wrap": WRAPPED}, finding="held_by_formula",
        beside=_held, of_call=False,
    ),
    _over(
        "What does bfloat16 save over {num_ranks}?", "step", where={"dtype": "bfloat16"},
        beside=lambda row: (STEP, {**row.axes, **FLOAT32}), beside_name="float32",
        devices=("cuda",),
    ),
    Exposed(
        text="How much of its communication does {wrap} over {num_ranks} hide?",
        workload="training.exposed", each=("wrap", "num_ranks"),
    ),
    _over(
        "What does no_sync save over {micro_batches} and {num_ranks}?", "accumulate",
        where={"micro_batches": (2, 4, 8)}, each=("micro_batches", "num_ranks"),
        claim={"sync": "last"},
    ),
    Scaling(
        text="Which size of buckets is enough over {num_ranks}?", workload="training.bucket",
        where={"gradient_as_bucket_view": True}, each=("num_ranks",), over="bucket_cap_mb",
        enough=True,
    ),
    _over(
        "What does gradient_as_bucket_view save over {num_ranks}?", "bucket",
        claim={"gradient_as_bucket_view": True}, baseline={"gradient_as_bucket_view": False},
        where={"bucket_cap_mb": 25},
    ),
    _over("What do the ways of FSDP2 cost over {num_ranks}?", "reshard"),
    _over(
        "What does splitting a block over {num_ranks} cost?", "tensor_parallel",
        where={"layout": ("columns_and_rows", "by_sequence", "fused")}, beside_name="one process",
        beside=lambda row: (row.workload, {"num_ranks": 1, "layout": "whole"}),
    ),
    _over(
        "What do workers of a DataLoader save over {num_ranks}?", "input",
        claim={"num_workers": 2}, note=_waits,
    ),
    _over("What does one .item() cost in a job of {num_ranks}?", "sync_trap"),
)  # fmt: skip
