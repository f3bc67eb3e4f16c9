"""What is asked of the family training: what wrappers cost and hold, what hides, what saves."""

from collections.abc import Mapping
from dataclasses import replace
from operator import add

from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch, overlap
from hostbench.core.units import about_bytes, format_seconds
from hostbench.families.training import KINDS
from hostbench.judge.conclude import conclude
from hostbench.report.answer import Answer, Axis, Figure, Point, joined
from hostbench.report.kinds import Compare, Enough, Parts, Question
from hostbench.report.kinds.parts import Efficiencies
from hostbench.report.kinds.question import LANES, TIME, chart, figure, time_point, without_number
from hostbench.report.rows import Row, Rows, first, valid

STEP = "training.step"
WRAPPED = ("ddp", "zero1", "fsdp2", "tensor_parallel")
FLOAT32: Mapping[str, AxisValue] = {"dtype": "float32"}
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "wrap": {
        "plain": "one process", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp2": "FSDP2",
        "tensor_parallel": "tensor parallel",
    },
    "batch": {"per_rank": "as many rows per rank", "total": "as many rows in all"},
}  # fmt: skip


def _one_process(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
    """What it is held against: as many rows per rank, or in all."""
    return STEP, {**row.axes, "num_ranks": 1, "wrap": "plain"}


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


class SpeedOfOne(Question):
    """What ranks leave of the speed of one process: its time over theirs, of a total batch over
    their number, too. Nothing, where the launches do not tell the times apart."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        ranks = sorted(valid(group), key=lambda row: int(row.axes["num_ranks"]))
        workload, axes = _one_process(ranks[0])
        alone = first(rows, workload, **axes)
        if alone is None:
            return self.made(text, "undecided", "undecided: one process has no number in this run")
        shares = [self._share(row, alone) for row in ranks]
        known = [alone, *ranks]
        times = [figure(self._over(row), row, note=_crowded(row)) for row in known]
        points = [time_point(row, float(row.axes["num_ranks"])) for row in known]
        ideal = (Point(x=float(row.axes["num_ranks"]), y=alone.time / _parts(row)) for row in known)
        is_told = any(share.value is not None for share in shares)
        return self.made(
            text,
            "figure" if is_told else "undecided",
            f"of the speed of one process {joined(map(str, shares))}",
            figures=(*times, *without_number(group, self)),
            chart=chart("line", Axis(title="ranks"), TIME, points, curve=tuple(ideal)),
        )

    def _over(self, row: Row) -> str:
        return self.word("num_ranks", row.axes["num_ranks"])

    def _share(self, row: Row, alone: Row) -> Figure:
        sure, label = conclude(row.by_launch, alone.by_launch), f"over {self._over(row)}"
        share = Figure(label=label, value=None, unit="share", note=_crowded(row))
        if sure.verdict == "undecided":
            return replace(share, status="undecided", reason="the launches do not tell")
        share = replace(share, value=sure.factor / _parts(row))
        if sure.is_few or sure.low is None or sure.high is None:
            return share
        return replace(share, low=sure.low / _parts(row), high=sure.high / _parts(row))


def _parts(row: Row) -> int:
    return int(row.axes["num_ranks"]) if row.axes["batch"] == "total" else 1


class Held(Question):
    """What a rank holds. That it is what the formulas say is a proof: a case has no number else."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        figures = []
        for row in valid(group):
            held = [float(row.findings.get(f"{kind}_bytes") or 0) for kind in KINDS]
            parts = zip(KINDS, map(about_bytes, held), strict=True)
            note = ", ".join(f"{kind} {nbytes}" for kind, nbytes in parts)
            name = self.word("wrap", row.axes["wrap"])
            figures.append(Figure(label=name, value=sum(held), unit="bytes", note=note))
        points = (Point(x=one.label, y=one.value or 0.0, text=one.note) for one in figures)
        return self.made(
            text,
            "figure",
            f"as the formulas say: {'; '.join(map(str, figures))}",
            figures=without_number(group, self),
            chart=chart("bar", LANES, Axis(title="bytes of a rank", unit="bytes"), points),
        )


QUESTIONS = (
    Compare(
        text="What does training over {num_ranks} cost beside one process, by rows per rank?",
        workload=STEP, where={**FLOAT32, "batch": "per_rank", "wrap": WRAPPED}, each=("num_ranks",),
        beside=_one_process, beside_name="one process", note=_crowded,
        screen="a step over {num_ranks}", learnt="{choice} over {num_ranks}",
    ),
    SpeedOfOne(
        text="How does {wrap} scale, with {batch}?",
        workload=STEP, where={**FLOAT32, "wrap": WRAPPED}, each=("wrap", "batch"),
    ),
    Held(
        text="What does each of {num_ranks} hold?",
        workload=STEP, where={**FLOAT32, "batch": "per_rank"}, each=("num_ranks",),
    ),
    Compare(
        text="What does bfloat16 save over {num_ranks}?",
        workload=STEP, where={"dtype": "bfloat16"}, each=("num_ranks",), devices=("cuda",),
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
        workload="training.accumulate", where={"num_micro_batches": (2, 4, 8)},
        each=("num_micro_batches", "num_ranks"), claim={"sync": "last"},
    ),
    Enough(
        text="Which size of buckets is enough over {num_ranks}?",
        workload="training.bucket", where={"gradient_as_bucket_view": True},
        each=("num_ranks",), over="bucket_bytes",
    ),
    Compare(
        text="What does gradient_as_bucket_view save over {num_ranks}?",
        workload="training.bucket", each=("num_ranks",),
        claim={"gradient_as_bucket_view": True}, baseline={"gradient_as_bucket_view": False},
    ),
    Compare(
        text="What do resharding, prefetch and type change in FSDP2 over {num_ranks}?",
        workload="training.reshard", each=("num_ranks",),
    ),
    Compare(
        text="What does a block that is split over {num_ranks} cost beside one process?",
        workload="training.tensor_parallel", each=("num_ranks",),
        where={"layout": ("columns_and_rows", "by_sequence", "compiled", "fused")},
        beside=lambda row: (row.workload, {"num_ranks": 1, "layout": "whole"}),
        beside_name="one process", note=_crowded,
    ),
    Compare(
        text="What do workers of a DataLoader in each of {num_ranks} save?",
        workload="training.input", each=("num_ranks",), claim={"num_workers": 2},
        note=lambda row: f"waits for data: {row.findings.get('waits_by_rank')}",
    ),
    Compare(
        text="What does reading the loss cost a job of {num_ranks}?",
        workload="training.sync_trap", each=("num_ranks",),
    ),
)  # fmt: skip
