"""A case over ranks: all of them in lock step, the slowest one counts. Their parent decides how
often the step runs, as `measure` does, by the slowest rank's times: so they never disagree.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from msgspec import structs

from hostbench.core.case import Case
from hostbench.core.errors import RankFailure, Unavailable
from hostbench.core.records import FindingValue, Measurement, Settings
from hostbench.core.samples import median
from hostbench.measure.measure import DEVICE_READINGS, EVENT_DELAY_S, Reading, sample, warm_up
from hostbench.measure.workload import Workload
from hostbench.ranks.launch import VARIABLE, Agents
from hostbench.ranks.pool import Pool
from hostbench.ranks.rank import DOCUMENTED, GroupConfig

CHUNK = 5  # iterations per order, at most: the clock is looked at between orders

Ask = Callable[..., list[Any]]  # an order and its arguments -> every rank's answer


class Ranks:
    """The pool of one launch, kept until a case fails or wants another. One at a time: ranks of an
    idle one would keep a context on every GPU, which its exclusive-process mode allows once."""

    def __init__(self, deadline_s: float, *, is_observed: bool = False) -> None:
        """`deadline_s` is a case's. `is_observed`: nothing is timed."""
        self._deadline_s, self._is_observed = deadline_s, is_observed
        self._pool: Any = None
        self._group: GroupConfig | None = None
        self._findings: dict[str, FindingValue] = {}
        self._refused: dict[GroupConfig, Unavailable | RankFailure] = {}
        """Why ranks cannot join, or failed to twice: they are not asked again."""
        self._failed: set[GroupConfig] = set()

    def measure(self, work: Workload, case: Case, settings: Settings) -> Measurement:
        """Raises RankFailure, which names the rank, and Unavailable."""
        with self._joined(work, case) as ask:
            settings = settings.shortened(work.sampling)
            has_device_clock: bool = ask("build", case)[0]
            depth = work.options(case).depth
            per_rank: list[list[Reading]] = ask("iterate", 1)

            def take(seconds_left: float) -> list[Reading]:
                """As many iterations as fit, from 1 to CHUNK, by what the last ones took."""
                last_s = depth * max(own[-1][0] for own in per_rank)
                answers = ask("iterate", max(1, min(CHUNK, int(seconds_left / last_s))))
                for own, newest in zip(per_rank, answers, strict=True):
                    own += newest
                return [  # of each clock by itself the slowest rank's
                    (max(end for end, _ in readings), max(call for _, call in readings))
                    for readings in zip(*answers, strict=True)
                ]

            warm_up(take, lambda: sum(ask("num_page_faults")), time.monotonic, settings)
            ask("start")
            timed = sample(take, time.monotonic, settings)
            by_rank: list[list[float]] = []
            if has_device_clock:
                delay_s = EVENT_DELAY_S + depth * max(call for _, call in timed)
                by_rank = ask("device_clock", DEVICE_READINGS, delay_s)
            finished: list[Measurement] = ask("finish")
            proofs = _proofs(finished, self._pool.names)
            if any(proof.startswith("failed") for proof in proofs.values()):
                return Measurement(proofs=proofs)  # no time of wrong results
            about_sent, sent = _sent(finished)
            medians = [median([end for end, _ in own[-len(timed) :]]) for own in per_rank]
            return structs.replace(
                finished[0],
                end_to_end_s=tuple(end for end, _ in timed),
                call_s=tuple(call for _, call in timed),
                device_s=tuple(map(max, zip(*by_rank, strict=True))),
                findings={**self._findings, **finished[0].findings, **about_sent},
                proofs=proofs,
                ranks={str(rank): seconds for rank, seconds in enumerate(medians)},
                sent=sent,
            )

    def observe(self, work: Workload, case: Case, *, traced: bool = False) -> Measurement:
        """Findings and proofs of one reading that the devices saw, no times. Raises so, too."""
        with self._joined(work, case) as ask:
            by_rank: list[Measurement] = ask("observe", case, traced)
            proofs, (findings, sent) = _proofs(by_rank, self._pool.names), _sent(by_rank)
            findings = {**by_rank[0].findings, **findings}
            trace = tuple(event for own in by_rank for event in own.trace)
            return structs.replace(
                by_rank[0], findings=findings, proofs=proofs, sent=sent, trace=trace
            )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._pool = self._group = None

    @contextmanager
    def _joined(self, work: Workload, case: Case) -> Iterator[Ask]:
        """The case's ranks, to be asked within its deadline; they end where something is raised."""
        device, options = str(case.values["device"]), work.options(case)
        group = GroupConfig(device, options.backend, options.ranks or 1, self._deadline_s)
        if group in self._refused:
            raise self._refused[group]
        until = time.monotonic() + group.patience_s
        try:
            if group != self._group:
                self.close()
                make = Agents if os.environ.get(VARIABLE) else Pool
                self._pool, self._group = make(group), group
                try:
                    ranks = self._pool.ask(until, "join", self._is_observed)
                except (Unavailable, RankFailure) as reason:
                    if isinstance(reason, Unavailable) or group in self._failed:
                        self._refused[group] = reason
                    self._failed.add(group)
                    raise
                self._findings = {name: any(own.get(name) for own in ranks) for name in ranks[0]}
            yield partial(self._pool.ask, until)
        except BaseException:
            self.close()
            raise


def _sent(by_rank: Sequence[Measurement]) -> tuple[dict[str, FindingValue], dict[str, int]]:
    """Of all ranks whether they send what is documented, and the most; and rank -> bytes."""
    sent = {rank: nbytes for own in by_rank for rank, nbytes in own.sent.items()}
    answers = [own.findings.get(DOCUMENTED) for own in by_rank]
    if all(answer is None for answer in answers):
        return {}, sent
    answer = None if None in answers else all(answers)
    return {DOCUMENTED: answer, "most_sent_bytes": max(sent.values())}, sent


def _proofs(by_rank: Sequence[Measurement], names: Sequence[str]) -> dict[str, str]:
    """Of all ranks: who failed, and how; else unavailable where it was to one; else passed."""
    proofs = dict(by_rank[0].proofs)
    for proof in proofs:
        texts = {rank: own.proofs.get(proof, "") for rank, own in zip(names, by_rank, strict=True)}
        wrong = [f"{rank}: {text[8:]}" for rank, text in texts.items() if text[:6] == "failed"]
        worst = max(texts.values())  # "unavailable" is after "passed"
        proofs[proof] = f"failed: {'; '.join(wrong)}" if wrong else worst
    return proofs
