"""A training step in which something goes wrong: `faulty.step`, over two ranks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from hostbench.device.base import Device
from hostbench.families.trainer import SGD, Shape, Trainer, unsent
from hostbench.measure.measure import Prepared
from hostbench.measure.workload import Workload

SHAPE = Shape(rows=32, layers=8, width=256)  # two buckets of DDP, of 1MiB each


def hook(change: Callable[[Any], Any], trainer: Trainer) -> None:
    """DDP's buckets get what `change` makes of one; None: they are summed and divided."""

    def summed(state, bucket):
        buffer = change(bucket)
        if buffer is None:
            buffer = bucket.buffer().div_(trainer.num)
            dist.all_reduce(buffer)
        future: torch.futures.Future[Any] = torch.futures.Future()
        future.set_result(buffer)
        return future

    trainer.module.register_comm_hook(None, summed)


def lose_a_bucket(trainer: Trainer) -> None:
    """The first of two."""
    hook(lambda bucket: None if bucket.is_last() else bucket.buffer(), trainer)


def wrong_mean(trainer: Trainer) -> None:
    def sums(bucket: Any) -> Any:
        dist.all_reduce(bucket.buffer())
        return bucket.buffer()

    hook(sums, trainer)


def count_twice(trainer: Trainer) -> None:
    """Gradients of the step before are not dropped."""
    trainer.module.zero_grad = lambda: None


def leave_stale(trainer: Trainer) -> None:
    """Who has updated a part does not send it to the others."""
    trainer.optimizer._sync_params = lambda: None


def update_once(trainer: Trainer) -> None:
    """Rank 1 goes on with old parameters after its first update."""
    if trainer.rank == 1:
        trainer.optimizer.step = lambda *_: None


def compute_otherwise(trainer: Trainer) -> None:
    """Rank 1 has outputs of its own, as where what others send does not reach it."""
    if trainer.rank == 1:
        trainer.module.register_forward_hook(lambda module, inputs, outputs: 2 * outputs)


def hold_more(trainer: Trainer) -> None:
    """A gradient with as much again behind it."""
    update = trainer.update

    def more() -> None:
        update()
        parameter = next(trainer.model.parameters())
        assert parameter.grad is not None
        parameter.grad = torch.cat([parameter.grad, parameter.grad])[: len(parameter)]

    trainer.update = more


def unshard_momentum(trainer: Trainer) -> None:
    """Each rank updates all, and holds what ZeRO-1 shares out."""
    trainer.optimizer = SGD([*trainer.model.parameters()])


def lose_a_gradient(trainer: Trainer) -> None:
    """The first parameter's is dropped before the update."""
    first, update = next(trainer.model.parameters()), trainer.update

    def without() -> None:
        first.grad = None
        update()

    trainer.update = without


def note_what_is_sent(wrap: str) -> Prepared:
    """DDP's first bucket holds 1MiB at most, the next up to 25MiB; FSDP2's units are layers."""
    layer = 4 * 512 * 512
    wanted = {
        "ddp": [("all_reduce", layer), ("all_reduce", 3 * layer)],
        "fsdp2": [("all_gather_into_tensor", layer)] * 8 + [("reduce_scatter_tensor", layer)] * 4,
    }[wrap]
    _, noted = unsent(wrap, Shape(rows=2, layers=4, width=512))
    return Prepared(step=lambda: None, findings=lambda: {"is_so": sorted(noted) == wanted})


def build(device: Device, wrap: str, fault: str) -> Prepared:
    """Of a step in which something goes wrong, on every rank."""
    if fault == "sent alone":
        return note_what_is_sent(wrap)
    if fault == "leaves early":
        trainer = Trainer(wrap, replace(SHAPE, micro_batches=4), 1)
        trainer.synced += trainer.rank == 1
        return trainer.prepared()
    if fault == "all leave early":
        trainer = Trainer(wrap, replace(SHAPE, micro_batches=4), 1)
        prepared = trainer.prepared()
        trainer.synced += 1
        return prepared
    trainer = Trainer(wrap, SHAPE)
    if fault != "none":
        FAULTS[fault](trainer)
    return trainer.prepared()


FAULTS: dict[str, Callable[[Trainer], None]] = {
    fault.__name__: fault
    for fault in (lose_a_bucket, wrong_mean, count_twice, leave_stale, update_once, hold_more,
                  compute_otherwise, lose_a_gradient, unshard_momentum)
}  # fmt: skip
FAULTY = Workload(
    name="faulty.step",
    axes={"device": ("cpu",), "wrap": ("ddp",), "fault": (*FAULTS,)},
    version="1",
    build=build,
    per_case={"ranks": 2},
)
