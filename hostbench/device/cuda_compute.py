"""Compute that fills a GPU for a wanted time: matrix products whose inner dimension is calibrated.

A spinning kernel of one block (`torch.cuda._sleep`) would not do: two of them run side by side, so
that several streams would seem to compute faster than one. float32 products of this size occupy
every multiprocessor and read little memory beside their arithmetic.
"""

from collections.abc import Callable
from functools import partial

import torch

from hostbench.core.samples import median
from hostbench.device.base import Step

ROWS = 2048
DEPTH = 1024
"""The inner dimension of one whole product; the last product of a compute has a shorter one."""
_LEAST_DEPTH = 8

_Product = tuple[torch.Tensor, torch.Tensor]


class Filler:
    """Products on one device. `times`: of a step on the device, as `Device.device_times`."""

    def __init__(self, device: torch.device, times: Callable[[Step], list[float]]) -> None:
        # One block of 16MiB: torch packs those under 10MiB into segments of 20MiB, and what is
        # left of a segment that is in use outlives each emptying of the cache.
        self._both = torch.ones(2, ROWS * DEPTH, device=device)
        self._left = self._both[0].view(ROWS, DEPTH)
        self._right = self._both[1].view(DEPTH, ROWS)
        self._short_s, self._whole_s = (
            median(times(partial(torch.mm, *self._factors(depth)))) for depth in (DEPTH // 8, DEPTH)
        )

    def step(self, seconds: float) -> Step:
        """Enqueues products that take about `seconds`, at least one short one."""
        factors = [self._factors(depth) for depth in self.depths(seconds)]

        def run() -> None:
            for left, right in factors:
                torch.mm(left, right)  # its result is dropped: streams share no output

        return run

    @property
    def nbytes(self) -> int:
        """Of the device's memory, for as long as this object lives."""
        return self._both.nbytes

    def depths(self, seconds: float) -> list[int]:
        """Inner dimensions of the products: whole ones, then one that takes the rest."""
        num_whole = int(seconds / self._whole_s)
        per_depth_s = (self._whole_s - self._short_s) / (DEPTH - DEPTH // 8)
        fixed_s = self._whole_s - DEPTH * per_depth_s
        rest_s = seconds - num_whole * self._whole_s - fixed_s
        rest = round(rest_s / per_depth_s / _LEAST_DEPTH) * _LEAST_DEPTH if per_depth_s > 0 else 0
        if rest < _LEAST_DEPTH and num_whole:
            return [DEPTH] * num_whole
        return [DEPTH] * num_whole + [min(max(rest, _LEAST_DEPTH), DEPTH)]

    def _factors(self, depth: int) -> _Product:
        return self._left[:, :depth], self._right[:depth]
