"""training: what training over ranks costs, in the ways that torch has for it.

A step drops the gradients, computes forward and backward, and updates. Afterwards every rank proves
that two steps give what one process gets, bit for bit; that all have the same parameters; what it
sends; and what it holds. The slowest rank's time counts.
"""

from dataclasses import replace
from typing import Any

from hostbench import DEVICES, MIB, Device, Prepared, suite, workload

ORDER = 45  # of the families in a report
PRELOAD = ("torch.distributed.fsdp", "torch.distributed.optim", "torch._dynamo")


def setup_cache():
    return suite.measure("training")


LAYERS = {"cpu": (64, 4, 512), "cuda": (1024, 8, 4096)}
"""Rows of a rank, and layers of width x width: 4MiB of float32 on cpu, 512MiB on cuda."""
BLOCK = {"cpu": (128, 0, 256), "cuda": (1024, 0, 4096)}
"""Rows and width of one transformer block: 3MiB, 768MiB."""
TOTAL = 4
"""The rows of so many ranks are a `total` batch."""


def _axes(*num_ranks: int, **more: Any) -> dict[str, Any]:
    return {"device": DEVICES, "num_ranks": (*num_ranks, 2, 4, 8), **more}


def _on_two(device: str, num_ranks: int, **_: Any) -> bool:
    """On cpu over 2 ranks alone: more would share cores."""
    return device == "cuda" or num_ranks == 2


RANKS: dict[str, Any] = {"ranks": lambda num_ranks, **_: num_ranks, "version": "1"}
TWO: dict[str, Any] = {"only": _on_two, **RANKS}


def _shape(device: Device, sizes: Any = LAYERS, dtype: str = "float32", **other: int) -> Any:
    import torch

    from hostbench.families.training.model import Shape

    shape = Shape(*sizes[device.torch_device.type], getattr(torch, dtype))
    return replace(shape, **other)


def _trainer(wrap: str, shape: Any, **options: Any) -> Any:
    from hostbench.families.training.trainer import Trainer

    return Trainer(wrap, shape, **options)


def _gpu_alone(device: Device, why: str) -> None:
    from hostbench.core.errors import Unavailable

    if device.torch_device.type == "cpu":
        raise Unavailable(f"{why}; it needs a GPU")


def _steps(device: str, num_ranks: int, wrap: str, batch: str, dtype: str) -> bool:
    """One process is plain; a total batch, which shows strong scaling, is of three ways. bfloat16
    and 8 ranks on GPUs alone."""
    is_whole = (num_ranks == 1) == (wrap == "plain")
    is_here = device == "cuda" or (num_ranks < 8 and dtype == "float32")
    return is_whole and is_here and (batch == "per_rank" or wrap in ("plain", "ddp", "fsdp2"))


def _quick(num_ranks: int, wrap: str, batch: str, dtype: str, **_: Any) -> bool:
    is_usual = wrap in ("plain", "ddp", "fsdp2") and (batch, dtype) == ("per_rank", "float32")
    return num_ranks <= 2 and is_usual


WRAPS = ("plain", "ddp", "zero1", "fsdp2", "tensor_parallel")


@workload(
    axes=_axes(1, wrap=WRAPS, batch=("per_rank", "total"), dtype=("float32", "bfloat16")),
    only=_steps,
    quick=_quick,
    **RANKS,
)
def step(device: Device, num_ranks: int, wrap: str, batch: str, dtype: str) -> Prepared:
    """A step of training. Timed: the slowest rank's, with a synchronize.

    Each rank has rows of its own, always as many, or its part of a total batch; by tensor
    parallelism it computes a part of each layer on all of them."""
    shape = _shape(device, dtype=dtype)
    rows = shape.rows if batch == "per_rank" else TOTAL * shape.rows // num_ranks
    return _trainer(wrap, replace(shape, rows=rows)).prepared()


PARTS = ("step", "serial", "compute", "communication")


@workload(axes=_axes(wrap=("ddp", "fsdp2"), part=PARTS), baseline={"part": "serial"}, **TWO)
def exposed(device: Device, num_ranks: int, wrap: str, part: str) -> Prepared:
    """A step, and its parts alone. Timed: as `step`.

    The compute is DDP's step in `no_sync`; of FSDP2 the plain model's, which updates the rank's
    share. The communication is a step's collectives, of the same sizes in the same order; `serial`
    is both, one after the other."""
    from hostbench.families.training.parts import part_of_step

    return part_of_step(wrap, _shape(device), part)


@workload(
    axes=_axes(num_micro_batches=(1, 2, 4, 8), sync=("each", "last")),
    only=lambda num_micro_batches, sync, **axes: (
        _on_two(**axes) and (num_micro_batches > 1 or sync == "each")
    ),
    **RANKS,
)
def accumulate(device: Device, num_ranks: int, num_micro_batches: int, sync: str) -> Prepared:
    """DDP's step over micro-batches of a quarter of the rows. Timed: all of them and one update.

    Gradients are summed over ranks after each, or after the last (`no_sync` before it)."""
    shape = _shape(device)
    shape = replace(shape, rows=shape.rows // 4)
    return _trainer("ddp", shape, num_micro_batches=num_micro_batches, sync=sync).prepared()


@workload(
    axes=_axes(
        bucket_bytes=(MIB, 5 * MIB, 25 * MIB, 100 * MIB), gradient_as_bucket_view=(True, False)
    ),
    only=lambda device, num_ranks, bucket_bytes, gradient_as_bucket_view: (
        _on_two(device, num_ranks)
        and (gradient_as_bucket_view or bucket_bytes == 25 * MIB)
        and (device == "cuda" or bucket_bytes < 100 * MIB)
    ),
    **RANKS,
)
def bucket(
    device: Device, num_ranks: int, bucket_bytes: int, gradient_as_bucket_view: bool
) -> Prepared:
    """DDP's step of 8 layers with buckets of that size. Timed: as `step`."""
    options = {"gradient_as_bucket_view": gradient_as_bucket_view}
    shape = _shape(device, layers=8)
    return _trainer("ddp", shape, bucket_cap_mb=bucket_bytes / MIB, **options).prepared()


@workload(
    axes=_axes(reshard=(True, False), num_ahead=(0, 1, 2), params=("float32", "bfloat16")),
    only=lambda device, num_ranks, reshard, num_ahead, params: (
        _on_two(device, num_ranks)
        and (device == "cuda" or params == "float32")
        and [reshard, num_ahead == 0, params == "float32"].count(False) < 2  # one thing at a time
    ),
    **RANKS,
)
def reshard(device: Device, num_ranks: int, reshard: bool, num_ahead: int, params: str) -> Prepared:
    """FSDP2's step. Timed: as `step`.

    Parameters are given up after the forward, or kept; so many layers are gathered ahead of the one
    at work; they are gathered and computed with in float32, or in bfloat16."""
    if num_ahead:
        _gpu_alone(device, "nothing is gathered ahead without streams of torch's")
    options: dict[str, Any] = {"num_ahead": num_ahead, "params": params}
    return _trainer("fsdp2" if reshard else "fsdp2_kept", _shape(device), **options).prepared()


LAYOUTS = ("whole", "columns_and_rows", "by_sequence", "compiled", "fused")


@workload(
    axes=_axes(1, layout=LAYOUTS),
    only=lambda device, num_ranks, layout: (
        (num_ranks == 1) == (layout == "whole")
        and (device == "cuda" or (num_ranks < 8 and layout != "compiled"))
        and (layout != "fused" or _on_two(device, num_ranks))
    ),
    **RANKS,
)
def tensor_parallel(device: Device, num_ranks: int, layout: str) -> Prepared:
    """A step of a transformer block that is split over ranks. Timed: as `step`.

    Its two pairs of layers are split by columns and by rows; by sequence what lies between pairs is
    split by rows of the batch; that compiled, and with products that communicate (async tensor
    parallelism)."""
    if layout == "fused":
        _gpu_alone(device, "products that communicate need symmetric memory")
    wraps = {"whole": "plain", "columns_and_rows": "tensor_parallel"}
    trainer = _trainer(wraps.get(layout, "sequence_parallel"), _shape(device, BLOCK))
    if layout in ("compiled", "fused"):
        trainer.compile(is_fused=layout == "fused")
    return trainer.prepared()


@workload(axes=_axes(num_workers=(0, 2)), **TWO)
def input(device: Device, num_ranks: int, num_workers: int) -> Prepared:
    """DDP's step with a batch of a DataLoader in each rank. Timed: the wait for the batch, and all.

    That is its way to the device, the step, a synchronize; each eighth batch begins an epoch."""
    from hostbench.families.training.parts import Fed

    return Fed(_shape(device), num_workers).prepared()


HABITS = ("none", "item", "item_on_rank_0", "item_every_10", "clip_grad_norm")


@workload(axes=_axes(habit=HABITS), depth=10, **TWO)
def sync_trap(device: Device, num_ranks: int, habit: str) -> Prepared:
    """DDP's step of a small model, and a habit of loops. Timed: a tenth of 10 and a synchronize.

    2 layers of 256 x 256, 8 rows a rank."""
    from hostbench.families.training.parts import with_habit

    trainer = _trainer("ddp", _shape(device, rows=8, layers=2, width=256))
    return trainer.prepared(with_habit(trainer, habit))
