"""How much of what could be hidden was hidden. Pure functions of seconds by launch."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hostbench.core.samples import MIN_FOR_INTERVAL, launch_interval, median

MIN_STANDARD_ERRORS = 3.0
"""Below it the gain that is possible is lost in the noise, and a share of it means nothing."""
MAX_WIDTH = 0.5
"""An interval of the share that is wider than this says nothing that can be acted on."""
MIN_SHARE_OF_GAIN = 0.25
"""A launch whose own possible gain is below this share of the median one was disturbed: its ratio
would explode."""
_ROUNDING = 1e-9

Launches = Mapping[int, float]
"""Launch number -> median seconds of the whole loop in that launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """The share of the possible gain, 1 when all of it was had; or why it cannot be said."""

    share: float | None = None
    """Of the medians over launches, so that it follows from the times that stand beside it."""
    low: float | None = None
    high: float | None = None
    """Interval of the launches' own shares (samples.launch_interval)."""
    is_few: bool = False
    """The interval is Student's: too few launches for one from order statistics."""
    ideal_s: float | None = None
    """The median over launches, also where no share can be said; None where none is whole."""
    undecided: str | None = None
    """Why the launches do not tell it."""
    refused: str | None = None
    """Why it would mean nothing."""

    def without_share(
        self, *, undecided: str | None = None, refused: str | None = None
    ) -> "Efficiency":
        return Efficiency(ideal_s=self.ideal_s, undecided=undecided, refused=refused)


def ideal_s(copy_s: float, compute_s: float, num_batches: int) -> float:
    """The shortest loop with one copy engine: the first copy, then the longer of the two for each
    further batch, then the last compute.

    `copy_s` and `compute_s` are the whole loop's copies and computes alone. The bound is the one of
    NVIDIA's simpleMultiCopy sample, max(copy, compute), with its ends added.
    """
    one_copy, one_compute = copy_s / num_batches, compute_s / num_batches
    return one_copy + (num_batches - 1) * max(one_copy, one_compute) + one_compute


def by_launch(formula: Callable[..., float], *parts: Launches) -> Launches:
    """The formula of the parts, in each launch that holds all of them."""
    whole = sorted(set.intersection(*map(set, parts)))
    return {n: formula(*(part[n] for part in parts)) for n in whole}


def overlap(serial: Launches, overlapped: Launches, ideal: Launches) -> Efficiency:
    """(serial - overlapped) / (serial - ideal), of the medians over launches.

    Its interval is that of the same share in each launch that holds all three. Undecided where
    serial - ideal is under 3 standard errors of itself over launches, where it collapses in any
    launch, where the interval is wider than 0.5 or does not hold the share of the medians, or where
    fewer than 2 launches are whole.
    """
    launches = sorted(set(serial) & set(overlapped) & set(ideal))
    bound = Efficiency(ideal_s=median([*ideal.values()]) if ideal else None)
    if len(launches) < 2:
        why = f"{len(launches)} launch(es) hold all parts; 2 are needed"
        return bound.without_share(undecided=why)
    gains = [serial[n] - ideal[n] for n in launches]
    standard_error = statistics.stdev(gains) / math.sqrt(len(gains))
    if statistics.fmean(gains) <= MIN_STANDARD_ERRORS * standard_error:
        why = "the possible gain is lost in the noise between launches"
        return bound.without_share(undecided=why)
    disturbed = sum(gain <= MIN_SHARE_OF_GAIN * median(gains) for gain in gains)
    if disturbed:
        why = f"in {disturbed} of {len(launches)} launches hardly any gain was possible"
        return bound.without_share(undecided=why)
    shares = [(serial[n] - overlapped[n]) / gain for n, gain in zip(launches, gains, strict=True)]
    serial_s, overlapped_s = median([*serial.values()]), median([*overlapped.values()])
    return _of_medians(bound, serial_s, overlapped_s, shares)


def _of_medians(
    bound: Efficiency, serial_s: float, overlapped_s: float, shares: Sequence[float]
) -> Efficiency:
    low, high = launch_interval(shares)
    if high - low > MAX_WIDTH:
        why = f"launches differ too much: from {low:.2f} to {high:.2f} is possible"
        return bound.without_share(undecided=why)
    possible_s = serial_s - (bound.ideal_s or 0.0)
    share = (serial_s - overlapped_s) / possible_s if possible_s > 0 else math.nan
    if not low - _ROUNDING <= share <= high + _ROUNDING:
        return bound.without_share(undecided="the medians say something else than the launches")
    few = len(shares) < MIN_FOR_INTERVAL
    return replace(bound, share=share, low=low, high=high, is_few=few)
