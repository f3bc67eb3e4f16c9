"""What is asked of the family collectives: how all-reduce scales, and what a small one costs."""

from collections.abc import Mapping

from hostbench.core.bandwidth import bus_bytes_per_s
from hostbench.core.case import AxisValue
from hostbench.core.units import KIB
from hostbench.measure.workload import BACKENDS
from hostbench.report.kinds import Compare, Scaling
from hostbench.report.rows import Row, Rows, valid, where

ONE_EACH, IN_A_QUEUE = "collectives.all_reduce", "collectives.all_reduce_queued"
QUEUED = 20
"""As `all_reduce_queued` declares its depth."""
SMALL_BYTES = 64 * KIB
"""Up to here the time is latency, and a bandwidth says little."""


def _is_small(row: Row) -> bool:
    return int(row.axes["nbytes"]) <= SMALL_BYTES


def _large(rows: Rows) -> Rows:
    """Of each size those of a queue, where ranks that send something have a number, else those with
    a synchronize each."""
    queued = [row.of(ONE_EACH).with_axes(queued=QUEUED) for row in where(rows, IN_A_QUEUE)]
    alone = [row.with_axes(queued=1) for row in where(rows, ONE_EACH)]
    sizes = {row.axes["nbytes"] for row in valid(queued) if int(row.axes["num_ranks"]) > 1}
    chosen = [
        *(row for row in alone if row.axes["nbytes"] not in sizes),
        *(row for row in queued if row.axes["nbytes"] in sizes),
    ]
    return [row for row in chosen if not _is_small(row)]


def _backend(row: Row) -> str:
    """How ranks on that kind of device talk to each other."""
    return f"By {BACKENDS.get(row.device, 'an unknown backend')}."


def _backend_and_queue(row: Row) -> str:
    num = int(row.axes["queued"])
    many = f"{num} operations" if num > 1 else "one operation"
    return f"{_backend(row).removesuffix('.')}, {many} before each synchronize."


def _one_each(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
    return ONE_EACH, row.axes


QUESTIONS = (
    Scaling(
        text="How does all-reduce scale?",
        workload=ONE_EACH,
        select=_large,
        rate=bus_bytes_per_s,
        rate_name="bus bandwidth",
        undefined="not defined for one rank, which sends nothing",
        about=_backend_and_queue,
        screen="all-reduce, {nbytes}, bus rate",
        by_size="all-reduce, {ranks}, bus rate",
    ),
    Scaling(
        text="What does a small all-reduce cost?",
        workload=ONE_EACH,
        select=lambda rows: [row for row in rows if _is_small(row)],
        smallest=True,
        about=_backend,
        screen="all-reduce, {nbytes}",
    ),
    Compare(
        text=f"What do {QUEUED} small all-reduces before one synchronize save?",
        workload=IN_A_QUEUE,
        where={"nbytes": 4 * KIB},
        beside=_one_each,
        beside_name="one each",
    ),
)
