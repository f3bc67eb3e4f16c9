"""How much of what could be hidden was hidden. Pure functions of seconds, one value per launch."""

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hostbench.core.samples import median, median_interval

MIN_STANDARD_ERRORS = 3.0
"""Below it the gain that is possible is lost in the noise, and a share of it means nothing."""
MAX_WIDTH = 0.5
"""An interval of the share that is wider than this says nothing that can be acted on."""
MIN_SHARE_OF_GAIN = 0.25
"""A launch whose own possible gain is below this share of the median one was disturbed: its ratio
would explode."""

Launches = Mapping[int, float]
"""Launch number -> median seconds of the whole loop in that launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """The share of the possible gain, 1 when all of it was had; or why it cannot be said."""

    share: float | None
    low: float | None
    """99 % order-statistic interval over launches; None below 8 launches."""
    high: float | None
    ideal_s: float | None
    """The median over launches, also where no share can be said; None where none is whole."""
    refused: str | None = None


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
    """(serial - overlapped) / (serial - ideal) per launch, then the median over launches.

    Only launches that hold all three count. Refused when serial - ideal is under 3 standard errors
    of itself over launches, when it collapses in any launch, when the share's interval is wider
    than 0.5, or when fewer than 2 launches are whole.
    """
    launches = sorted(set(serial) & set(overlapped) & set(ideal))
    ideals = [ideal[n] for n in launches]
    bound = Efficiency(share=None, low=None, high=None, ideal_s=median(ideals) if ideals else None)
    if len(launches) < 2:
        why = f"{len(launches)} launch(es) hold all parts; 2 are needed"
        return replace(bound, refused=why)
    gains = [serial[n] - ideal[n] for n in launches]
    standard_error = statistics.stdev(gains) / math.sqrt(len(gains))
    if statistics.fmean(gains) <= MIN_STANDARD_ERRORS * standard_error:
        return replace(bound, refused="the possible gain is lost in the noise between launches")
    disturbed = sum(gain <= MIN_SHARE_OF_GAIN * median(gains) for gain in gains)
    if disturbed:
        why = f"in {disturbed} of {len(launches)} launches hardly any gain was possible"
        return replace(bound, refused=why)
    shares = [(serial[n] - overlapped[n]) / gain for n, gain in zip(launches, gains, strict=True)]
    low, high = median_interval(shares)
    if not math.isfinite(low):
        return replace(bound, share=median(shares))
    if high - low > MAX_WIDTH:
        why = f"launches differ too much: 99 % interval {low:.2f} to {high:.2f}"
        return replace(bound, refused=why)
    return replace(bound, share=median(shares), low=low, high=high)
