"""training: what training over ranks costs, in the ways that torch has for it.

Every rank proves that two steps give what one process gets, bit for bit; that all have the same
parameters; what it sends; and what it holds. The slowest rank's time counts.
"""

from dataclasses import replace
from typing import Any

from hostbench import DEVICES, Device, Prepared, suite, workload

ORDER = 45  # of the families in a report
PRELOAD = ("hostbench.families.trainer", "torch._dynamo")


def setup_cache():
    return suite.measure("training")


LAYERS = {"cpu": (64, 4, 512), "cuda": (1024, 8, 4096)}
"""Rows of a rank, and layers of width x width: 4MiB of float32 on cpu, 512MiB on cuda."""
BLOCK = {"cpu": (128, 0, 256), "cuda": (1024, 0, 4096)}
"""Rows and width of one transformer block: 3MiB, 768MiB."""
TOTAL = 4  # ranks, whose rows are a `total` batch


def _on_two(device: str, num_ranks: int, **_: Any) -> bool:
    """On cpu over 2 ranks alone: more would share cores."""
    return device == "cuda" or num_ranks == 2


def _workload(*num_ranks: int, axes: dict[str, Any], **options: Any) -> Any:
    """`@workload` over 2, 4 and 8 ranks and these, with what most declare."""
    ranks: dict[str, Any] = {"device": DEVICES, "num_ranks": (*num_ranks, 2, 4, 8)}
    usual: dict[str, Any] = {"only": _on_two, "sampling": 0.5, "version": "1", **options}
    return workload(axes={**ranks, **axes}, ranks=lambda num_ranks, **_: num_ranks, **usual)


QUICK = ("plain", "ddp", "fsdp2")
WRAPS = (*QUICK, "zero1", "tensor_parallel")


def _code() -> Any:
    """What trains: it needs torch, which this file is read without."""
    from hostbench.families import trainer

    return trainer


def _model(device: Device, sizes: Any = LAYERS, dtype: str = "float32", **other: Any) -> Any:
    import torch

    rows, layers, width = sizes[device.torch_device.type]
    return replace(_code().Shape(rows, layers, width, getattr(torch, dtype)), **other)


def _steps(device: str, num_ranks: int, wrap: str, batch: str, dtype: str) -> bool:
    """One process is plain; a total batch is of DDP, too. bfloat16 and 8 ranks on GPUs alone."""
    is_here = device == "cuda" or (num_ranks < 8 and dtype == "float32")
    is_asked = batch == "per_rank" or wrap in QUICK[:2]
    return is_here and is_asked and (num_ranks == 1) == (wrap == "plain")


@_workload(
    1,
    axes={"wrap": WRAPS, "batch": ("per_rank", "total"), "dtype": ("float32", "bfloat16")},
    only=_steps,
    quick=lambda num_ranks, wrap, batch, dtype, **_: (
        num_ranks <= 2 and wrap in QUICK and (batch, dtype) == ("per_rank", "float32")
    ),
)
def step(device: Device, num_ranks: int, wrap: str, batch: str, dtype: str) -> Prepared:
    """A step of training. Timed: the slowest rank's, with a synchronize.

    Each rank has rows of its own, always as many, or its part of a total batch; by tensor
    parallelism it computes a part of each layer on all of them."""
    model = _model(device, dtype=dtype)
    rows = model.rows if batch == "per_rank" else TOTAL * model.rows // num_ranks
    return _code().Trainer(wrap, replace(model, rows=rows)).prepared()


@_workload(
    axes={"wrap": ("ddp", "fsdp2"), "part": ("step", "compute", "optimizer", "communication")},
    version="2",
)
def exposed(device: Device, num_ranks: int, wrap: str, part: str) -> Prepared:
    """A step, and its parts alone. Timed: as `step`.

    The compute is all that the wrapper does but communicate: with its copies, and the update, which
    is also timed alone. The communication is the step's collectives, of the same sizes."""
    return _code().part_of_step(wrap, _model(device), part)


@_workload(
    axes={"micro_batches": (1, 2, 4, 8), "sync": ("each", "last")},
    only=lambda micro_batches, sync, **axes: (
        _on_two(**axes) and (micro_batches > 1 or sync == "each")  # of one both are the same
    ),
)
def accumulate(device: Device, num_ranks: int, micro_batches: int, sync: str) -> Prepared:
    """DDP's step over micro-batches of a quarter of the rows. Timed: all of them and one update.

    Gradients are summed over ranks after each, or after the last (`no_sync` before it)."""
    model = _model(device, micro_batches=micro_batches)
    model = replace(model, rows=model.rows // 4)
    return _code().Trainer("ddp", model, 1 if sync == "last" else None).prepared()


@_workload(
    axes={"bucket_cap_mb": (1, 5, 25, 100), "gradient_as_bucket_view": (True, False)},
    only=lambda bucket_cap_mb, gradient_as_bucket_view, **axes: (
        _on_two(**axes) and (gradient_as_bucket_view or bucket_cap_mb == 25)
    ),
)
def bucket(
    device: Device, num_ranks: int, bucket_cap_mb: int, gradient_as_bucket_view: bool
) -> Prepared:
    """DDP's step of 8 layers with buckets of so many MiB. Timed: as `step`."""
    options = {"gradient_as_bucket_view": gradient_as_bucket_view, "bucket_cap_mb": bucket_cap_mb}
    return _code().Trainer("ddp", _model(device, layers=8), **options).prepared()


@_workload(
    axes={"reshard": (True, False), "num_ahead": (0, 1, 2), "params": ("float32", "bfloat16")},
    only=lambda device, num_ranks, reshard, num_ahead, params: (
        _on_two(device, num_ranks)
        and (device == "cuda" or params == "float32")
        and [reshard, num_ahead == 0, params == "float32"].count(False) < 2  # one thing at a time
    ),
    needs=lambda num_ahead, **_: ["streams of torch"] if num_ahead else [],
)
def reshard(device: Device, num_ranks: int, reshard: bool, num_ahead: int, params: str) -> Prepared:
    """FSDP2's step. Timed: as `step`.

    Parameters are given up after the forward, or kept; so many layers are gathered ahead of the one
    at work; they are gathered and computed with in float32, or in bfloat16."""
    wrap = "fsdp2" if reshard else "fsdp2_kept"
    return _code().Trainer(wrap, _model(device), num_ahead=num_ahead, params=params).prepared()


@_workload(
    1,
    axes={"layout": ("whole", "columns_and_rows", "by_sequence", "fused")},
    only=lambda device, num_ranks, layout: (
        (num_ranks == 1) == (layout == "whole")
        and (_on_two(device, num_ranks) or (layout != "fused" and num_ranks < 8))
    ),
    needs=lambda layout, **_: ["symmetric memory"] if layout == "fused" else [],
)
def tensor_parallel(device: Device, num_ranks: int, layout: str) -> Prepared:
    """A step of a transformer block that is split over ranks. Timed: as `step`.

    Its two pairs of layers are split by columns and by rows; by sequence what lies between pairs is
    split by rows of the batch; fused: that compiled, with products that communicate (async)."""
    wraps = {"whole": "plain", "columns_and_rows": "tensor_parallel"}
    trainer = _code().Trainer(wraps.get(layout, "sequence_parallel"), _model(device, BLOCK))
    if layout == "fused":
        trainer.fuse()
    return trainer.prepared()


@_workload(axes={"num_workers": (0, 2)})
def input(device: Device, num_ranks: int, num_workers: int) -> Prepared:
    """DDP's step with a batch of a DataLoader in each rank. Timed: the wait for the batch, and all.

    That is its way to the device, the step, a synchronize; each eighth batch begins an epoch."""
    return _code().fed(_model(device), num_workers)


@_workload(
    axes={"habit": ("none", "item", "item_on_rank_0", "item_every_10", "clip_grad_norm")}, depth=10
)
def sync_trap(device: Device, num_ranks: int, habit: str) -> Prepared:
    """DDP's step of a small model, and a habit of loops. Timed: a tenth of 10 and a synchronize.

    2 layers of 256 x 256, 8 rows a rank."""
    trainer = _code().Trainer("ddp", _model(device, rows=8, layers=2, width=256))
    return trainer.prepared(_code().with_habit(trainer, habit))
