"""A rank's share of training a model: the step that is timed, and its proofs.

Two steps are proven bit for bit: weights of one 1 or -1 in each row, inputs and targets of few
whole numbers from -2 to 2, and a loss so scaled that updates are whole numbers, too. As float32
holds them exactly, every order of adding gives the same.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from hostbench.core.errors import Unavailable
from hostbench.core.sockets import tcp_bytes_sent
from hostbench.families.training import KINDS
from hostbench.families.training.model import SENT_BY_GLOO, SGD, WRAPS, Shape
from hostbench.measure.measure import Prepared
from hostbench.ranks.group import rank_group

STEPS, RATE = 2, 2.0**-4  # that are proven
SCALE = 16  # of the loss: times RATE 1
CHANGED = 4.0, 0.5  # numbers in a row of a weight, on average, that the first of them changes: of
# layers, and of a block, which multiplies more; with more the second would outgrow float32
RANDOM_SIZE = 2.0**-3  # of inputs that are timed, so that what attention multiplies stays small
SENT_WITHIN, HEADER_BYTES = 0.01, 640  # bytes for each other rank, of the barrier after the step
Batches = list[tuple[Tensor, Tensor]]  # inputs and targets, rows x width each


class Trainer:
    """`step` is what is timed: gradients dropped, forward and backward of each micro-batch, update.

    It is done twice when it is built, for DDP makes its buckets anew after the first time. `sync`
    says which micro-batches are synchronized: `each`, the `last`, or `none` (DDP's `no_sync`).
    """

    def __init__(
        self,
        wrap: str,
        shape: Shape,
        *,
        num_micro_batches: int = 1,
        sync: str = "each",
        **options: Any,
    ) -> None:
        self.group, self.shape, self.way = rank_group(), shape, WRAPS[wrap]
        self.rank, self.num = self.group.rank, self.group.num_ranks
        self.where, self.count = self.group.device.torch_device, num_micro_batches
        self.num_synced = {"each": self.count, "last": 1, "none": 0}[sync]
        self.is_exact = shape.dtype is torch.float32 and options.get("params") != "bfloat16"
        torch.manual_seed(0)
        self.model = shape.build(self.where)
        self.module: Any = self.way.module(self.model, self.group, **options)
        self.optimizer = self.way.optimizer([*self.model.parameters()], self.group)
        self.use(batches(shape, self.num, self.count, self.where))
        self.before_update: Callable[[], object] = lambda: None
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
        num_alone = len(self.batches) - self.num_synced
        for index, batch in enumerate(self.batches):
            self.batch = batch
            with self.module.no_sync() if index < num_alone else nullcontext():
                self.micro_step()
        self.before_update()
        self.update()

    def backward(self) -> None:
        inputs, targets = self.batch
        self.loss = (self.module(inputs) * targets).sum()
        self.loss.backward()

    def compile(self, *, is_fused: bool) -> None:
        """The module; `is_fused`: with products that communicate. Raises Unavailable where torch
        makes none, on every rank alike."""
        from torch._inductor import config
        from torch.distributed._symmetric_memory import enable_symm_mem_for_group

        fused: list[str] = []

        def note(graph: torch.fx.Graph) -> None:
            fused.extend(name for node in graph.nodes if "fused_" in (name := str(node.target)))

        if is_fused:
            enable_symm_mem_for_group(dist.group.WORLD.group_name)  # type: ignore[union-attr]
        self.module = torch.compile(self.module)
        with config.patch({"_micro_pipeline_tp": is_fused, "post_grad_custom_post_pass": note}):
            self.step()
        if not self.group.agree(bool(fused) or not is_fused):
            raise Unavailable("torch fuses no product with an all-gather or reduce-scatter here")

    def prepared(self, step: Callable[[], None] | None = None) -> Prepared:
        """With all proofs: of `step`, where it is more than the own one."""
        step, checks = step or self.step, dict[str, Callable[[], str | None]]()
        if self.num > 1:  # one process has nobody to agree with, or to send to
            sends = self.way.sends(self.shape, self.num, self.num_synced)
            checks = {"replicas": self.disagree, "sent": partial(wrong_bytes, step, sends)}
        checks |= {"memory": self.wrong_memory, "parity": self.differs}
        return Prepared(step=step, proofs=checks, tells=self.held, one_stream=False)

    def wholes(self) -> list[Tensor]:
        """Every parameter, put together from all ranks where it is split."""
        whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in self.model.parameters()]
        return [parameter.detach() for parameter in whole]

    def momenta(self) -> list[Tensor]:
        states = getattr(self.optimizer, "optim", self.optimizer).state.values()
        return [state["momentum_buffer"] for state in states if state]

    def load(self, weights: list[Tensor]) -> None:
        """Start anew from these, at the rate that is proven."""
        with torch.no_grad():
            for parameter, value in zip(self.model.parameters(), weights, strict=True):
                if isinstance(parameter, DTensor):
                    value = distribute_tensor(value, parameter.device_mesh, parameter.placements)
                parameter.copy_(value)
        for number in self.momenta():
            number.zero_()
        for options in self.optimizer.param_groups:
            options["lr"] = RATE

    def held(self) -> dict[str, int]:
        """Bytes of this rank: of the memory behind its tensors, each once."""
        parameters: list[Any] = [*self.model.parameters()]
        kinds = parameters, [parameter.grad for parameter in parameters], self.momenta()
        local = [[getattr(t, "_local_tensor", t).untyped_storage() for t in kind] for kind in kinds]
        sizes = [sum({s.data_ptr(): s.nbytes() for s in kind}.values()) for kind in local]
        return {f"{kind}_bytes": nbytes for kind, nbytes in zip(KINDS, sizes, strict=True)}

    def wrong_memory(self) -> str | None:
        """Parameters, gradients and the optimizer's numbers are each the model's, or an n-th."""
        for kind, nbytes in zip(KINDS, self.held().values(), strict=True):
            expected = self.shape.nbytes // (self.num if kind in self.way.shared else 1)
            if nbytes != expected:
                return f"{kind} bytes are {nbytes}, not {expected}"
        return None

    def disagree(self) -> str | None:
        """After all steps that were timed every rank sees the same parameters: the sums of their
        bits as whole numbers are the same."""
        bits = [value.float().view(torch.int32).sum() for value in self.wholes()]
        every = gathered(torch.stack(bits))
        odd = [rank for rank, other in enumerate(every) if not torch.equal(other, every[0])]
        return f"ranks {odd} have other parameters than rank 0" if odd else None

    def differs(self) -> str | None:
        """Steps from whole numbers give what one process gets on all ranks' rows, bit for bit.
        Raises Unavailable where that is not exact."""
        if not self.is_exact:
            raise Unavailable("bfloat16 holds no exact sums of so many")
        model = self.shape, self.num, self.count, self.where
        expected = one_process(*model)
        self.use(batches(*model, is_random=False))
        self.load(whole_weights(self.shape, self.where))
        for _ in range(STEPS):
            self.step()
        self.group.synchronize()
        named = zip(self.model.named_parameters(), self.wholes(), expected, strict=True)
        for (name, _), value, right in named:
            if wrong := int((value != right).sum()):
                return f"{name} differs from one process in {wrong} of {value.numel()} numbers"
        return None


def gathered(mine: Tensor) -> list[Tensor]:
    """Every rank's."""
    every = [torch.empty_like(mine) for _ in range(rank_group().num_ranks)]
    rank_group().counted("all_gather", lambda: dist.all_gather(every, mine))()
    return every


def wrong_bytes(step: Callable[[], None], traffic: Mapping[str, int]) -> str | None:
    """What this rank sends over TCP in a step, and the barrier after it, is within 1 % of the
    formula times what gloo's algorithms send. Raises Unavailable for another backend."""
    group = rank_group()
    if group.backend != "gloo":
        raise Unavailable(f"nobody counts what {group.backend} sends")
    whole = sum(SENT_BY_GLOO[name] * nbytes for name, nbytes in traffic.items())
    expected = whole * (group.num_ranks - 1) / group.num_ranks
    group.barrier()
    start = tcp_bytes_sent()
    step()
    group.barrier()
    sent = tcp_bytes_sent() - start
    spare = SENT_WITHIN * expected + HEADER_BYTES * (group.num_ranks - 1)
    return None if abs(sent - expected) <= spare else f"{sent} bytes, not {expected:.0f}"


def batches(
    shape: Shape, num_ranks: int, count: int, where: Any, *, is_random: bool = True
) -> Batches:
    """All ranks' rows: random numbers, or whole ones, most of them 0. A gradient is a sum over rows
    of products of an input and a target: so about CHANGED in a row of a weight are not 0."""
    drawn = torch.Generator(where).manual_seed(1)
    size = 2 * count, num_ranks * shape.rows, shape.width
    if is_random:
        numbers = RANDOM_SIZE * torch.randn(size, generator=drawn, device=where).to(shape.dtype)
    else:
        share = (CHANGED[shape.layers == 0] / (count * size[1] * shape.width)) ** 0.5
        is_some = torch.rand(size, generator=drawn, device=where) < share
        numbers = (is_some * torch.randint(-2, 3, size, generator=drawn, device=where)).float()
        numbers[1::2] *= SCALE
    return [(numbers[index], numbers[index + 1]) for index in range(0, 2 * count, 2)]


def whole_weights(shape: Shape, where: Any) -> list[Tensor]:
    drawn, weights = torch.Generator(where).manual_seed(2), []
    for height, width in (parameter.shape for parameter in shape.build("meta").parameters()):
        place = torch.randperm(max(height, width), generator=drawn, device=where) % width
        signs = 2.0 * torch.randint(0, 2, (height, 1), generator=drawn, device=where) - 1
        weight = torch.zeros(height, width, device=where)
        weights.append(weight.scatter_(1, place[:height, None], signs))
    return weights


@cache
def one_process(shape: Shape, num_ranks: int, count: int, where: Any) -> list[Tensor]:
    """The parameters after STEPS on the rows of so many ranks, computed in float64. Raises
    Unavailable where float32 does not hold them exactly."""
    if num_ranks & (num_ranks - 1):
        raise Unavailable(f"a mean over {num_ranks} ranks is not exact, but over a power of two")
    model = shape.build(where).double()
    for parameter, weight in zip(model.parameters(), whole_weights(shape, where), strict=True):
        parameter.data.copy_(weight)
    optimizer = SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for inputs, targets in batches(shape, num_ranks, count, where, is_random=False):
            (model(inputs.double()) * targets).sum().backward()
        optimizer.step()
    for parameter in model.parameters():
        largest = float(parameter.grad.abs().max()) if parameter.grad is not None else 0.0
        is_exact = largest < SCALE << 24 and torch.equal(parameter.float().double(), parameter)
        if not is_exact:
            raise Unavailable("float32 does not hold the sums exactly")
    return [parameter.detach().float() for parameter in model.parameters()]
