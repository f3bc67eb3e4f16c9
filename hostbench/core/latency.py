"""What times over sizes say: latency and bandwidth, from which size on pinned memory is faster,
after how many copies pinning has paid. Pure functions of seconds and bytes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

MIN_SIZES = 4
"""Two sizes fix a line, a third checks it: with four the check means something."""
MIN_SPAN = 64
"""Largest over smallest size; over less, latency and bandwidth cannot be told apart."""
MAX_ERROR = 0.15
"""From this root mean square of the relative errors on, the times are no straight line."""
SAME = 0.02
"""Times that differ by no more than this share are the same time."""

Times = Mapping[int, float]
"""Bytes -> seconds of one copy of that size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The line seconds = latency + bytes / bandwidth through a series, or why there is none."""

    latency_s: float = math.nan
    bytes_per_s: float = math.nan
    error: float = math.nan
    """Root mean square of (line - time) / time."""
    worst: float = math.nan
    """The largest |line - time| / time, and the size at which it is."""
    worst_at: int = 0
    sizes: tuple[int, ...] = ()
    refused: str | None = None

    @property
    def half_rate_bytes(self) -> float:
        """Hockney's n1/2: the size at which half of the bandwidth is reached."""
        return self.latency_s * self.bytes_per_s

    def seconds(self, nbytes: float) -> float:
        return self.latency_s + nbytes / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """From which size on the one is faster than the other."""

    always: bool | None
    """True: at every measured size; False: at none; None: from `nbytes` on, or not to be said."""
    nbytes: float = math.nan
    only_below: bool = False
    """It is faster up to `nbytes` and no longer beyond, instead of from there on."""
    sizes: tuple[int, ...] = ()
    refused: str | None = None


def fit(times: Times) -> Fit:
    """The least-squares line of the relative errors, so that every size counts alike.

    Minimises the sum over sizes of ((latency + bytes / bandwidth - time) / time)**2, which is
    linear in latency and 1 / bandwidth.
    """
    points = {size: times[size] for size in sorted(times) if size > 0 and _is_time(times[size])}
    sizes = tuple(points)
    if len(sizes) < MIN_SIZES:
        return Fit(sizes=sizes, refused=f"{_have(sizes)} a time; {MIN_SIZES} are needed")
    if sizes[-1] < MIN_SPAN * sizes[0]:
        return Fit(sizes=sizes, refused=f"the sizes span less than a factor of {MIN_SPAN}")
    latency_s, per_byte = _line(points)
    if per_byte <= 0:
        return Fit(sizes=sizes, refused="larger copies do not take longer")
    errors = {size: (latency_s + size * per_byte) / time - 1 for size, time in points.items()}
    error = math.sqrt(sum(error_at**2 for error_at in errors.values()) / len(errors))
    worst_at = max(errors, key=lambda size: abs(errors[size]))
    result = Fit(error=error, worst=abs(errors[worst_at]), worst_at=worst_at, sizes=sizes)
    if error > MAX_ERROR:
        return replace(result, refused=f"the times are no straight line: fit error {error:.0%}")
    if latency_s < 0:
        return replace(result, refused="the line through the times has a latency below zero")
    return replace(result, latency_s=latency_s, bytes_per_s=1 / per_byte)


def crossover(slow: Times, fast: Times) -> Crossover:
    """From which size on, or up to which one, `fast` is faster than `slow` by more than SAME.

    Between two measured sizes the logarithm of their ratio is interpolated over the logarithm of
    the size. Refused where the order changes more than once.
    """
    both = (size for size in sorted(set(slow) & set(fast)) if size > 0)
    lead = {
        size: math.log(slow[size] / fast[size]) - math.log1p(SAME)
        for size in both
        if _is_time(slow[size]) and _is_time(fast[size])
    }
    sizes = tuple(lead)
    if len(sizes) < 2:
        why = f"{_have(sizes)} both times; 2 are needed"
        return Crossover(always=None, sizes=sizes, refused=why)
    wins = [lead[size] > 0 for size in sizes]
    if all(wins) or not any(wins):
        return Crossover(always=wins[0], sizes=sizes)
    first = wins.index(not wins[0])
    if wins[0] in wins[first:]:
        return Crossover(always=None, sizes=sizes, refused="the order changes more than once")
    below, above = sizes[first - 1], sizes[first]
    share = -lead[below] / (lead[above] - lead[below])
    nbytes = below * (above / below) ** share
    return Crossover(always=None, nbytes=nbytes, only_below=wins[0], sizes=sizes)


def _line(points: Times) -> tuple[float, float]:
    """(latency, seconds per byte) of the weighted least squares with weights 1 / time**2."""
    sizes, times = np.array([*points]), np.array([*points.values()])
    per_byte, latency_s = np.polyfit(sizes, times, 1, w=1 / times)
    return float(latency_s), float(per_byte)


def _have(sizes: tuple[int, ...]) -> str:
    return "1 size has" if len(sizes) == 1 else f"{len(sizes)} sizes have"


def _is_time(seconds: float) -> bool:
    return math.isfinite(seconds) and seconds > 0
