"""Thinning: a launch's inner samples become five quantiles, of which the middle is their median.

All that is judged and all that the frame shows comes from launch medians, findings, proofs and
facts; the inner samples are for pictures of the spread inside a launch.
"""

from collections.abc import Sequence

from msgspec import structs

from hostbench.core.records import CLOCKS, CaseRecord
from hostbench.core.samples import median, quantile

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


def quantiles(samples: Sequence[float]) -> list[float]:
    """Smallest, lower quartile, median, upper quartile, largest; up to five samples stay as is."""
    if len(samples) <= len(SHARES):
        return list(samples)
    found = [quantile(samples, share) for share in SHARES]
    found[2] = median(samples)
    return found


def thinned(record: CaseRecord) -> CaseRecord:
    """The record with each clock's samples as quantiles."""
    clocks = {clock: tuple(quantiles(getattr(record.measurement, clock))) for clock in CLOCKS}
    return structs.replace(record, measurement=structs.replace(record.measurement, **clocks))
