"""What PYTORCH_CUDA_ALLOC_CONF says to torch's caching allocator, as far as it is modelled."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hostbench.core.units import MIB

MIN_BLOCK, LARGE_SEGMENT = 512, 20 * MIB
"""kMinBlockSize, kLargeBuffer."""
NO_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorSettings:
    """What PYTORCH_CUDA_ALLOC_CONF says; sizes in bytes."""

    backend: str = "native"
    expandable_segments: bool = False
    max_split_size: int = NO_LIMIT
    roundup_power2_divisions: int = 0
    garbage_collection_threshold: float = 0.0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "AllocatorSettings":
        """As torch reads them: of the two variables the older one, where both are set. Raises
        ValueError for a setting that is not modelled, and for what torch refuses."""
        names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
        text = next((environment[name] for name in names if name in environment), "")
        found: dict[str, Any] = {}
        for part in filter(None, text.replace(" ", "").split(",")):
            key, _, value = part.partition(":")
            if key not in _READERS:
                raise ValueError(f"the stand-in for CUDA knows no allocator setting {part!r}")
            found[key.removesuffix("_mb")] = _READERS[key](value)
        return cls(**found)

    def rounded(self, nbytes: int) -> int:
        """round_size"""
        if nbytes < MIN_BLOCK:
            return MIN_BLOCK
        parts = self.roundup_power2_divisions
        if parts > 1 and nbytes > MIN_BLOCK * parts and nbytes & (nbytes - 1):
            step = 1 << (nbytes.bit_length() - 1) >> (parts.bit_length() - 1)
            return -(-nbytes // step) * step
        return -(-nbytes // MIN_BLOCK) * MIN_BLOCK


def _split_size(text: str) -> int:
    if int(text) * MIB <= LARGE_SEGMENT:
        raise ValueError("max_split_size_mb is too small, must be > 20")
    return int(text) * MIB


def _power_of_two(text: str) -> int:
    number = int(text)
    if number & (number - 1):
        raise ValueError("For roundups, the divisions has to be power of 2 or 0 to disable roundup")
    return number


_READERS: Mapping[str, Callable[[str], Any]] = {
    "backend": str,
    "expandable_segments": lambda text: {"True": True, "False": False}[text],
    "max_split_size_mb": _split_size,
    "roundup_power2_divisions": _power_of_two,
    "garbage_collection_threshold": float,
}
