"""A case over ranks: all of them in lock step, the slowest one counts.

The parent decides how often the step runs and says so to all ranks in one order, so they never
disagree. What it decides by is the stop rule of `hostbench.measure.measure`, on the slowest rank's
times.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.lanes import Lane, from_zero
from hostbench.core.records import FindingValue, Measurement
from hostbench.core.samples import median
from hostbench.measure.measure import EVENT_DELAY_S, MAX_WARMUPS, Settings, is_enough
from hostbench.measure.workload import Workload
from hostbench.ranks.blame import RankFailure
from hostbench.ranks.pool import Deadline, Pool
from hostbench.ranks.rank import Built, Finished, RankReading

DEADLINE_SHARE = 0.8
"""Of the case's deadline: the rest is for ending the ranks and telling who is to blame."""
CHUNK = 5
"""Iterations per order, at most: the stop rule is looked at between orders."""
SENT_SHARE = 0.1
"""How far the bytes sent may be from what is documented: headers of the backend, the barrier."""
SENT_BYTES = 1024
"""As much more or less in a reading: headers of small messages, and the barrier before it."""


class Conducted(Protocol):
    """Ranks that carry out orders together: a Pool, or those of many hosts."""

    def ask(self, deadline: Deadline, order: str, *arguments: Any) -> list[Any]:
        """Every rank's answer to the order, by rank. Raises RankFailure and Unavailable."""

    def close(self) -> None:
        """End them."""


PoolKey = tuple[str, str, int]
"""Kind of device, backend and number of ranks."""
Make = Callable[[str, str, int, float], Conducted]
"""Those three and the deadline of a case in seconds -> ranks that have not joined yet."""


class Ranks:
    """The pool of one launch, kept until a case fails or wants another.

    One at a time, for ranks hold devices: those of an idle pool would keep a context on every GPU,
    which a GPU in exclusive-process mode refuses to the next pool.
    """

    def __init__(self, deadline_s: float, make: Make = Pool) -> None:
        """`deadline_s` is a case's, as its launcher holds it."""
        self._deadline_s, self._make = deadline_s, make
        self._pool: Conducted | None = None
        self._key: PoolKey | None = None
        self._oversubscribed = False
        self._refused: dict[PoolKey, Unavailable | RankFailure] = {}
        """What ranks said instead of joining: asked once, as it may be a long wait."""

    def measure(self, work: Workload, case: Case, settings: Settings) -> Measurement:
        """Raises RankFailure, which names the rank, and Unavailable."""
        measured: Measurement = self._with_pool(
            work, case, lambda ask: self._measured(ask, work, case, settings)
        )
        return measured

    def trace(
        self, work: Workload, case: Case, settings: Settings
    ) -> tuple[Measurement, tuple[Lane, ...]]:
        """The same, then one reading of all ranks on one clock. Raises as `measure`."""
        measured = self.measure(work, case, settings)
        by_rank = self._with_pool(work, case, lambda ask: ask("trace", case))
        lanes = (
            replace(lane, place=f"rank {rank}")
            for rank, lanes in enumerate(by_rank)
            for lane in lanes
        )
        return measured, from_zero(tuple(lanes))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = self._key = None

    def _with_pool(self, work: Workload, case: Case, use: Callable[["Ask"], Any]) -> Any:
        """Whatever `use` makes of the case's pool, which is closed where that raises."""
        assert work.ranks is not None
        device = str(case.values["device"])
        key = device, work.backend_of(case), work.ranks(**case.values)
        if key in self._refused:
            raise self._refused[key]
        deadline = Deadline.after(DEADLINE_SHARE * self._deadline_s)
        try:
            if self._pool is None or key != self._key:
                self.close()
                self._pool, self._key = self._make(*key, self._deadline_s), key
                try:
                    self._oversubscribed = any(self._pool.ask(deadline, "join"))
                except (Unavailable, RankFailure) as reason:
                    self._refused[key] = reason
                    raise
            pool = self._pool
            return use(lambda order, *arguments: pool.ask(deadline, order, *arguments))
        except BaseException:
            self.close()
            raise

    def _measured(self, ask: "Ask", work: Workload, case: Case, settings: Settings) -> Measurement:
        built: list[Built] = ask("build", case)
        depth = work.depth_of(case)
        first_s = slowest(ask("iterate", 1))[0][0]
        iteration_s = _warm_up(ask, settings, depth, first_s)
        per_rank = _sample(ask, settings, iteration_s)
        timed = slowest(per_rank)
        device_reason = next((rank.no_device_clock for rank in built if rank.no_device_clock), None)
        device_s: tuple[float, ...] = ()
        if device_reason is None:
            delay_s = EVENT_DELAY_S + depth * max(call for _, call in timed)
            by_rank = ask("device_clock", settings.device_samples, delay_s)
            device_s = tuple(map(max, zip(*by_rank, strict=True)))
        sent, as_documented = _sent(ask, [rank.sends for rank in built], depth)
        finished: list[Finished] = ask("finish")
        wrong = [
            f"rank {rank}: {reply.wrong}"
            for rank, reply in enumerate(finished)
            if reply.wrong is not None
        ]
        if wrong:  # no time is kept of wrong results
            return Measurement(proofs={"data": f"failed: {'; '.join(wrong)}"}, depth=depth)
        return Measurement(
            end_to_end_s=tuple(end for end, _ in timed),
            call_s=tuple(call for _, call in timed),
            device_s=device_s,
            device_reason=device_reason,
            first_s=first_s,
            depth=depth,
            number=1,
            findings={
                "oversubscribed": self._oversubscribed,
                **as_documented,
                **finished[0].findings,
            },
            proofs={"data": "passed"} if all(rank.is_checked for rank in built) else {},
            memory=finished[0].memory,
            ranks={
                str(rank): median([end for end, _ in readings])
                for rank, readings in enumerate(per_rank)
            },
            sent=sent,
        )


Ask = Callable[..., list[Any]]
"""An order and its arguments -> every rank's answer, by rank."""


def slowest(per_rank: Sequence[Sequence[RankReading]]) -> list[RankReading]:
    """Per iteration the maximum over ranks, of each clock by itself; all ran equally often."""
    return [
        (max(end for end, _ in readings), max(call for _, call in readings))
        for readings in zip(*per_rank, strict=True)
    ]


def _warm_up(ask: Ask, settings: Settings, depth: int, step_s: float) -> float:
    """At least one more iteration; returns the seconds of the last one, all of its steps."""
    end_s = time.monotonic() + settings.warmup_s
    for _ in range(MAX_WARMUPS):
        count = _chunk(end_s - time.monotonic(), depth * step_s)
        step_s = slowest(ask("iterate", count))[-1][0]
        if time.monotonic() >= end_s:
            break
    return depth * step_s


def _sample(ask: Ask, settings: Settings, iteration_s: float) -> list[list[RankReading]]:
    """Readings by rank, as many as the stop rule wants of the slowest."""
    per_rank: list[list[RankReading]] = []
    ends: list[float] = []
    end_s = time.monotonic() + settings.budget_s
    while not is_enough(ends, settings, late=time.monotonic() >= end_s):
        wanted = _chunk(end_s - time.monotonic(), iteration_s)
        least = settings.min_samples - len(ends)
        count = min(max(wanted, least), settings.max_samples - len(ends))
        answers = ask("iterate", count)
        per_rank = [a + b for a, b in zip(per_rank, answers, strict=True)] if ends else answers
        ends = [end for end, _ in slowest(per_rank)]
    return per_rank


def _chunk(left_s: float, iteration_s: float) -> int:
    """How many iterations the next order holds: what fits into the time left, from 1 to CHUNK."""
    return max(1, min(CHUNK, int(left_s / iteration_s)))


def _sent(
    ask: Ask, documented: Sequence[int | None], depth: int
) -> tuple[dict[str, int], dict[str, FindingValue]]:
    """Bytes per step that each rank sends in one reading, and whether they are those documented,
    with the busiest rank's; nothing where the workload documents none."""
    if all(nbytes is None for nbytes in documented):
        return {}, {}
    before = ask("bytes_sent")
    ask("iterate", 1)
    after = ask("bytes_sent")
    if None in before or None in after:
        return {}, {"sends_as_documented": None}
    sent = [(end - start) // depth for start, end in zip(before, after, strict=True)]
    is_so = all(
        nbytes is None or abs(measured - nbytes) <= SENT_SHARE * nbytes + SENT_BYTES / depth
        for measured, nbytes in zip(sent, documented, strict=True)
    )
    findings = {"sends_as_documented": is_so, "most_sent_bytes": max(sent)}
    return {str(rank): nbytes for rank, nbytes in enumerate(sent)}, findings
