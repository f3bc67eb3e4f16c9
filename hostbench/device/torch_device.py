"""What the devices on torch tensors share: buffers, patterns, comparisons, and a DataLoader."""

import mmap
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.utils.data import DataLoader, Dataset

from hostbench.core.errors import Unavailable
from hostbench.core.processes import die_with_parent
from hostbench.core.units import MIB, format_bytes
from hostbench.device.base import Buffer, Device, Fill, HostRead, Memory, Step
from hostbench.device.loading import NUM_ITEMS, Loading

profiler: Any = torch.profiler  # torch leaves its calls without types
TRAINING_WIDTH, TRAINING_LAYERS = 512, 4
"""Of the perceptron: 1MiB of weights a layer, 2KiB of activations an example and layer."""
_LEARNING_RATE = 1e-9
FULL = 1.0
"""What `full` writes."""
_BLOCK_BYTES = MIB - 3  # the largest prime under 1MiB: a misplaced block does not match
_STEP, _SEED_STEP = 2654435761, 40503 << 16  # odd, so that neighbours and seeds have nothing alike

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - only its size is asked
_IN_USE = 4
"""Batches that the loop or the device may hold still, beside those that are made ahead."""
PATTERN_BYTES = 256 * MIB
"""Of which items are parts: more than caches hold, so that an item comes from memory."""
_STRIDE_BYTES = 157_001
"""From the start of one item to that of the next, and then from the pattern's start again: more
than the largest item, and so that no two hold the same."""


class TorchDevice(Device):
    """Buffers are tensors; those of the device are on `torch_device`."""

    torch_device = torch.device("cpu")
    _loader: "TorchLoader | None" = None

    def loader(self, loading: Loading) -> "TorchLoader":
        if loading.pinned:
            self.require("pinned memory")
        self._loader = TorchLoader(loading, self._items)
        return self._loader

    @cached_property
    def _items(self) -> Buffer:
        """What a DataLoader's items are parts of: for the life of the device, and shared with the
        workers, who are forked. On large pages, whose table is copied for each sooner."""
        pattern = own_pages(PATTERN_BYTES, are_large=True)
        self.fill_pattern(pattern, seed=1)
        return pattern

    def _close_loader(self) -> None:
        """First of all: what it has handed out may be in use, its workers are not."""
        if self._loader is not None:
            self._loader.close()
        self._loader = None

    def host_buffer(self, nbytes: int, *, pinned: bool) -> Buffer:
        if pinned:
            self.require("pinned memory")
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=pinned).fill_(0)  # touched

    def buffer(self, nbytes: int) -> Buffer:
        return torch.empty(nbytes, dtype=torch.uint8, device=self.torch_device).fill_(0)

    def creator(self, fill: Fill, nbytes: int, *, on_host: bool) -> Callable[[], Buffer]:
        device, size = torch.device("cpu") if on_host else self.torch_device, nbytes // 4
        makers: dict[str, Callable[..., Buffer]] = {
            "empty": partial(torch.empty, size),  # of a tuple it takes half as long again
            "zeros": partial(torch.zeros, size),
            "randn": partial(torch.randn, size),
            "full": partial(torch.full, (size,), FULL),
            "arange": partial(torch.arange, size),
        }
        return partial(makers[fill], dtype=torch.float32, device=device)

    def training_step(self, num_examples: int) -> Step:
        return TrainingStep(num_examples, self.torch_device)

    def fill(self, buffer: Buffer, fill: Fill) -> None:
        """With the kernels that `creator` fills a new tensor with."""
        if fill == "arange":
            torch.arange(buffer.numel(), out=buffer)
        elif fill == "randn":
            buffer.normal_()
        elif fill == "zeros":
            buffer.zero_()
        elif fill == "full":
            buffer.fill_(FULL)

    def allocator(self, nbytes: int, memory: Memory) -> Callable[[], Buffer]:
        """A page of pageable memory comes when it is first touched: each is, once. Others are there
        when they are allocated. malloc gives some sizes back to the system and keeps others, by
        what the process did before: so it is not asked."""
        if memory == "pinned":
            self.require("pinned memory")
            return partial(torch.empty, nbytes, dtype=torch.uint8, pin_memory=True)
        if memory == "device":
            self.require("memory of its own")
            return partial(torch.empty, nbytes, dtype=torch.uint8, device=self.torch_device)

        def allocate() -> Buffer:
            allocated = own_pages(nbytes)
            self.touch(allocated)
            return allocated

        return allocate

    def touch(self, buffer: Buffer) -> None:
        buffer.view(torch.uint8)[:: mmap.PAGESIZE].zero_()

    def fill_pattern(self, buffer: Buffer, seed: int) -> None:
        """From arithmetic on the side where the buffer lies: nothing crosses a link for it. Bytes,
        or as floats whole numbers below 2048, in blocks of a prime length."""
        length = min(buffer.numel(), _BLOCK_BYTES)
        numbers = torch.arange(length, dtype=torch.int64, device=buffer.device)
        numbers.mul_(_STEP).add_(seed * _SEED_STEP).bitwise_right_shift_(16)
        block = numbers.bitwise_and_(255 if buffer.dtype == torch.uint8 else 2047).to(buffer.dtype)
        for start in range(0, buffer.numel(), max(1, length)):
            part = buffer[start : start + length]
            part.copy_(block[: part.numel()])

    def same_values(self, left: Buffer, right: Buffer) -> bool:
        """Of two on one device: the bits where both are dense and of one type, eight bytes at once
        where they divide so (seven times as fast); else `right` cast to the type of `left`."""
        if left.dtype != right.dtype or not (left.is_contiguous() and right.is_contiguous()):
            return torch.equal(left.float(), right.to(left.dtype).float())
        flat = [buffer.view(torch.uint8) for buffer in (left, right)]
        if all(each.numel() % 8 == 0 and each.storage_offset() % 8 == 0 for each in flat):
            flat = [each.view(torch.int64) for each in flat]
        return torch.equal(*flat)

    def counter(self) -> Buffer:
        return torch.zeros(1, dtype=torch.float32, device=self.torch_device)

    def advance(self, counter: Buffer) -> None:
        counter.add_(1)

    def host_read(self, how: HostRead, counter: Buffer) -> Callable[[], Any]:
        """The expression itself, as a program has it."""
        if how == "synchronize":
            return self.synchronize
        return partial(_EXPRESSIONS[how], counter)


_NOWHERE: Any = SimpleNamespace(write=lambda _: None)
_EXPRESSIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda tensor: tensor.item(),
    "print": partial(print, file=_NOWHERE),
    "bool": bool,
    "if_greater": lambda tensor: True if tensor > 0 else False,  # as in a program
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
        width = (TRAINING_WIDTH, TRAINING_WIDTH)
        new = partial(torch.full, dtype=torch.float32, device=device)
        self.examples = new((num_examples, TRAINING_WIDTH), 1.0)
        self.weights = [new(width, 1 / TRAINING_WIDTH) for _ in range(TRAINING_LAYERS)]
        self.slopes = [new(width, 0.0) for _ in range(TRAINING_LAYERS)]

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


def own_pages(nbytes: int, *, are_large: bool = False) -> torch.Tensor:
    """Host memory from the system, on pages of its own, which nobody has touched yet."""
    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if are_large:
        with suppress(OSError):  # a kernel may have none
            pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.uint8)


def chrome_trace(work: Step, *, on_cuda: bool) -> bytes:
    """The Chrome trace of what torch did while `work` ran, by its profiler (Kineto): without CUDA
    in each thread; with it also calls of CUDA's runtime and the work of each stream, by CUPTI."""
    kinds, more = [profiler.ProfilerActivity.CPU], dict[str, Any]()
    if on_cuda:
        kinds.append(profiler.ProfilerActivity.CUDA)
    else:
        with suppress(TypeError):  # an older torch sees the thread that calls, alone
            more["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
    with profiler.profile(activities=kinds, **more) as profile:
        work()
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return path.read_bytes()


class Items(Dataset[torch.Tensor]):
    """The dataset: an item is a part of `pattern`, after so much CPU time."""

    def __init__(self, loading: Loading, pattern: torch.Tensor) -> None:
        self._loading, self._pattern = loading, pattern

    def __len__(self) -> int:
        return NUM_ITEMS

    def item(self, index: int) -> torch.Tensor:
        start = index * _STRIDE_BYTES % (len(self._pattern) - self._loading.item_bytes)
        return self._pattern[start : start + self._loading.item_bytes]

    def __getitem__(self, asked: tuple[int, float]) -> torch.Tensor:
        index, seconds = asked
        end_s = time.thread_time() + seconds
        while time.thread_time() < end_s:
            pass
        return self.item(index)


class TorchLoader:
    """torch's own DataLoader. Its workers are forked from the process that measures, and touch no
    device. They die with it, and with the case. Raises Unavailable where shared memory is too small
    for what they make ahead: workers hand over batches there, and where it is full they are killed
    by SIGBUS."""

    def __init__(self, loading: Loading, pattern: Buffer) -> None:
        """`pattern` holds PATTERN_BYTES as `Device.fill_pattern` writes them."""
        self._loading = loading
        self._items = Items(loading, pattern)
        self._running: Any = None
        has_workers = loading.num_workers > 0
        needed = (loading.ahead + _IN_USE) * loading.batch_bytes
        with suppress(OSError):  # for torch to say
            memory = os.statvfs(SHARED_MEMORY)
            free = memory.f_bavail * memory.f_frsize
            if has_workers and free < needed:
                raise Unavailable(
                    f"needs {format_bytes(needed)} of shared memory, {SHARED_MEMORY} has "
                    f"{format_bytes(free)}: start the container with --shm-size=1g"
                )
        self._loader: Any = _quietly(
            partial(
                DataLoader,
                self._items,
                batch_sampler=loading,
                num_workers=loading.num_workers,
                pin_memory=loading.pinned,
                prefetch_factor=loading.prefetch_factor if has_workers else None,
                persistent_workers=loading.persistent and has_workers,
                multiprocessing_context="fork" if has_workers else None,
                worker_init_fn=lambda _: die_with_parent(),
            )
        )

    def __iter__(self) -> Iterator[Buffer]:
        self._running = _quietly(partial(iter, self._loader))
        return (batch.view(-1) for batch in self._running)

    def expected(self, batch: int) -> Buffer:
        return torch.cat([self._items.item(item) for item in self._loading.items(batch)])

    def close(self) -> None:
        """torch ends its workers when their iterator is no longer there; an exception that is being
        handled may hold it, and a case must not leave processes to the next."""
        end = getattr(self._running, "_shutdown_workers", None)
        workers = getattr(self._running, "_workers", ())
        self._running = self._loader = None
        if end is not None:
            with suppress(RuntimeError):  # torch tells of a killed worker at any moment; it goes on
                end()
        for worker in workers:
            worker.join()


def _quietly(act: Callable[[], Any]) -> Any:
    """torch warns where there are more workers than cores, which the facts say; Python from 3.12 on
    where a process with threads forks, which every DataLoader's process does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return act()
