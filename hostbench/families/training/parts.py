"""What is taken out of a step, or put beside it: parts of it alone, a DataLoader, habits."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from hostbench.core.errors import Unavailable
from hostbench.core.processes import die_with_parent
from hostbench.families.collectives.exchange import Exchange
from hostbench.families.training.model import GATHER, SCATTER, WRAPS, Shape
from hostbench.families.training.trainer import Trainer, batches, gathered, sent
from hostbench.measure.measure import Prepared

EPOCH_BATCHES = 8  # of a rank


def part_of_step(wrap: str, shape: Shape, part: str) -> Prepared:
    """The `step`; its `compute`, all that the wrapper does but communicate; of that the `optimizer`
    alone; its `communication` alone."""
    if part == "step":
        return Trainer(wrap, shape).prepared()
    trainer, noted = unsent(wrap, shape)
    exchange = cache(Exchange)  # calls of one size share their buffers, of float32
    calls = [trainer.group.counted(name, exchange(name, nbytes).call) for name, nbytes in noted]

    def communicate() -> None:
        for call in calls:
            call()

    parts = {"compute": trainer.step, "optimizer": trainer.update, "communication": communicate}
    traffic = WRAPS[wrap].sends(shape, trainer.num, 1) if part == "communication" else {}
    sends = partial(sent, traffic)
    return Prepared(step=parts[part], sends=sends, sends_exactly=True, one_stream=False)


def unsent(wrap: str, shape: Shape) -> tuple[Trainer, list[tuple[str, int]]]:
    """A trainer whose wrapper communicates nothing, and what it leaves out of a step, in order:
    each collective, and the bytes in all of its buffer. Raises Unavailable."""
    trainer, noted = Trainer(wrap, shape), list[tuple[str, int]]()
    if wrap == "ddp":

        def keep(noted, bucket):  # type: ignore[no-untyped-def]  # torch reads annotations
            noted.append(("all_reduce", bucket.buffer().nbytes))
            future: torch.futures.Future[Any] = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        trainer.module.register_comm_hook(noted, keep)
    elif not hasattr(trainer.module, "set_custom_all_gather"):
        raise Unavailable("this torch cannot leave out what FSDP2 communicates")
    else:
        for unit in trainer.module.modules():
            unit.set_custom_all_gather(Unsent(GATHER, noted))
            unit.set_custom_reduce_scatter(Unsent(SCATTER, noted))
    trainer.step()
    return trainer, [*noted]


class Unsent:
    """In place of a collective of FSDP2: notes it, and does no more than to move what is its own,
    so that nothing computes on memory of chance."""

    def __init__(self, operation: str, noted: list[tuple[str, int]]) -> None:
        self.operation, self.noted = operation, noted

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, *_: Any, **__: Any) -> None:
        self.noted.append((self.operation, max(output_tensor.nbytes, input_tensor.nbytes)))
        least = min(output_tensor.numel(), input_tensor.numel())
        own = input_tensor.view(-1, least)[0].clone()  # it may lie inside the output
        output_tensor.view(-1, least).copy_(own)


def with_habit(trainer: Trainer, habit: str) -> Callable[[], None]:
    """The step, and what a loop does beside it."""
    every = {"item": 1, "item_every_10": 10, "item_on_rank_0": int(trainer.rank == 0)}.get(habit)
    if habit == "clip_grad_norm":
        parameters, update = [*trainer.model.parameters()], trainer.update

        def clipped() -> None:
            nn.utils.clip_grad_norm_(parameters, max_norm=1e9)
            update()

        trainer.update = clipped
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
