"""What is taken out of a step, or put beside it: parts of it alone, a DataLoader, habits."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from hostbench.core.processes import die_with_parent
from hostbench.families.training.model import WRAPS, Shape
from hostbench.families.training.trainer import Trainer, batches, gathered, wrong_bytes
from hostbench.measure.measure import Prepared
from hostbench.ranks.group import rank_group

EPOCH_BATCHES = 8  # of a rank


def part_of_step(wrap: str, shape: Shape, part: str) -> Prepared:
    """The `step`; its `compute` or `communication` alone; `serial`: these one after the other. The
    update is part of the compute: of a rank's share, where it updates no more."""
    if part == "step":
        return Trainer(wrap, shape).prepared()
    steps, sends = collectives(wrap, shape), WRAPS[wrap].sends(shape, rank_group().num_ranks, 1)
    alone, synced = ("ddp", 0) if wrap == "ddp" else ("plain_share", 1)
    if part == "compute":
        steps, sends = [], {}
    if part != "communication":
        steps.append(Trainer(alone, shape, synced).step)

    def step() -> None:
        for some in steps:
            some()

    proofs = {"sent": partial(wrong_bytes, step, sends)}
    return Prepared(step=step, proofs=proofs, one_stream=False)


def collectives(wrap: str, shape: Shape) -> list[Callable[[], object]]:
    """Those of a step, of the same sizes and in the same order."""
    group = rank_group()
    zeros = partial(torch.zeros, dtype=shape.dtype, device=group.device.torch_device)
    full, share = zeros(shape.width**2), zeros(shape.width**2 // group.num_ranks)
    # torch 2.13 has new names, and warns of older ones
    all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    gather, scatter = partial(all_gather, full, share), partial(reduce_scatter, share, full)
    calls: list[Any] = [gather] * shape.layers + [gather, scatter] * shape.layers
    if wrap == "ddp":
        calls = [partial(dist.all_reduce, zeros(length)) for length in bucket_lengths(shape)]
    return [group.counted("collective of a step", call) for call in calls]


def bucket_lengths(shape: Shape) -> list[int]:
    """Numbers in each bucket of DDP, in the order in which it sums them."""
    lengths: list[int] = []

    def note(lengths, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations
        lengths.append(bucket.buffer().numel())
        summed = dist.all_reduce(bucket.buffer(), async_op=True)
        return summed.get_future().then(lambda future: future.value()[0])

    trainer = Trainer("ddp", shape)
    trainer.module.register_comm_hook(lengths, note)
    trainer.step()
    return lengths


def with_habit(trainer: Trainer, habit: str) -> Callable[[], None]:
    """The step, and what a loop does beside it."""
    every = {"item": 1, "item_every_10": 10, "item_on_rank_0": int(trainer.rank == 0)}.get(habit)
    if habit == "clip_grad_norm":
        parameters = [*trainer.model.parameters()]
        trainer.before_update = lambda: nn.utils.clip_grad_norm_(parameters, max_norm=1e9)
    numbers = count(1)

    def step() -> None:
        trainer.step()
        if every and next(numbers) % every == 0:
            trainer.loss.item()

    return step


def fed(shape: Shape, num_workers: int) -> Prepared:
    """DDP's step with each batch from a DataLoader, epoch after epoch."""
    trainer = Trainer("ddp", shape)
    samples = batches(shape, EPOCH_BATCHES * trainer.num, "cpu")[0]
    data = TensorDataset(torch.arange(len(samples[0])), *samples)
    sampler: Any = DistributedSampler(data, trainer.num, trainer.rank)
    loader = DataLoader(
        data, shape.rows, sampler=sampler, num_workers=num_workers,
        pin_memory=trainer.where.type == "cuda", persistent_workers=num_workers > 0,
        worker_init_fn=lambda _: die_with_parent(),
    )  # fmt: skip

    def endless() -> Iterator[Any]:
        """It must not hold who holds it: workers end at once when nothing refers to their iterator,
        and after many seconds when that is collected as garbage."""
        for epoch in count(1):
            sampler.set_epoch(epoch)
            yield from loader

    coming, spent_s = endless(), [0.0, 0.0]

    def step() -> None:
        start_s = time.perf_counter()
        _, *batch = next(coming)
        spent_s[0] += time.perf_counter() - start_s
        inputs, targets = (part.to(trainer.where, non_blocking=True) for part in batch)
        trainer.batches = [(inputs, targets)]
        trainer.step()
        trainer.group.device.synchronize()
        spent_s[1] += time.perf_counter() - start_s

    def waits() -> Mapping[str, Any]:
        """The share of its steps in which each rank waited for data."""
        shares = gathered(spent_s[0] / spent_s[1])
        return {f"wait_rank_{rank}": share for rank, share in enumerate(shares)}

    def wrong_samples() -> str | None:
        """In an epoch more, which nothing times, all ranks together see each sample once."""
        sampler.set_epoch(0)
        mine = [int(number) for numbers, *_ in loader for number in numbers]
        times = Counter(number for seen in gathered(mine) for number in seen)
        odd = [number for number in range(len(data)) if times[number] != 1]
        return f"samples {odd[:3]} were not seen once" if odd else None

    prepared = trainer.prepared(step)
    proofs = {"samples": wrong_samples, **prepared.proofs}
    return replace(prepared, proofs=proofs, findings=waits)
