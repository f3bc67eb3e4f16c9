"""The model that is trained, the ways to wrap it, and what each has a rank send and hold.

It is layers of `width` x `width`, or one transformer block: sums of products alone (no bias, norm
or softmax), exact on few and small whole numbers, in whatever order they are added. The loss is the
sum of outputs times targets; the optimizer SGD with momentum, one number for each parameter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from hostbench.families.training import KINDS
from hostbench.ranks.group import RankGroup

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
    model: nn.Module, _: RankGroup, *, reshard: bool = True, num_ahead: int = 0, params: str = ""
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


def _split(model: nn.Module, group: RankGroup, *, between: Any = None) -> nn.Module:
    """Layers in pairs, the first by columns and the second by rows; `between` pairs: activations
    whole, or split by rows of the batch."""
    styles = ColwiseParallel(input_layouts=between), RowwiseParallel(output_layouts=between)
    plan: Any = {name: styles[n % 2] for n, (name, _) in enumerate(model.named_children())}
    mesh = init_device_mesh(group.device.torch_device.type, (group.num_ranks,))
    return parallelize_module(model, mesh, plan)


class Wrap(NamedTuple):
    """A way to train over ranks."""

    module: Callable[..., nn.Module]  # gets the model, the group and options
    shared: tuple[str, ...]  # of KINDS: what a rank holds an n-th of
    sends: Callable[[Shape, int, int], Mapping[str, int]]
    """Gets the shape, the number of ranks and of synchronized micro-batches; gives operation ->
    bytes of a step, as nccl-tests count them; of a broadcast those of all ranks' together."""
    data: str = "own"
    """A rank computes on its `own` rows, and gradients are averaged; on `all` rows; or on its own,
    and they are summed (`sequence`)."""
    optimizer: Callable[[list[Tensor], RankGroup], Any] = lambda parameters, group: SGD(parameters)


# FSDP2 gathers forward and backward, or once where parameters are kept. Tensor parallelism sums
# behind each pair forward, and before each but the first backward, whose input needs no gradient;
# by sequence a pair gathers and scatters in place of that.
WRAPS: Mapping[str, Wrap] = {
    "plain": Wrap(lambda model, group: model, (), lambda s, n, k: {}),
    "ddp": Wrap(
        lambda model, group, **options: DistributedDataParallel(model, **options), (),
        lambda s, n, k: {"all_reduce": k * s.nbytes},
    ),
    "zero1": Wrap(
        lambda model, group: DistributedDataParallel(model), ("optimizer",),
        lambda s, n, k: {"all_reduce": k * s.nbytes, "broadcast": s.nbytes},
        optimizer=lambda all, group: ZeroRedundancyOptimizer(all, torch.optim.SGD, **SGD.keywords),
    ),
    "fsdp2": Wrap(
        _fsdp2, KINDS, lambda s, n, k: {GATHER: 2 * s.nbytes, SCATTER: s.nbytes}
    ),
    "fsdp2_kept": Wrap(
        partial(_fsdp2, reshard=False), KINDS,
        lambda s, n, k: {GATHER: s.nbytes, SCATTER: s.nbytes},
    ),
    "tensor_parallel": Wrap(_split, KINDS, lambda s, n, k: {"all_reduce": s.between(n, 1)}, "all"),
    "sequence_parallel": Wrap(
        partial(_split, between=Shard(0)), KINDS,
        lambda s, n, k: {GATHER: s.between(n, 0), SCATTER: s.between(n, 1)},
        "sequence",
    ),
}  # fmt: skip
