"""Steps that the torch devices share: patterns, comparisons and views of buffers."""

from functools import lru_cache

import torch

from hostbench.core.units import MIB
from hostbench.device.protocol import DType

MARK_SHAPE = (2, 8)
DTYPES = {"uint8": torch.uint8, "float16": torch.float16, "float32": torch.float32}
_PATTERN_BYTES = MIB - 3  # the largest prime under 1 MiB: a misplaced block does not match
_KEPT_PATTERNS = 16
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
    length = min(buffer.numel(), _PATTERN_BYTES)
    block = _bytes(length, seed) if buffer.dtype == torch.uint8 else _numbers(length, seed)
    block = block.to(device=buffer.device, dtype=buffer.dtype)
    for start in range(0, buffer.numel(), max(1, block.numel())):
        part = buffer[start : start + block.numel()]
        part.copy_(block[: part.numel()])


@lru_cache(maxsize=_KEPT_PATTERNS)
def _bytes(length: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (length,), dtype=torch.uint8, generator=generator)


def _numbers(length: int, seed: int) -> torch.Tensor:
    return (torch.arange(length) * 7 + seed) % _NUMBERS


def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two buffers on one device hold equal values: bytes where both are dense and of one
    type, else `right` cast to the type of `left`."""
    if left.dtype == right.dtype and left.is_contiguous() and right.is_contiguous():
        return torch.equal(_words(left), _words(right))
    return torch.equal(left.float(), right.to(left.dtype).float())


def _words(buffer: torch.Tensor) -> torch.Tensor:
    """The bits of a dense buffer by eights of bytes, where it divides so: compared as bytes they
    take seven times as long."""
    flat = buffer.view(torch.uint8)
    whole = flat.numel() % 8 == 0 and flat.storage_offset() % 8 == 0
    return flat.view(torch.int64) if whole else flat
