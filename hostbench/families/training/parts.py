"""What is taken out of a step, or put beside it: parts of it alone, a DataLoader, habits."""

import time
from collections.abc import Callable, Iterator, Mapping
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
    steps = collectives(wrap, shape) if part != "compute" else []
    if part != "communication":
        alone, sync = ("ddp", "none") if wrap == "ddp" else ("plain_share", "each")
        steps.append(Trainer(alone, shape, sync=sync).step)

    def step() -> None:
        for some in steps:
            some()

    sends = WRAPS[wrap].sends(shape, rank_group().num_ranks, 1) if part != "compute" else {}
    proofs = {"sent": partial(wrong_bytes, step, sends)}
    return Prepared(step=step, proofs=proofs, one_stream=False)


def collectives(wrap: str, shape: Shape) -> list[Callable[[], object]]:
    """Those of a step, of the same sizes and in the same order."""
    group = rank_group()
    zeros = partial(torch.zeros, dtype=shape.dtype, device=group.device.torch_device)
    full, share = zeros(shape.width**2), zeros(shape.width**2 // group.num_ranks)
    gather = partial(_newest("all_gather_single", "all_gather_into_tensor"), full, share)
    scatter = partial(_newest("reduce_scatter_single", "reduce_scatter_tensor"), share, full)
    calls: list[Any] = [gather] * shape.layers + [gather, scatter] * shape.layers
    if wrap == "ddp":
        calls = [partial(dist.all_reduce, zeros(length)) for length in bucket_lengths(shape)]
    return [group.counted("collective of a step", call) for call in calls]


def _newest(*names: str) -> Any:
    """The first of these functions that this torch has; it warns of the older ones."""
    return next(getattr(dist, name) for name in names if hasattr(dist, name))


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


class Fed:
    """A trainer that takes each batch from a DataLoader, epoch after epoch."""

    def __init__(self, shape: Shape, num_workers: int) -> None:
        self.trainer = trainer = Trainer("ddp", shape)
        samples = batches(shape, EPOCH_BATCHES * trainer.num, 1, "cpu")[0]
        self.num_samples = len(samples[0])
        data = TensorDataset(torch.arange(self.num_samples), *samples)
        self.sampler: Any = DistributedSampler(data, trainer.num, trainer.rank)
        self.loader = DataLoader(
            data,
            batch_size=shape.rows,
            sampler=self.sampler,
            num_workers=num_workers,
            pin_memory=trainer.where.type == "cuda",
            persistent_workers=num_workers > 0,
            worker_init_fn=_in_worker,
        )
        self.waited_s = self.took_s = 0.0
        self.batches = _endless(self.loader, self.sampler)

    def step(self) -> None:
        start_s = time.perf_counter()
        _, *batch = next(self.batches)
        self.waited_s += time.perf_counter() - start_s
        inputs, targets = (part.to(self.trainer.where, non_blocking=True) for part in batch)
        self.trainer.batches = [(inputs, targets)]
        self.trainer.step()
        self.trainer.group.device.synchronize()
        self.took_s += time.perf_counter() - start_s

    def prepared(self) -> Prepared:
        proofs = {"samples": self.wrong_samples, **self.trainer.prepared(self.step).proofs}
        return Prepared(step=self.step, proofs=proofs, tells=self.waits, one_stream=False)

    def waits(self) -> Mapping[str, Any]:
        """The share of its steps in which each rank waited for data, and the largest."""
        mine = torch.tensor(self.waited_s / self.took_s, device=self.trainer.where)
        shares = [float(share) for share in gathered(mine)]
        by_rank = ", ".join(f"rank {rank} {share:.0%}" for rank, share in enumerate(shares))
        return {"wait_share": max(shares), "waits_by_rank": by_rank}

    def wrong_samples(self) -> str | None:
        """In an epoch more, which nothing times, all ranks together see each sample once."""
        self.sampler.set_epoch(0)
        mine = torch.cat([numbers for numbers, *_ in self.loader]).to(self.trainer.where)
        times = torch.bincount(torch.cat(gathered(mine)), minlength=self.num_samples)
        odd = (times != 1).nonzero().flatten().tolist()
        return f"samples {odd[:3]} were not seen once" if odd else None


def _endless(loader: Any, sampler: Any) -> Iterator[Any]:
    """Batches, epoch after epoch. It must not hold who holds it: workers end at once when nothing
    refers to their iterator, and after many seconds when that is collected as garbage."""
    for epoch in count(1):
        sampler.set_epoch(epoch)
        yield from loader


def _in_worker(_: int) -> None:
    """A worker lives no longer than the process that takes its batches, however that one ends."""
    die_with_parent()
