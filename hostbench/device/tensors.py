"""Steps that the torch devices share: patterns, comparisons and views of buffers."""

import torch

from hostbench.device.protocol import DType
from hostbench.units import MIB

MARK_SHAPE = (2, 8)
DTYPES = {"uint8": torch.uint8, "float16": torch.float16, "float32": torch.float32}
_PATTERN_BYTES = MIB - 3  # the largest prime under 1 MiB: a misplaced block does not match
_NUMBERS = 2039  # a prime below 2048, up to which float16 holds every whole number


def ends(buffer: torch.Tensor) -> torch.Tensor:
    """Shape (2, 8), uint8: the first and the last 8 bytes, as one view: what `mark` notes.
    `buffer` is uint8, at least 8 long."""
    return buffer.as_strided(MARK_SHAPE, (buffer.numel() - MARK_SHAPE[1], 1))


def typed(buffer: torch.Tensor, dtype: DType) -> torch.Tensor:
    return buffer.view(DTYPES[dtype])


def every_second(buffer: torch.Tensor) -> torch.Tensor:
    return buffer[::2]


def fill(buffer: torch.Tensor, seed: int) -> None:
    """Bytes from a seeded generator; in a buffer typed as floats whole numbers from 0 to 2038."""
    block = _bytes(buffer, seed) if buffer.dtype == torch.uint8 else _numbers(buffer, seed)
    block = block.to(buffer.device)
    for start in range(0, buffer.numel(), max(1, block.numel())):
        part = buffer[start : start + block.numel()]
        part.copy_(block[: part.numel()])


def _bytes(buffer: torch.Tensor, seed: int) -> torch.Tensor:
    length = min(buffer.numel(), _PATTERN_BYTES)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (length,), dtype=torch.uint8, generator=generator)


def _numbers(buffer: torch.Tensor, seed: int) -> torch.Tensor:
    length = min(buffer.numel(), _PATTERN_BYTES)
    return ((torch.arange(length) * 7 + seed) % _NUMBERS).to(buffer.dtype)


def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two buffers on one device hold equal values: bytes where both are dense and of one
    type, else `right` cast to the type of `left`."""
    if left.dtype == right.dtype and left.is_contiguous() and right.is_contiguous():
        return torch.equal(left.view(torch.uint8), right.view(torch.uint8))
    return torch.equal(left.float(), right.to(left.dtype).float())
