"""A case over ranks: all of them in lock step, the slowest one counts.

The parent decides how often the step runs and says so to all ranks in one order, so they never
disagree. What it decides by is the stop rule of `hostbench.measure.measure`, on the
slowest rank's times.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.lanes import Lane, from_zero
from hostbench.core.records import Measurement
from hostbench.core.samples import median
from hostbench.measure.measure import MAX_WARMUPS, Settings, is_enough
from hostbench.measure.workload import Workload
from hostbench.ranks.group import is_oversubscribed
from hostbench.ranks.pool import Deadline, Pool
from hostbench.ranks.rank import RankReading
from hostbench.ranks.replies import RankFailure

DEADLINE_SHARE = 0.8
"""Of the case's deadline: the rest is for ending the ranks and telling who is to blame."""
CHUNK = 5
"""Iterations per order, at most: the stop rule is looked at between orders."""
NO_DEVICE_CLOCK = "the ranks' own clocks count, not one device's"


Address = tuple[str, int]
"""Kind of device and number of ranks."""


@dataclass(slots=True)
class Room:
    """The pool of one launch: kept until a case fails or wants another number of ranks.

    One at a time, for ranks hold devices: those of an idle pool would keep a context on every GPU,
    which a GPU in exclusive-process mode refuses to the next pool.
    """

    deadline_s: float
    """Of a case, as its launcher holds it."""
    _pool: Pool | None = None
    _place: Address | None = None
    _refused: dict[Address, Unavailable | RankFailure] = field(default_factory=dict)
    """What ranks said instead of taking their seats: asked once, as it may be a long wait."""

    def measure(self, work: Workload, case: Case, settings: Settings) -> Measurement:
        """Raises RankFailure, which names the rank, and Unavailable."""
        assert work.ranks is not None
        place = str(case.values["device"]), work.ranks(**case.values)
        deadline = Deadline.after(DEADLINE_SHARE * self.deadline_s)
        try:
            return _measure(self._opened(place, deadline), place, work, case, settings, deadline)
        except BaseException:
            self.close()
            raise

    def trace(
        self, work: Workload, case: Case, settings: Settings
    ) -> tuple[Measurement, tuple[Lane, ...]]:
        """The same, then one reading of all ranks on one clock. Raises as `measure`."""
        measured = self.measure(work, case, settings)
        assert self._pool is not None
        try:
            seen = self._pool.ask(Deadline.after(DEADLINE_SHARE * self.deadline_s), "trace", case)
        except BaseException:
            self.close()
            raise
        lanes = (replace(lane, place=f"rank {n}") for n, each in enumerate(seen) for lane in each)
        return measured, from_zero(tuple(lanes))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.kill()
        self._pool = self._place = None

    def _opened(self, place: Address, deadline: Deadline) -> Pool:
        if place in self._refused:
            raise self._refused[place]
        if self._pool is None or place != self._place:
            self.close()
            self._pool, self._place = Pool(*place), place
            try:
                self._pool.ask(deadline, "take_seat")
            except (Unavailable, RankFailure) as reason:
                self._refused[place] = reason
                raise
        return self._pool


def _measure(
    pool: Pool,
    place: Address,
    work: Workload,
    case: Case,
    settings: Settings,
    deadline: Deadline,
) -> Measurement:
    is_checked = all(pool.ask(deadline, "build", case))
    first_s = slowest(pool.ask(deadline, "iterate", 1))[0][0]
    one_s = _warm_up(pool, settings, work.depth_of(case), first_s, deadline)
    per_rank = _sample(pool, settings, one_s, deadline)
    timed = slowest(per_rank)
    finished = pool.ask(deadline, "finish")
    return Measurement(
        end_to_end_s=tuple(end for end, _ in timed),
        call_s=tuple(call for _, call in timed),
        device_reason=NO_DEVICE_CLOCK,
        first_s=first_s,
        depth=work.depth_of(case),
        number=1,
        findings={"oversubscribed": is_oversubscribed(*place)},
        proofs={"data": proof([wrong for wrong, _ in finished])} if is_checked else {},
        memory=finished[0][1],
        ranks={str(n): median([end for end, _ in each]) for n, each in enumerate(per_rank)},
    )


def slowest(per_rank: Sequence[Sequence[RankReading]]) -> list[RankReading]:
    """Per iteration the maximum over ranks, of each clock by itself; all ran equally often."""
    return [
        (max(end for end, _ in each), max(call for _, call in each))
        for each in zip(*per_rank, strict=True)
    ]


def proof(wrong: Sequence[str | None]) -> str:
    """The proof `data` from what each rank found, by rank."""
    said = [f"rank {rank}: {text}" for rank, text in enumerate(wrong) if text is not None]
    return f"failed: {'; '.join(said)}" if said else "passed"


def _warm_up(
    pool: Pool, settings: Settings, depth: int, step_s: float, deadline: Deadline
) -> float:
    """At least one more iteration; returns the seconds of the last one, all of its steps."""
    end_s = time.monotonic() + settings.warmup_s
    for _ in range(MAX_WARMUPS):
        count = chunk(end_s - time.monotonic(), depth * step_s)
        step_s = slowest(pool.ask(deadline, "iterate", count))[-1][0]
        if time.monotonic() >= end_s:
            break
    return depth * step_s


def _sample(
    pool: Pool, settings: Settings, one_s: float, deadline: Deadline
) -> list[list[RankReading]]:
    """Readings by rank, as many as the stop rule wants of the slowest."""
    per_rank: list[list[RankReading]] = []
    ends: list[float] = []
    end_s = time.monotonic() + settings.budget_s
    while not is_enough(ends, settings, late=time.monotonic() >= end_s):
        wanted = chunk(end_s - time.monotonic(), one_s)
        least = settings.min_samples - len(ends)
        count = min(max(wanted, least), settings.max_samples - len(ends))
        answers = pool.ask(deadline, "iterate", count)
        per_rank = [a + b for a, b in zip(per_rank, answers, strict=True)] if ends else answers
        ends = [end for end, _ in slowest(per_rank)]
    return per_rank


def chunk(left_s: float, one_s: float) -> int:
    """How many iterations the next order holds: what fits into the time left, from 1 to CHUNK."""
    return max(1, min(CHUNK, int(left_s / one_s)))
