"""How much of what could be hidden was hidden. Pure functions of seconds, one value per launch."""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

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
    refused: str | None = None


def ideal_s(copy_s: float, compute_s: float, num_batches: int) -> float:
    """The shortest loop with one copy engine: the first copy, then the longer of the two for each
    further batch, then the last compute.

    `copy_s` and `compute_s` are the whole loop's copies and computes alone. The bound is the one of
    NVIDIA's simpleMultiCopy sample, max(copy, compute), with its ends added.
    """
    one_copy, one_compute = copy_s / num_batches, compute_s / num_batches
    return one_copy + (num_batches - 1) * max(one_copy, one_compute) + one_compute


def ideal_round_trip_s(
    in_s: float, out_s: float, compute_s: float, num_batches: int, num_copy_engines: int
) -> float:
    """The shortest loop that copies in, computes and copies out: no engine can be done sooner than
    all of its work, after what has to come before the first piece and before what has to follow the
    last.

    The three are the whole loop's parts alone. One copy engine takes both directions in turn, two
    take one each: the bounds of NVIDIA's simpleMultiCopy sample, with the ends added.
    """
    one_in, one_out, one_compute = (part / num_batches for part in (in_s, out_s, compute_s))
    computing_s = one_in + compute_s + one_out
    if num_copy_engines == 1:
        return max(computing_s, in_s + out_s)
    return max(computing_s, in_s + one_compute + one_out, one_in + one_compute + out_s)


def overlap(
    serial: Launches, overlapped: Launches, copy: Launches, compute: Launches, num_batches: int
) -> Efficiency:
    """(serial - overlapped) / (serial - ideal) per launch, then the median over launches.

    Only launches that hold all four parts count. Refused when serial - ideal is under 3 standard
    errors of itself over launches, when it collapses in any launch, when the share's interval is
    wider than 0.5, or when fewer than 2 launches are whole.
    """
    launches = sorted(set(serial) & set(overlapped) & set(copy) & set(compute))
    if len(launches) < 2:
        return _refused(f"{len(launches)} launch(es) hold all four parts; 2 are needed")
    ideals = {n: ideal_s(copy[n], compute[n], num_batches) for n in launches}
    gains = [serial[n] - ideals[n] for n in launches]
    standard_error = statistics.stdev(gains) / math.sqrt(len(gains))
    if statistics.fmean(gains) <= MIN_STANDARD_ERRORS * standard_error:
        return _refused("the possible gain is lost in the noise between launches")
    disturbed = sum(gain <= MIN_SHARE_OF_GAIN * median(gains) for gain in gains)
    if disturbed:
        return _refused(f"in {disturbed} of {len(launches)} launches hardly any gain was possible")
    shares = [(serial[n] - overlapped[n]) / gain for n, gain in zip(launches, gains, strict=True)]
    low, high = median_interval(shares)
    known = math.isfinite(low)
    if known and high - low > MAX_WIDTH:
        return _refused(f"launches differ too much: 99 % interval {low:.2f} to {high:.2f}")
    return Efficiency(
        share=median(shares),
        low=low if known else None,
        high=high if known else None,
        ideal_s=median(list(ideals.values())),
    )


def _refused(why: str) -> Efficiency:
    return Efficiency(share=None, low=None, high=None, ideal_s=None, refused=why)
