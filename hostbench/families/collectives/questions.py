"""What is asked of the family collectives: how all-reduce scales, and what a small one costs."""

from hostbench.core.bandwidth import bus_bytes_per_s
from hostbench.core.units import KIB
from hostbench.ranks.backends import BACKENDS
from hostbench.report.kinds import Scaling
from hostbench.report.rows import Row

SMALL_BYTES = 64 * KIB
"""Up to here the time is latency, and a bandwidth says little."""


def _is_small(row: Row) -> bool:
    return int(row.axes["nbytes"]) <= SMALL_BYTES


def _backend(row: Row) -> str:
    """How ranks on that kind of device talk to each other."""
    known = BACKENDS.get(row.device)
    return f"By {known.name if known else 'an unknown backend'}."


QUESTIONS = (
    Scaling(
        text="How does all-reduce scale?",
        workload="collectives.all_reduce",
        select=lambda rows: [row for row in rows if not _is_small(row)],
        rate=bus_bytes_per_s,
        rate_name="bus bandwidth",
        undefined="not defined for one rank, which sends nothing",
        about=_backend,
    ),
    Scaling(
        text="What does a small all-reduce cost?",
        workload="collectives.all_reduce",
        select=lambda rows: [row for row in rows if _is_small(row)],
        smallest=True,
        about=_backend,
    ),
)
