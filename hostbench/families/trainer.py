"""The model that is trained, the ways to wrap it, a rank's share of training it, and its proofs.

The model is layers of `width` x `width`, or one transformer block: sums of products alone (no bias,
norm or softmax), exact on few and small whole numbers, in whatever order they are added. The loss
is the sum of outputs times targets; the optimizer SGD with momentum, one number for each parameter.

Two steps are proven bit for bit: weights of one 1 or -1 in each row, inputs and targets of few
whole numbers from -2 to 2, and a loss so scaled that updates are whole numbers, too. As float32
holds them exactly, every order of adding gives the same. The first step changes few numbers, so
that the products of the second, which changes most, stay exact.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from statistics import fmean
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from hostbench.core.errors import Unavailable
from hostbench.core.processes import die_with_parent
from hostbench.families.exchange import Exchange, gathered
from hostbench.families.operations import OPERATIONS, nccl_sends
from hostbench.families.training import KINDS
from hostbench.measure.measure import Prepared
from hostbench.ranks.rank import rank_group

HEAD = 64  # width of an attention head; a block is split over as many ranks as it has heads at most
SGD: Any = partial(torch.optim.SGD, lr=1e-6, momentum=0.5)
"""As it is timed: real updates, so small that thousands of them change little."""
GATHER, SCATTER = "all_gather_into_tensor", "reduce_scatter_tensor"
_linear = partial(nn.Linear, bias=False)


class TransformerBlock(nn.Module):
    """Attention over all rows, and two layers of four times the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = _linear(width, 3 * width), _linear(width, width)
        self.up, self.down = _linear(width, 4 * width), _linear(4 * width, width)
        self.attend: Any = lambda query, key, value: query @ key.mT @ value

    def forward(self, rows: Tensor) -> Any:
        query, key, value = self.qkv(rows).unflatten(1, (-1, 3, HEAD)).permute(2, 1, 0, 3)
        rows = rows + self.out(self.attend(query, key, value).transpose(0, 1).flatten(1))
        return rows + self.down(self.up(rows).relu())


@dataclass(frozen=True, slots=True)
class Shape:
    rows: int  # of a rank, in a micro-batch
    layers: int  # 0: one transformer block
    width: int
    dtype: torch.dtype = torch.float32
    micro_batches: int = 1

    def build(self, device: torch.device) -> nn.Module:
        layers = [_linear(self.width, self.width) for _ in range(self.layers)]
        model = nn.Sequential(*layers) if layers else TransformerBlock(self.width)
        return model.to(device, self.dtype)

    @property
    def nbytes(self) -> int:
        """Of all parameters."""
        return (self.layers or 12) * self.width**2 * self.dtype.itemsize

    def between(self, num_ranks: int, fewer: int) -> int:
        """Bytes between two layers, all ranks' rows: twice for each pair, but so often less."""
        nbytes = num_ranks * self.rows * self.width * self.dtype.itemsize
        return (2 * (self.layers // 2 or 2) - fewer) * nbytes


def _fsdp2(
    model: nn.Module, *, reshard: bool = True, num_ahead: int = 0, params: str = "float32"
) -> nn.Module:
    """A unit a layer; so many layers are gathered ahead, and computed with in the type `params`."""
    layers: list[Any] = [*model.children()]
    types = (torch.bfloat16, torch.float32) if params == "bfloat16" else ()
    policy = MixedPrecisionPolicy(*types)
    for module in (*layers, model):
        fully_shard(module, reshard_after_forward=reshard, mp_policy=policy)
    for index, layer in enumerate(layers if num_ahead else ()):
        layer.set_modules_to_forward_prefetch(layers[index + 1 : index + 1 + num_ahead])
        layer.set_modules_to_backward_prefetch(layers[max(0, index - num_ahead) : index][::-1])
    return model


def _split(model: nn.Module, *, between: Any = None) -> nn.Module:
    """Layers in pairs, the first by columns and the second by rows; `between` pairs: activations
    whole, or split by rows of the batch."""
    styles = ColwiseParallel(input_layouts=between), RowwiseParallel(output_layouts=between)
    plan: Any = {name: styles[n % 2] for n, (name, _) in enumerate(model.named_children())}
    group = rank_group()
    mesh = init_device_mesh(group.device.torch_device.type, (group.num_ranks,))
    return parallelize_module(model, mesh, plan)


class Wrap(NamedTuple):
    """A way to train over ranks."""

    module: Callable[..., nn.Module]  # gets the model and options
    shared: tuple[str, ...]  # of KINDS: what a rank holds an n-th of
    sends: Callable[[Shape, int, int], Mapping[str, int]]
    """Gets the shape, the number of ranks and of synchronized micro-batches; gives operation ->
    bytes of a step, as nccl-tests count them; of a broadcast those of all ranks' together."""
    data: str = "own"
    """A rank computes on its `own` rows, and gradients are averaged; on `all` rows; or on its own,
    and they are summed (`sequence`)."""
    optimizer: Any = SGD


# FSDP2 gathers forward and backward, or once where parameters are kept. Tensor parallelism sums
# behind each pair forward, and before each but the first backward, whose input needs no gradient;
# by sequence a pair gathers and scatters in place of that.
WRAPS: Mapping[str, Wrap] = {
    "plain": Wrap(lambda model: model, (), lambda s, n, k: {}),
    "ddp": Wrap(DistributedDataParallel, (), lambda s, n, k: {"all_reduce": k * s.nbytes}),
    "zero1": Wrap(
        DistributedDataParallel, ("optimizer",),
        lambda s, n, k: {"all_reduce": k * s.nbytes, "broadcast": s.nbytes},
        optimizer=partial(ZeroRedundancyOptimizer, optimizer_class=SGD.func, **SGD.keywords),
    ),
    "fsdp2": Wrap(_fsdp2, KINDS, lambda s, n, k: {GATHER: 2 * s.nbytes, SCATTER: s.nbytes}),
    "fsdp2_kept": Wrap(
        partial(_fsdp2, reshard=False), KINDS, lambda s, n, k: {GATHER: s.nbytes, SCATTER: s.nbytes}
    ),
    "tensor_parallel": Wrap(_split, KINDS, lambda s, n, k: {"all_reduce": s.between(n, 1)}, "all"),
    "sequence_parallel": Wrap(
        partial(_split, between=Shard(0)), KINDS,
        lambda s, n, k: {GATHER: s.between(n, 0), SCATTER: s.between(n, 1)},
        "sequence",
    ),
}  # fmt: skip


STEPS = "few", "most"  # that are proven: the numbers of a weight that each changes
RATE, SCALE = 2.0**-4, 16  # of an update and of the loss: together 1
PRODUCTS = 4.0, 0.5  # that are not 0 and make a number of a gradient, on average, where most
# change: of layers, and of a block, which multiplies more
RANDOM_SIZE = 2.0**-3  # of inputs that are timed, so that what attention multiplies stays small
Batches = list[tuple[Tensor, Tensor]]  # inputs and targets, rows x width each


class Trainer:
    """`step` is what is timed: gradients dropped, forward and backward of each micro-batch, update.

    It is done twice when it is built, for DDP makes its buckets anew after the first time. The last
    `synced` micro-batches are synchronized; None: all of them.
    """

    def __init__(self, wrap: str, shape: Shape, synced: int | None = None, **options: Any) -> None:
        self.group, self.shape, self.way = rank_group(), shape, WRAPS[wrap]
        self.rank, self.num = self.group.rank, self.group.num_ranks
        self.where = self.group.device.torch_device
        by_layer = self.way.shared == ("optimizer",)
        pieces = shape.layers if by_layer else shape.width // (1 if shape.layers else HEAD)
        if self.way.shared and pieces % self.num:
            what = "layers" if by_layer else "rows of a layer" if shape.layers else "heads"
            raise Unavailable(f"{pieces} {what} are not shared out evenly over {self.num} ranks")
        self.synced = shape.micro_batches if synced is None else synced
        self.is_exact = shape.dtype is torch.float32 and options.get("params") != "bfloat16"
        torch.manual_seed(0)
        self.model = shape.build(self.where)
        self.module: Any = self.way.module(self.model, **options)
        self.optimizer = self.way.optimizer([*self.model.parameters()])
        self.use(batches(shape, self.num, self.where))
        self.micro_step = self.group.counted("backward", self.backward)
        self.update = self.group.counted("optimizer step", lambda: self.optimizer.step())
        for _ in range(2):
            self.step()
        self.group.synchronize()

    def use(self, all_rows: Batches) -> None:
        """Compute on these, or on the own part of them. A mean over n ranks is n times less than
        the sum of gradients: so targets are n times larger."""
        factor = self.num if self.way.data == "own" else 1
        parts = [(x.chunk(self.num), y.chunk(self.num)) for x, y in all_rows]
        mine = [(x[self.rank], factor * y[self.rank]) for x, y in parts]
        self.batches = all_rows if self.way.data == "all" else mine

    def step(self) -> None:
        self.module.zero_grad()
        for left, batch in zip(range(len(self.batches), 0, -1), self.batches, strict=True):
            self.batch = batch
            with self.module.no_sync() if left > self.synced else nullcontext():
                self.micro_step()
        self.update()

    def backward(self) -> None:
        inputs, targets = self.batch
        self.loss = (self.module(inputs) * targets).sum()
        self.loss.backward()

    def fuse(self) -> None:
        """Compile, with products that communicate. Raises Unavailable where torch makes none."""
        from torch._inductor import config
        from torch.distributed._symmetric_memory import enable_symm_mem_for_group

        fused: list[Any] = []
        note = lambda graph: fused.extend(n for n in graph.nodes if "fused_" in str(n.target))  # noqa: E731
        enable_symm_mem_for_group(dist.group.WORLD.group_name)  # type: ignore[union-attr]
        self.module = torch.compile(self.module)
        with config.patch({"_micro_pipeline_tp": True, "post_grad_custom_post_pass": note}):
            self.step()
        if not self.group.agree(bool(fused)):
            raise Unavailable("torch fuses no product with an all-gather or reduce-scatter here")

    def prepared(self, step: Callable[[], None] | None = None) -> Prepared:
        """With all proofs: of `step`, where it is more than the own one."""
        checks = {"memory": self.wrong_memory, "parity": self.differs}
        if self.num > 1 and self.way.shared != KINDS:  # else nobody has what another one has
            checks = {"replicas": self.disagree, **checks}
        return Prepared(
            step=step or self.step, proofs=checks, findings=self.held, one_stream=False,
            sends=partial(sent, self.way.sends(self.shape, self.num, self.synced)),
            sends_exactly=self.num > 1,
        )  # fmt: skip

    def momenta(self) -> list[Tensor]:
        states = getattr(self.optimizer, "optim", self.optimizer).state.values()
        return [state["momentum_buffer"] for state in states if state]

    def held(self) -> dict[str, Any]:
        """Bytes of this rank, of the memory behind its tensors; and whether as the formulas say. A
        gradient that there is none of holds nothing."""
        parameters: list[Any] = [*self.model.parameters()]
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        kinds = parameters, grads, self.momenta()
        local = [[getattr(t, "_local_tensor", t).untyped_storage() for t in kind] for kind in kinds]
        sizes = [sum({s.data_ptr(): s.nbytes() for s in kind}.values()) for kind in local]
        wanted = [self.shape.nbytes // (self.num if k in self.way.shared else 1) for k in KINDS]
        held = {f"{kind}_bytes": nbytes for kind, nbytes in zip(KINDS, sizes, strict=True)}
        return {**held, "held_by_formula": sizes == wanted}

    def wrong_memory(self) -> str | None:
        """Parameters, gradients and the optimizer's numbers are each the model's, or an n-th."""
        held = self.held()
        return None if held["held_by_formula"] else f"{held} of {self.shape.nbytes} bytes"

    def disagree(self) -> str | None:
        """After all steps that were timed every rank has the same parameters. Compared are the sums
        of their bits as whole numbers."""
        parameters = [parameter.detach().float() for parameter in self.model.parameters()]
        every = gathered([int(values.view(torch.int32).sum()) for values in parameters])
        odd = [rank for rank, sums in enumerate(every) if sums != every[0]]
        return f"ranks {odd} have other parameters than rank 0" if odd else None

    def differs(self) -> str | None:
        """Steps from whole numbers give what one process gets on all ranks' rows, bit for bit.
        Raises Unavailable where that is not exact."""
        if not self.is_exact:
            raise Unavailable("bfloat16 holds no exact sums of so many")
        expected = one_process(self.shape, self.num, self.where)
        load_whole(self.model, self.where)
        for number in self.momenta():
            number.zero_()
        for options in self.optimizer.param_groups:
            options["lr"] = RATE
        for changed in STEPS:
            self.use(batches(self.shape, self.num, self.where, changed))
            self.step()
        odd: list[str] = []
        for (name, own), whole in zip(self.model.named_parameters(), expected, strict=True):
            values = own.full_tensor() if isinstance(own, DTensor) else own
            if num := int((values != whole).sum()):
                odd.append(f"{num} of {name}")
        return f"numbers that differ from one process: {', '.join(odd)}" if odd else None


def sent(traffic: Mapping[str, int], algorithm: str | None) -> int | None:
    """Bytes that each rank sends by its backend, and by nccl's choice; None where that is not
    documented. In turn each broadcasts an equal part."""
    group, num, total = rank_group(), rank_group().num_ranks, 0.0
    for name, nbytes in traffic.items():
        by_gloo = fmean(OPERATIONS[name].gloo_sends(rank, num) for rank in range(num))
        share = by_gloo if group.backend == "gloo" else nccl_sends(name, num, algorithm)
        if share is None:
            return None
        total += nbytes * share
    return round(total)


def batches(shape: Shape, num_ranks: int, where: Any, changed: str = "") -> Batches:
    """All ranks' rows: random numbers, or whole ones that change few or most numbers of a weight,
    of which a gradient is a sum over rows of products of an input and a target."""
    drawn = torch.Generator(where).manual_seed(1)
    size = 2 * shape.micro_batches, num_ranks * shape.rows, shape.width
    numbers = RANDOM_SIZE * torch.randn(size, generator=drawn, device=where).to(shape.dtype)
    if changed:
        products = PRODUCTS[shape.layers == 0] if changed == "most" else 1 / shape.width
        chance = (products / shape.micro_batches / size[1]) ** 0.5
        is_some = torch.rand(size, generator=drawn, device=where) < chance
        numbers = (is_some * torch.randint(-2, 3, size, generator=drawn, device=where)).float()
        numbers[1::2] *= SCALE
    return [(numbers[index], numbers[index + 1]) for index in range(0, len(numbers), 2)]


def load_whole(model: nn.Module, where: Any) -> None:
    """Weights of one 1 or -1 in each row."""
    drawn = torch.Generator(where).manual_seed(2)
    for parameter in model.parameters():
        height, width = parameter.shape
        columns = torch.randperm(max(height, width), generator=drawn, device=where)[:height] % width
        signs = 2.0 * torch.randint(0, 2, (height, 1), generator=drawn, device=where) - 1
        weight = torch.zeros(height, width, device=where).scatter_(1, columns[:, None], signs)
        if isinstance(parameter, DTensor):
            weight = distribute_tensor(weight, parameter.device_mesh, parameter.placements)
        parameter.detach().copy_(weight)


@cache
def one_process(shape: Shape, num_ranks: int, where: Any) -> list[Tensor]:
    """The parameters after STEPS on the rows of so many ranks, computed in float64. Raises
    Unavailable where float32 does not hold them exactly."""
    if num_ranks & (num_ranks - 1):
        raise Unavailable(f"a mean over {num_ranks} ranks is not exact, but over a power of two")
    model = shape.build(where).double()
    load_whole(model, where)
    if isinstance(model, TransformerBlock):  # exact in any order; rows x rows of 8 GPUs are 34 GB
        model.attend = lambda query, key, value: query @ (key.mT @ value)
    optimizer = SGD(model.parameters(), lr=RATE)
    for changed in STEPS:
        optimizer.zero_grad()
        for inputs, targets in batches(shape, num_ranks, where, changed):
            (model(inputs.double()) * targets).sum().backward()
        optimizer.step()
    exact = [parameter.detach().float() for parameter in model.parameters()]
    if not all(map(torch.equal, model.parameters(), (value.double() for value in exact))):
        raise Unavailable("float32 does not hold the sums exactly")
    return exact


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
