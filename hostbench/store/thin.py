"""Thinning: a launch's inner samples become five quantiles, of which the middle is their median.

All that is judged and all that the frame shows comes from launch medians, findings, proofs and
facts; the inner samples are for pictures of the spread inside a launch.
"""

from collections.abc import Sequence
from dataclasses import replace

from hostbench.core.samples import median, quantile
from hostbench.runner.journal import CaseRecord

CLOCKS = ("end_to_end_s", "call_s", "device_s")
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
    measurement = dict(record.measurement)
    for clock in CLOCKS:
        if measurement.get(clock):
            measurement[clock] = quantiles(measurement[clock])
    return replace(record, measurement=measurement)
