"""A rank's share of training a model: the step that is timed, and its proofs.

Two steps are proven bit for bit: weights of one 1 or -1 in each row, inputs and targets of few
whole numbers from -2 to 2, and a loss so scaled that updates are whole numbers, too. As float32
holds them exactly, every order of adding gives the same. The first step changes few numbers, so
that the products of the second, which changes most, stay exact.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache, partial
from statistics import fmean
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from hostbench.core.errors import Unavailable
from hostbench.families.collectives.operations import OPERATIONS, nccl_sends
from hostbench.families.training import KINDS
from hostbench.families.training.model import HEAD, SGD, WRAPS, Shape, TransformerBlock
from hostbench.measure.measure import Prepared
from hostbench.ranks.group import rank_group

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
        self.module: Any = self.way.module(self.model, self.group, **options)
        self.optimizer = self.way.optimizer([*self.model.parameters()], self.group)
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
        step, checks = step or self.step, dict[str, Callable[[], str | None]]()
        sends = partial(sent, self.way.sends(self.shape, self.num, self.synced))
        if self.num > 1:  # one process has nobody to agree with, or to send to
            checks = {"replicas": self.disagree}
        checks |= {"memory": self.wrong_memory, "parity": self.differs}
        return Prepared(
            step=step, proofs=checks, findings=self.held, sends=sends, sends_exactly=self.num > 1,
            one_stream=False,
        )  # fmt: skip

    def wholes(self) -> list[Tensor]:
        """Every parameter, put together from all ranks where it is split."""
        whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in self.model.parameters()]
        return [parameter.detach() for parameter in whole]

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
        """After all steps that were timed every rank has the same parameters; where each holds a
        part of its own, the same outputs for the same rows, for it computes with what the others
        send it. Compared are the sums of their bits as whole numbers. Raises Unavailable where
        each computes on rows of its own alone."""
        if self.way.shared != KINDS:
            mine, what = self.wholes(), "parameters"
        else:
            if self.way.data == "sequence":
                raise Unavailable("each rank computes a part of the rows, which parity sees")
            rows, what = batches(self.shape, self.num, self.where)[0][0], "outputs"
            outputs = self.module(rows if self.way.data == "all" else rows.chunk(self.num)[0])
            outputs.sum().backward()  # FSDP2 gives up what it has gathered
            mine = [outputs]
        every = gathered([int(t.detach().float().view(torch.int32).sum()) for t in mine])
        odd = [rank for rank, sums in enumerate(every) if sums != every[0]]
        return f"ranks {odd} have other {what} than rank 0" if odd else None

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
        names = [name for name, _ in self.model.named_parameters()]
        wrong = [int((a != b).sum()) for a, b in zip(self.wholes(), expected, strict=True)]
        odd = [f"{num} of {name}" for name, num in zip(names, wrong, strict=True) if num]
        return f"numbers that differ from one process: {', '.join(odd)}" if odd else None


def gathered(mine: Any) -> list[Any]:
    """Every rank's."""
    every = [mine] * rank_group().num_ranks
    rank_group().counted("all_gather", lambda: dist.all_gather_object(every, mine))()
    return every


def sent(traffic: Mapping[str, int], algorithm: str | None = None) -> int | None:
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
        place = torch.randperm(max(height, width), generator=drawn, device=where)[:height] % width
        signs = 2.0 * torch.randint(0, 2, (height, 1), generator=drawn, device=where) - 1
        weight = torch.zeros(height, width, device=where).scatter_(1, place[:, None], signs)
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
