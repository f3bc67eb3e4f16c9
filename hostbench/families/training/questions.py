"""What is asked of the family training: what wrappers cost and hold, what hides, what saves."""

from collections.abc import Mapping
from operator import add
from typing import Any

from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch, overlap
from hostbench.core.units import about_bytes, format_seconds
from hostbench.families.training import KINDS
from hostbench.report.answer import Figure
from hostbench.report.kinds import Compare, Finding, Parts, Scaling
from hostbench.report.kinds.parts import Efficiencies
from hostbench.report.rows import Row, Rows

STEP = "training.step"
FLOAT32: Mapping[str, AxisValue] = {"dtype": "float32"}
WRAPPED = {**FLOAT32, "wrap": ("ddp", "zero1", "fsdp2", "tensor_parallel")}
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "wrap": {"plain": "one process", "ddp": "DDP", "zero1": "ZeRO-1", "fsdp2": "FSDP2"},
    "batch": {"per_rank": "as many rows per rank", "total": "as many rows in all"},
    "micro_batches": {number: f"{number} micro-batches" for number in (2, 4, 8)},
    "bucket_cap_mb": {number: f"{number}MiB" for number in (1, 5, 25, 100)},
    "sync": {"each": "a sum after each", "last": "no_sync before the last"},
}


def _one_process(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
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


def _waits(row: Row) -> str:
    """The share of its steps in which each rank waits for data."""
    named = [(name[5:], share) for name, share in row.findings.items() if name[:5] == "wait_"]
    return ", ".join(f"{rank.replace('_', ' ')} waits {share:.0%}" for rank, share in named)


def _held(row: Row, rows: Rows) -> Figure:
    held = [float(row.findings.get(f"{kind}_bytes") or 0) for kind in KINDS]
    parts = zip(KINDS, map(about_bytes, held), strict=True)
    note = ", ".join(f"{kind} {nbytes}" for kind, nbytes in parts)
    name = WORDS["wrap"].get(row.axes["wrap"], "tensor parallel")
    return Figure(label=name, value=sum(held), unit="bytes", note=note)


def _over(text: str, workload: str, **more: Any) -> Compare:
    asked: dict[str, Any] = {"each": ("num_ranks",), "note": _crowded, **more}
    return Compare(text=f"{text} over {{num_ranks}}?", workload=f"training.{workload}", **asked)


QUESTIONS = (
    _over(
        "What does training cost beside one process, by rows per rank,", "step",
        where={**WRAPPED, "batch": "per_rank"}, beside=_one_process, beside_name="one process",
        screen="a step over {num_ranks}", learnt="{choice} over {num_ranks}",
    ),
    Scaling(
        text="How does {wrap} scale, with {batch}?", workload=STEP, where=WRAPPED,
        each=("wrap", "batch"), alone=_one_process,
        parts=lambda row: int(row.axes["num_ranks"]) if row.axes["batch"] == "total" else 1,
    ),
    Finding(
        text="Does each of {num_ranks} hold what the formulas say?", workload=STEP,
        each=("num_ranks",), where={**FLOAT32, "batch": "per_rank"}, finding="held_by_formula",
        beside=_held, of_call=False,
    ),
    _over(
        "What does bfloat16 save", "step", where={"dtype": "bfloat16"}, devices=("cuda",),
        beside=lambda row: (STEP, {**row.axes, **FLOAT32}), beside_name="float32",
    ),
    Parts(
        text="How much of its communication does {wrap} over {num_ranks} hide?",
        workload="training.exposed", each=("wrap", "num_ranks"), axis="part", serial="serial",
        ways=("step",), parts=("compute", "communication"), efficiency=_hidden, remark=_exposed,
        screen="{wrap} beside its compute",
    ),
    _over(
        "What does no_sync save over {micro_batches}", "accumulate", claim={"sync": "last"},
        where={"micro_batches": (2, 4, 8)}, each=("micro_batches", "num_ranks"),
    ),
    Scaling(
        text="Which size of buckets is enough over {num_ranks}?", workload="training.bucket",
        where={"gradient_as_bucket_view": True}, each=("num_ranks",), over="bucket_cap_mb",
        enough=True,
    ),
    _over(
        "What does gradient_as_bucket_view save", "bucket", claim={"gradient_as_bucket_view": True},
        baseline={"gradient_as_bucket_view": False}, where={"bucket_cap_mb": 25},
    ),
    _over("What do resharding, layers ahead and type change in FSDP2", "reshard"),
    _over(
        "What does splitting a block cost beside one process", "tensor_parallel",
        where={"layout": ("columns_and_rows", "by_sequence", "fused")}, beside_name="one process",
        beside=lambda row: (row.workload, {"num_ranks": 1, "layout": "whole"}),
    ),
    _over(
        "What do workers of a DataLoader save", "input", claim={"num_workers": 2},
        note=_waits,
    ),
    _over("What does reading the loss cost", "sync_trap"),
)  # fmt: skip
