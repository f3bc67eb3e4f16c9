"""Copy in, compute, copy out: the bounds for one and two copy engines, and which of the two the
device behaves like. Pure functions of seconds."""

from hostbench.core.efficiency import Launches, by_launch
from hostbench.core.latency import SAME
from hostbench.core.samples import launch_interval, median

MIN_GAP = 0.05
"""Bounds that differ by less than this share cannot be told apart."""
BEYOND_ONE = 0.1
"""How much of the way from the bound for one engine to the one for two has to be gone: the parts
alone carry a launch and a wait of their own, so a bound is not exact."""


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


def beats(loop: Launches, bound: Launches) -> bool:
    """Over launches it is faster than the bound by more than SAME: no share of that bound means
    anything."""
    ratios = by_launch(lambda mine, ideal: mine / ideal, loop, bound)
    return bool(ratios) and median([*ratios.values()]) < 1 - SAME


def engines(loop: Launches, one: Launches, two: Launches) -> str:
    """What a loop says of the device's copy engines, beside the bounds for one and for two: with
    one engine it cannot get further towards the bound for two than its noise."""
    whole = sorted(set(loop) & set(one) & set(two))
    if not whole:
        return "nothing can be said of the copy engines: no launch holds all parts"
    if any(two[n] > (1 - MIN_GAP) * one[n] for n in whole):
        return "nothing can be said of the copy engines: both bounds are nearly the same"
    ways = [(one[n] - loop[n]) / (one[n] - two[n]) for n in whole]
    low, high = launch_interval(ways)
    if low > BEYOND_ONE:
        faster = 1 - median([loop[n] / one[n] for n in whole])
        return f"the device behaves as with two copy engines: {faster:.0%} faster than one could be"
    if high > BEYOND_ONE:
        return "the copy engines are undecided: launches differ too much, or are too few"
    return "nothing shows a second copy engine: it is no faster than one could be"
