"""Copy in, compute, copy out: the efficiency against one and two copy engines, and which of the two
the device behaves like. Pure functions of seconds, one value per launch."""

from dataclasses import dataclass

from hostbench.core.efficiency import Efficiency, Launches, ideal_round_trip_s, overlap
from hostbench.core.latency import SAME
from hostbench.core.samples import median, median_interval

ENGINES = (1, 2)
MIN_GAP = 0.05
"""Bounds that differ by less than this share cannot be told apart."""
BEYOND_ONE = 0.1
"""How much of the way from the bound for one engine to the one for two has to be gone: the parts
alone carry a launch and a wait of their own, so a bound is not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTripEfficiency:
    """A loop against both bounds."""

    efficiencies: dict[int, Efficiency]
    """Copy engines of the bound -> the share of the possible gain."""
    ideals_s: dict[int, float]
    """Copy engines -> the bound, the median over launches; empty where no launch is whole."""
    engines: str
    """What the measurement says of the device's copy engines."""
    beats_one: bool
    """Over launches it is faster than one engine could be by more than SAME: no share of that
    bound means anything."""


def round_trip(
    serial: Launches,
    overlapped: Launches,
    ins: Launches,
    outs: Launches,
    compute: Launches,
    num_batches: int,
) -> RoundTripEfficiency:
    """Only launches that hold all five parts count."""
    whole = sorted(set(serial) & set(overlapped) & set(ins) & set(outs) & set(compute))
    bounds = {
        engines: {
            n: ideal_round_trip_s(ins[n], outs[n], compute[n], num_batches, engines) for n in whole
        }
        for engines in ENGINES
    }
    loop = {n: overlapped[n] for n in whole}
    return RoundTripEfficiency(
        efficiencies={
            engines: _against(serial, overlapped, bound, num_batches)
            for engines, bound in bounds.items()
        },
        ideals_s={n: median(list(bound.values())) for n, bound in bounds.items() if bound},
        engines=_engines(loop, bounds[1], bounds[2]),
        beats_one=bool(loop) and median([loop[n] / bounds[1][n] for n in loop]) < 1 - SAME,
    )


def _against(
    serial: Launches, overlapped: Launches, bound: Launches, num_batches: int
) -> Efficiency:
    """`efficiency.overlap` with its guards, for a bound that is known: a copy and a compute that
    are alike, as long as it takes for `ideal_s` to be the bound."""
    half = {n: seconds * num_batches / (num_batches + 1) for n, seconds in bound.items()}
    return overlap(serial, overlapped, half, half, num_batches)


def _engines(loop: Launches, one: Launches, two: Launches) -> str:
    """A device with one copy engine cannot get further towards the bound for two than its noise."""
    if not loop:
        return "nothing can be said of the copy engines: no launch holds all parts"
    if any(two[n] > (1 - MIN_GAP) * one[n] for n in loop):
        return "nothing can be said of the copy engines: both bounds are nearly the same"
    ways = [(one[n] - loop[n]) / (one[n] - two[n]) for n in loop]
    low = median_interval(ways)[0]
    if min(ways) > BEYOND_ONE or low > BEYOND_ONE:
        faster = 1 - median([loop[n] / one[n] for n in loop])
        return f"the device behaves as with two copy engines: {faster:.0%} faster than one could be"
    if median(ways) > BEYOND_ONE:
        return "the copy engines are undecided: not every launch beats what one could do"
    return "nothing shows a second copy engine: it is no faster than one could be"
