"""What is asked of the family training: what wrappers cost and hold, what hides, what saves."""

from collections.abc import Iterator, Mapping
from typing import Any

from hostbench.core.case import AxisValue
from hostbench.core.units import format_bytes
from hostbench.families import question
from hostbench.families.question import Compare, Figure, Finding, Parts, Picture, Row, Rows, Scaling

KINDS = ("parameter", "gradient", "optimizer")
"""Of what a rank holds."""
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


def _waits(row: Row) -> str:
    """The share of its steps in which each rank waits for data."""
    named = [(name[5:], share) for name, share in row.findings.items() if name[:5] == "wait_"]
    return ", ".join(f"{rank.replace('_', ' ')} waits {share:.0%}" for rank, share in named)


def _held(row: Row, _: Rows) -> Iterator[Figure]:
    """What a rank holds; by DDP that is what one process does."""
    held = [float(row.findings.get(f"{kind}_bytes") or 0) for kind in KINDS]
    parts = [f"{kind} {format_bytes(nbytes)}" for kind, nbytes in zip(KINDS, held, strict=True)]
    yield Figure("", sum(held), "bytes", notes=(", ".join(parts),))


def _over(text: str, workload: str, **more: Any) -> Compare:
    asked: dict[str, Any] = {"each": ("num_ranks",), **more}
    return Compare(text=text, workload=f"training.{workload}", **asked)


ONE_PROCESS = question.same("one process", STEP, num_ranks=1, wrap="plain")
QUESTIONS = (
    _over(
        "What does a step over {num_ranks} cost, by wrapper?", "step",
        where={**PER_RANK, "wrap": WRAPPED}, beside=ONE_PROCESS,
        screen="step, {num_ranks}", screen_each={"wrap": ("ddp", "fsdp2")},
    ),
    Compare(
        text="How does {wrap} scale, with {batch}?", workload=STEP,
        where={**FLOAT32, "wrap": WRAPPED}, each=("wrap", "batch"), beside=ONE_PROCESS,
        over="num_ranks",
        work=lambda row: 1 / int(row.axes["num_ranks"]) if row.axes["batch"] == "total" else 1.0,
    ),
    Finding(
        text="Over {num_ranks}, does each hold what the formulas say?", workload=STEP,
        each=("num_ranks",), where={**PER_RANK, "wrap": WRAPPED}, finding="held_by_formula",
        figures=_held,
    ),
    _over(
        "What does bfloat16 save over {num_ranks}?", "step", where={"dtype": "bfloat16"},
        beside=question.same("float32", STEP, **FLOAT32), devices=("cuda",),
    ),
    Parts(
        text="How much of its communication does {wrap} over {num_ranks} hide?",
        workload="training.exposed", each=("wrap", "num_ranks"), axis="part", ways=("step",),
        parts=("compute", "optimizer", "communication"),
        serial=lambda compute, optimizer, communication: compute + communication,
        ideal=lambda compute, optimizer, communication: compute,
    ),
    _over(
        "What does no_sync save over {micro_batches} and {num_ranks}?", "accumulate",
        where={"micro_batches": (2, 4, 8)}, each=("micro_batches", "num_ranks"),
        claim={"sync": "last"},
    ),
    Scaling(
        text="Which size of buckets is enough over {num_ranks}?", workload="training.bucket",
        where={"gradient_as_bucket_view": True}, each=("num_ranks",), over="bucket_cap_mb",
    ),
    _over(
        "What does gradient_as_bucket_view save over {num_ranks}?", "bucket",
        claim={"gradient_as_bucket_view": True}, baseline={"gradient_as_bucket_view": False},
        where={"bucket_cap_mb": 25},
    ),
    _over("What do the ways of FSDP2 cost over {num_ranks}?", "reshard"),
    _over(
        "What does splitting a block over {num_ranks} cost?", "tensor_parallel",
        where={"layout": ("columns_and_rows", "by_sequence", "fused")},
        beside=question.same(
            "one process", "training.tensor_parallel", num_ranks=1, layout="whole"
        ),
    ),
    _over(
        "What do workers of a DataLoader save over {num_ranks}?", "input",
        claim={"num_workers": 2}, note=_waits,
    ),
    _over("What does one .item() cost in a job of {num_ranks}?", "sync_trap"),
)  # fmt: skip
PICTURES = (
    Picture(
        choice="Training", text="A step of training over ranks", workload=STEP,
        x=("num_ranks",), measures=(question.TIME,),
        usual={"batch": ("per_rank",), "dtype": ("float32",)},
    ),
    Picture(
        choice="Step", text="Parts of a training step", workload="training.exposed",
        x=("num_ranks",),
    ),
)  # fmt: skip
