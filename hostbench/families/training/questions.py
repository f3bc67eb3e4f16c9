"""What is asked of the family training: what wrappers cost and hold, what hides, what saves."""

from collections.abc import Mapping
from dataclasses import replace
from operator import add
from typing import Any

from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch, overlap
from hostbench.core.units import about_bytes, format_seconds
from hostbench.families.training import KINDS
from hostbench.report.answer import Answer, Axis, Figure, Point, Ratio
from hostbench.report.kinds import Compare, Parts, Question, Scaling
from hostbench.report.kinds.marks import LANES, chart
from hostbench.report.kinds.parts import Efficiencies
from hostbench.report.kinds.question import figure, without_number
from hostbench.report.rows import Row, Rows, valid, where

STEP = "training.step"
FLOAT32: Mapping[str, AxisValue] = {"dtype": "float32"}
WRAPPED = {**FLOAT32, "wrap": ("ddp", "zero1", "fsdp2", "tensor_parallel")}
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "wrap": {"plain": "one process", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp2": "FSDP2"},
    "batch": {"per_rank": "as many rows per rank", "total": "as many rows in all"},
    "sync": {"each": "a sum after each", "last": "no_sync before the last"},
}


def _crowded(row: Row) -> str:
    return "oversubscribed" if row.is_oversubscribed else ""


def _hidden(serial: Launches, step: Launches, parts: Mapping[str, Launches]) -> Efficiencies:
    """Of the communication alone the share that is not exposed: 1 - (step - compute) / it."""
    both = by_launch(add, parts["compute"], parts["communication"])
    return {"": overlap(both, step, parts["compute"])}


def _exposed(named: Mapping[str, Row]) -> str:
    if not {"step", "compute"} <= named.keys():
        return ""
    seconds = max(0.0, named["step"].time - named["compute"].time)
    return f"Exposed, the step without its compute: {format_seconds(seconds)}, of the medians."


class Speed(Scaling):
    """What ranks leave of the speed of one process: its time over theirs, of a total batch over
    their number, too."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        same = {**FLOAT32, "batch": group[0].axes["batch"]}
        alone = where(rows, STEP, wrap="plain", **same)
        answer = Scaling.answer(self, text, [*alone, *group], rows)
        if answer.chart is None or not valid(alone):
            return answer
        ends = (alone[0], max(group, key=self._count))
        ideal = [Point(x=self._count(row), y=alone[0].time / self._parts(row)) for row in ends]
        return replace(answer, chart=replace(answer.chart, curve=tuple(ideal)))

    def _parts(self, row: Row) -> int:
        return self._count(row) if row.axes["batch"] == "total" else 1

    def _rate(self, row: Row) -> float:
        return 1 / (self._parts(row) * row.time)

    def _figure(self, row: Row, measured: Rows, floor: Row | None = None) -> Figure:
        alone, notes = measured[0], [_crowded(row)]
        if row is alone or self._count(alone) > 1:
            return figure(self._name(row), row, note=notes[0])
        left = self._against(row, alone)
        if left.is_different and not left.is_few and left.low and left.high:
            notes.append(f"99 % interval {left.low:.0%} to {left.high:.0%}")
        ratio = Ratio(to="one process", conclusion=left, of_rates=True)
        return figure(self._name(row), row, ratio=ratio, note=", ".join(filter(None, notes)))


class Held(Question):
    """What a rank holds. That it is what the formulas say is a proof: else it has no number."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        figures = []
        for row in valid(group):
            held = [float(row.findings.get(f"{kind}_bytes") or 0) for kind in KINDS]
            parts = zip(KINDS, map(about_bytes, held), strict=True)
            note = ", ".join(f"{kind} {nbytes}" for kind, nbytes in parts)
            name = self.word("wrap", row.axes["wrap"])
            figures.append(Figure(label=name, value=sum(held), unit="bytes", note=note))
        points = (Point(x=each.label, y=each.value or 0.0, text=each.note) for each in figures)
        bars = chart("bar", LANES, Axis(title="bytes of a rank", unit="bytes"), points)
        verdict = f"as the formulas say: {'; '.join(map(str, figures))}"
        lost = without_number(group, self)
        return self.made(text, "figure", verdict, figures=(*figures, *lost), chart=bars)


EACH: dict[str, Any] = {"each": ("num_ranks",), "note": _crowded}
QUESTIONS = (
    Compare(
        text="What does training over {num_ranks} cost beside one process, by rows per rank?",
        workload=STEP, where={**WRAPPED, "batch": "per_rank"}, **EACH,
        beside=lambda row: (STEP, {**row.axes, "num_ranks": 1, "wrap": "plain"}),
        beside_name="one process", screen="a step over {num_ranks}",
        learnt="{choice} over {num_ranks}",
    ),
    Speed(
        text="How does {wrap} scale, with {batch}?",
        workload=STEP, where=WRAPPED, each=("wrap", "batch"),
    ),
    Held(
        text="What does each of {num_ranks} hold?",
        workload=STEP, where={**FLOAT32, "batch": "per_rank"}, each=("num_ranks",),
    ),
    Compare(
        text="What does bfloat16 save over {num_ranks}?",
        workload=STEP, where={"dtype": "bfloat16"}, devices=("cuda",), **EACH,
        beside=lambda row: (STEP, {**row.axes, **FLOAT32}), beside_name="float32",
    ),
    Parts(
        text="How much of its communication does {wrap} over {num_ranks} hide?",
        workload="training.exposed", each=("wrap", "num_ranks"), axis="part", serial="serial",
        ways=("step",), parts=("compute", "communication"), efficiency=_hidden, remark=_exposed,
        screen="{wrap} beside its compute",
    ),
    Compare(
        text="What does no_sync save over {num_micro_batches}, {num_ranks}?",
        workload="training.accumulate", each=("num_micro_batches", "num_ranks"),
        claim={"sync": "last"},
    ),
    Scaling(
        text="Which size of buckets is enough over {num_ranks}?",
        workload="training.bucket", where={"gradient_as_bucket_view": True}, each=("num_ranks",),
        over="bucket_bytes", enough=True,
    ),
    Compare(
        text="What does gradient_as_bucket_view save over {num_ranks}?",
        workload="training.bucket", claim={"gradient_as_bucket_view": True},
        baseline={"gradient_as_bucket_view": False}, **EACH,
    ),
    Compare(
        text="What do resharding, layers ahead and type change in FSDP2 over {num_ranks}?",
        workload="training.reshard", **EACH,
    ),
    Compare(
        text="What does a block that is split over {num_ranks} cost beside one process?",
        workload="training.tensor_parallel", **EACH,
        where={"layout": ("columns_and_rows", "by_sequence", "compiled", "fused")},
        beside=lambda row: (row.workload, {"num_ranks": 1, "layout": "whole"}),
        beside_name="one process",
    ),
    Compare(
        text="What do workers of a DataLoader in each of {num_ranks} save?",
        workload="training.input", each=("num_ranks",), claim={"num_workers": 2},
        note=lambda row: f"waits for data: {row.findings.get('waits_by_rank')}",
    ),
    Compare(
        text="What does reading the loss cost a job of {num_ranks}?",
        workload="training.sync_trap", **EACH,
    ),
)  # fmt: skip
