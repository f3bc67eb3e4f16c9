"""A case over ranks: all of them in lock step, the slowest one counts.

The parent decides how often the step runs and says so to all ranks in one order, so they never
disagree. What it decides by is the stop rule of `hostbench.measure.measure`, on the slowest rank's
times.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import structs

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.lanes import Lane, from_zero
from hostbench.core.records import FindingValue, Measurement
from hostbench.core.samples import median
from hostbench.measure.measure import EVENT_DELAY_S, MAX_WARMUPS, Settings, is_enough
from hostbench.measure.workload import Workload
from hostbench.ranks.blame import RankFailure
from hostbench.ranks.pool import Deadline, Pool
from hostbench.ranks.rank import DOCUMENTED, RankReading

DEADLINE_SHARE = 0.8
"""Of the case's deadline: the rest is for ending the ranks and telling who is to blame."""
CHUNK = 5
"""Iterations per order, at most: the stop rule is looked at between orders."""

Ask = Callable[..., list[Any]]
"""An order and its arguments -> every rank's answer, by rank."""


class Ranks:
    """The pool of one launch, kept until a case fails or wants another.

    One at a time, for ranks hold devices: those of an idle pool would keep a context on every GPU,
    which a GPU in exclusive-process mode refuses to the next pool.
    """

    def __init__(
        self,
        deadline_s: float,
        make: Callable[[str, str, int, float], Any] = Pool,
        *,
        is_observed: bool = False,
    ) -> None:
        """`deadline_s` is a case's, as its launcher holds it. `make` takes the kind of device, the
        backend, the number of ranks and that deadline, and returns what has a Pool's methods.
        `is_observed`: nothing will be timed."""
        self._deadline_s, self._make, self._is_observed = deadline_s, make, is_observed
        self._pool: Any = None
        self._key: tuple[str, str, int] | None = None
        self._places: list[dict[str, bool]] = []
        self._refused: dict[tuple[str, str, int], Unavailable | RankFailure] = {}
        """What ranks said instead of joining: asked once, as it may be a long wait."""

    def measure(self, work: Workload, case: Case, settings: Settings) -> Measurement:
        """Raises RankFailure, which names the rank, and Unavailable."""
        with self._joined(work, case) as ask:
            return _measured(ask, work, case, settings, self._places)

    def observe(self, work: Workload, case: Case) -> Measurement:
        """Findings and proofs of one reading that the devices saw, no times. Raises so, too."""
        with self._joined(work, case) as ask:
            by_rank: list[Measurement] = ask("observe", case)
        return structs.replace(by_rank[0], proofs=_proofs(by_rank))

    def trace(
        self, work: Workload, case: Case, settings: Settings
    ) -> tuple[Measurement, tuple[Lane, ...]]:
        """As `measure`, then one reading of all ranks on one clock. Raises as it."""
        measured = self.measure(work, case, settings)
        with self._joined(work, case) as ask:
            by_rank: list[list[Lane]] = ask("trace", case)
        ranks = ((f"rank {rank}", lane) for rank, lanes in enumerate(by_rank) for lane in lanes)
        return measured, from_zero(tuple(structs.replace(lane, place=name) for name, lane in ranks))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = self._key = None

    @contextmanager
    def _joined(self, work: Workload, case: Case) -> Iterator[Ask]:
        """The case's ranks, to be asked within its deadline; they end where something is raised."""
        key = str(case.values["device"]), work.backend_of(case), work.num_ranks(case) or 1
        if key in self._refused:
            raise self._refused[key]
        deadline = Deadline.after(DEADLINE_SHARE * self._deadline_s)
        try:
            if self._pool is None or key != self._key:
                self.close()
                self._pool, self._key = self._make(*key, self._deadline_s), key
                try:
                    self._places = self._pool.ask(deadline, "join", self._is_observed)
                except (Unavailable, RankFailure) as reason:
                    self._refused[key] = reason
                    raise
            pool = self._pool
            yield lambda order, *arguments: pool.ask(deadline, order, *arguments)
        except BaseException:
            self.close()
            raise


def _measured(
    ask: Ask, work: Workload, case: Case, settings: Settings, places: Sequence[dict[str, bool]]
) -> Measurement:
    device_reason: str | None = ask("build", case)[0]
    depth = work.depth_of(case)
    first_s = slowest(ask("iterate", 1))[0][0]
    warmups = Settings(
        budget_s=settings.warmup_s, min_samples=1, max_samples=MAX_WARMUPS, dispersion=-1.0
    )
    step_s = slowest(_sample(ask, warmups, depth * first_s))[-1][0]
    per_rank = _sample(ask, settings, depth * step_s)
    timed = slowest(per_rank)
    device_s: tuple[float, ...] = ()
    if device_reason is None:
        delay_s = EVENT_DELAY_S + depth * max(call for _, call in timed)
        by_rank = ask("device_clock", settings.device_samples, delay_s)
        device_s = tuple(map(max, zip(*by_rank, strict=True)))
    finished: list[Measurement] = ask("finish")
    proofs = _proofs(finished)
    if any(proof.startswith("failed") for proof in proofs.values()):  # no time of wrong results
        return Measurement(proofs=proofs, depth=depth)
    findings: dict[str, FindingValue] = {
        name: any(place.get(name, False) for place in places) for name in places[0]
    }
    findings |= finished[0].findings
    sent = {rank: nbytes for own in finished for rank, nbytes in own.sent.items()}
    as_documented = [own.findings[DOCUMENTED] for own in finished if DOCUMENTED in own.findings]
    if as_documented:
        findings |= {DOCUMENTED: all(as_documented), "most_sent_bytes": max(sent.values())}
    return Measurement(
        end_to_end_s=tuple(end for end, _ in timed),
        call_s=tuple(call for _, call in timed),
        device_s=device_s,
        device_reason=device_reason,
        first_s=first_s,
        depth=depth,
        number=1,
        findings=findings,
        proofs=proofs,
        memory=finished[0].memory,
        ranks={str(n): median([end for end, _ in own]) for n, own in enumerate(per_rank)},
        sent=sent,
    )


def slowest(per_rank: Sequence[Sequence[RankReading]]) -> list[RankReading]:
    """Per iteration the maximum over ranks, of each clock by itself; all ran equally often."""
    return [
        (max(end for end, _ in readings), max(call for _, call in readings))
        for readings in zip(*per_rank, strict=True)
    ]


def _sample(ask: Ask, settings: Settings, iteration_s: float) -> list[list[RankReading]]:
    """Readings by rank, as many as the stop rule wants of the slowest. An order holds as many
    iterations of about `iteration_s` as fit into the time left, from 1 to CHUNK."""
    per_rank: list[list[RankReading]] = []
    ends: list[float] = []
    end_s = time.monotonic() + settings.budget_s
    while not is_enough(ends, settings, late=time.monotonic() >= end_s):
        fitting = max(1, min(CHUNK, int((end_s - time.monotonic()) / iteration_s)))
        least = settings.min_samples - len(ends)
        count = min(max(fitting, least), settings.max_samples - len(ends))
        answers = ask("iterate", count)
        per_rank = [a + b for a, b in zip(per_rank, answers, strict=True)] if ends else answers
        ends = [end for end, _ in slowest(per_rank)]
    return per_rank


def _proofs(by_rank: Sequence[Measurement]) -> dict[str, str]:
    """Of all ranks: rank 0's, or who differs from what passes, and how."""
    proofs = dict(by_rank[0].proofs)
    for name in proofs:
        own = {rank: each.proofs.get(name, "") for rank, each in enumerate(by_rank)}
        wrong = [f"rank {rank}: {text[8:]}" for rank, text in own.items() if text[:6] == "failed"]
        if wrong:
            proofs[name] = f"failed: {'; '.join(wrong)}"
    return proofs
