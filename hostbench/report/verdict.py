"""Whether copies hide, from efficiencies: the words that lead an answer."""

from collections.abc import Mapping

from hostbench.core.efficiency import Efficiency

HIDES, HARDLY = 0.5, 0.1
"""From this share on copies hide; below that one they do not."""


def verdict(found: Mapping[str, Efficiency]) -> str:
    """`yes: 93 % of what could be hidden is hidden by copy stream ...`, from each way's own."""
    known = {name: one for name, one in found.items() if one.share is not None}
    if not known:
        reasons = dict.fromkeys(str(one.refused) for one in found.values())
        return f"undecided, because {'; '.join(reasons)}"
    best = max(known, key=lambda name: known[name].share or 0.0)
    share, low, high = known[best].share or 0.0, known[best].low, known[best].high
    if low is not None and high is not None and low <= HARDLY and high >= HIDES:
        return f"undecided, because the best, {best}, is somewhere from {low:.2f} to {high:.2f}"
    unknown = [f"{name}: {one.refused}" for name, one in found.items() if one.share is None]
    if share < HIDES and unknown:
        others = f"of the others {best} hides most, {max(0.0, 100 * share):.0f} %"
        return f"undecided, because the efficiency is not said of {'; '.join(unknown)}; {others}"
    hidden = f"{100 * share:.0f} % of what could be hidden is hidden by {best}"
    if share >= HIDES:
        return f"yes: {hidden}"
    if share >= HARDLY:
        return f"in part: {hidden}"
    return f"no: at best {max(0.0, 100 * share):.0f} % of what could be hidden is hidden ({best})"


def efficiency_in_words(known: Efficiency, num_launches: int) -> str:
    if known.share is None:
        return f"efficiency not said: {known.refused}"
    text = f"efficiency {known.share:.2f}"
    if known.low is not None and known.high is not None:
        return f"{text}, 99 % interval {known.low:.2f} to {known.high:.2f}"
    return f"{text}, {num_launches} launches: no interval"
