"""What the devices on torch tensors share: buffers, views, patterns, comparisons and marks."""

import mmap
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any

import torch

from hostbench.core.units import MIB
from hostbench.device.base import Buffer, Device, DType, Fill, HostRead, Memory, Step
from hostbench.device.loading import Loading
from hostbench.device.torch_loader import PATTERN_BYTES, TorchLoader

TRAINING_WIDTH, TRAINING_LAYERS = 512, 4
"""Of the perceptron: 1MiB of weights a layer, 2KiB of activations an example and layer."""
_LEARNING_RATE = 1e-9
FULL = 1.0
"""What `full` writes."""
_MARK_SHAPE = (2, 8)
_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ("uint8", "float16", "bfloat16", "float32")
}
_PATTERN_BYTES = MIB - 3  # the largest prime under 1MiB: a misplaced block does not match
_KEPT_PATTERNS = 16
_NUMBERS = 2039  # a prime below 2048, up to which float16 holds every whole number


class TorchDevice(Device):
    """Buffers are tensors; those of the device are on `torch_device`."""

    torch_device = torch.device("cpu")
    _loaders: tuple[TorchLoader, ...] = ()

    def loader(self, loading: Loading) -> TorchLoader:
        if loading.pinned:
            self.require("pinned memory")
        made = TorchLoader(loading, self._items)
        self._loaders += (made,)
        return made

    @cached_property
    def _items(self) -> Buffer:
        """What a DataLoader's items are parts of: for the life of the device, and shared with the
        workers, who are forked."""
        pattern = torch.empty(PATTERN_BYTES, dtype=torch.uint8)
        self.fill_pattern(pattern, seed=1)
        return pattern

    def _close_loaders(self) -> None:
        """First of all: what they have handed out may be in use, their workers are not."""
        closing, self._loaders = self._loaders, ()
        for loader in closing:
            loader.close()

    def host_buffer(self, nbytes: int, *, pinned: bool) -> Buffer:
        if pinned:
            self.require("pinned memory")
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=pinned).fill_(0)  # touched

    def buffer(self, nbytes: int) -> Buffer:
        return torch.empty(nbytes, dtype=torch.uint8, device=self.torch_device).fill_(0)

    def creator(self, fill: Fill, nbytes: int, *, on_host: bool) -> Callable[[], Buffer]:
        makers: dict[str, Callable[..., Buffer]]
        makers = {
            "empty": torch.empty,
            "zeros": torch.zeros,
            "randn": torch.randn,
            "full": partial(torch.full, fill_value=FULL),
            "arange": _arange,
        }
        where = torch.device("cpu") if on_host else self.torch_device
        return partial(makers[fill], (nbytes // 4,), dtype=torch.float32, device=where)

    def training_step(self, num_examples: int) -> Step:
        return TrainingStep(num_examples, self.torch_device)

    def fill(self, buffer: Buffer, fill: Fill) -> None:
        fill_in_place(buffer, fill)

    def allocator(self, nbytes: int, memory: Memory) -> Callable[[], Buffer]:
        """A page of pageable memory comes when it is first touched: each is, once. Others are there
        when they are allocated. malloc gives some sizes back to the system and keeps others, by
        what the process did before: so it is not asked."""
        if memory == "pinned":
            self.require("pinned memory")
        if memory == "device":
            self.require("memory of its own")
            return partial(torch.empty, nbytes, dtype=torch.uint8, device=self.torch_device)
        if memory == "pinned":
            return partial(torch.empty, nbytes, dtype=torch.uint8, pin_memory=True)

        def allocate() -> Buffer:
            allocated = own_pages(nbytes)
            self.touch(allocated)
            return allocated

        return allocate

    def touch(self, buffer: Buffer) -> None:
        buffer.view(torch.uint8)[:: mmap.PAGESIZE].zero_()

    def typed(self, buffer: Buffer, dtype: DType) -> Buffer:
        return buffer.view(_DTYPES[dtype])

    def every_second(self, buffer: Buffer) -> Buffer:
        return buffer[::2]

    def fill_pattern(self, buffer: Buffer, seed: int) -> None:
        """Bytes from a seeded generator; as floats whole numbers from 0 to 2038."""
        length = min(buffer.numel(), _PATTERN_BYTES)
        block = _bytes(length, seed) if buffer.dtype == torch.uint8 else _numbers(length, seed)
        block = block.to(device=buffer.device, dtype=buffer.dtype)
        for start in range(0, buffer.numel(), max(1, block.numel())):
            part = buffer[start : start + block.numel()]
            part.copy_(block[: part.numel()])

    def same_values(self, left: Buffer, right: Buffer) -> bool:
        """Of two on one device: bytes where both are dense and of one type, else `right` cast to
        the type of `left`."""
        if left.dtype == right.dtype and left.is_contiguous() and right.is_contiguous():
            return torch.equal(_words(left), _words(right))
        return torch.equal(left.float(), right.to(left.dtype).float())

    def marks(self, num: int) -> Buffer:
        return torch.zeros((num, *_MARK_SHAPE), dtype=torch.uint8, device=self.torch_device)

    def mark(self, marks: Buffer, index: int, buffer: Buffer) -> None:
        marks[index].copy_(_ends(buffer))

    def marked(self, marks: Buffer, index: int, source: Buffer) -> bool:
        return torch.equal(marks[index].cpu(), _ends(source).cpu())

    def counter(self) -> Buffer:
        return torch.zeros(1, dtype=torch.float32, device=self.torch_device)

    def advance(self, counter: Buffer) -> None:
        counter.add_(1)

    def host_read(self, how: HostRead, counter: Buffer) -> Callable[[], Any]:
        """The expression itself, as a program has it."""
        if how == "synchronize":
            return self.synchronize
        return partial(_EXPRESSIONS[how], counter)


class _Nowhere:
    """Where printed text goes."""

    def write(self, text: str) -> None: ...


_NOWHERE = _Nowhere()


def _print(tensor: torch.Tensor) -> None:
    print(tensor, file=_NOWHERE)


def _if_greater(tensor: torch.Tensor) -> bool:
    if tensor > 0:
        return True
    return False


_EXPRESSIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda tensor: tensor.item(),
    "print": _print,
    "bool": bool,
    "if_greater": _if_greater,
    "cpu": lambda tensor: tensor.cpu(),
    "tolist": lambda tensor: tensor.tolist(),
    "nonzero": torch.nonzero,
    "mask": lambda tensor: tensor[tensor > 0],
    "shape": lambda tensor: tensor.shape,
}


class TrainingStep:
    """See `Device.training_step`. Without autograd, so that it runs on any stream and just what is
    kept is there: beside weights and their slopes the activations, each until the backward pass has
    used it. Every number stays near what it was at the start."""

    def __init__(self, num_examples: int, device: torch.device) -> None:
        shape: dict[str, Any] = {"dtype": torch.float32, "device": device}
        self.examples = torch.ones((num_examples, TRAINING_WIDTH), **shape)
        width = (TRAINING_WIDTH, TRAINING_WIDTH)
        self.weights = [
            torch.full(width, 1 / TRAINING_WIDTH, **shape) for _ in range(TRAINING_LAYERS)
        ]
        self.slopes = [torch.zeros(width, **shape) for _ in range(TRAINING_LAYERS)]

    def __call__(self) -> None:
        """The loss is half the mean square of what comes out."""
        values = [self.examples]
        for weight in self.weights:
            values.append(torch.mm(values[-1], weight).relu_())
        slope = values[-1] / len(self.examples)
        for weight, its_slope in zip(reversed(self.weights), reversed(self.slopes), strict=True):
            slope *= values.pop() > 0
            torch.mm(values[-1].t(), slope, out=its_slope)
            slope = torch.mm(slope, weight.t())
        for weight, its_slope in zip(self.weights, self.slopes, strict=True):
            weight.sub_(its_slope, alpha=_LEARNING_RATE)


def own_pages(nbytes: int) -> torch.Tensor:
    """Host memory from the system, on pages of its own, which nobody has touched yet."""
    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=torch.uint8)


def fill_in_place(buffer: torch.Tensor, fill: Fill) -> None:
    """With the kernels that `creator` fills a new tensor with."""
    if fill == "arange":
        torch.arange(buffer.numel(), out=buffer)
    elif fill == "randn":
        buffer.normal_()
    elif fill == "zeros":
        buffer.zero_()
    elif fill == "full":
        buffer.fill_(FULL)


def _arange(size: tuple[int], **where: Any) -> torch.Tensor:
    return torch.arange(*size, **where)


@lru_cache(maxsize=_KEPT_PATTERNS)
def _bytes(length: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (length,), dtype=torch.uint8, generator=generator)


def _numbers(length: int, seed: int) -> torch.Tensor:
    return (torch.arange(length) * 7 + seed) % _NUMBERS


def _ends(buffer: torch.Tensor) -> torch.Tensor:
    """Shape (2, 8), uint8: the first and the last 8 bytes, as one view: what `mark` notes.
    `buffer` is uint8, at least 8 long."""
    return buffer.as_strided(_MARK_SHAPE, (buffer.numel() - _MARK_SHAPE[1], 1))


def _words(buffer: torch.Tensor) -> torch.Tensor:
    """The bits of a dense buffer by eights of bytes, where it divides so: compared as bytes they
    take seven times as long."""
    flat = buffer.view(torch.uint8)
    whole = flat.numel() % 8 == 0 and flat.storage_offset() % 8 == 0
    return flat.view(torch.int64) if whole else flat
