"""A rank: one process that does what its parent orders until its channel closes.

Workloads call torch.distributed themselves, in steps of `RankGroup.counted`: while a rank hangs its
parent sees how many it has entered and left.
"""

import contextlib
import ctypes
import mmap
import os
import time
from collections.abc import Callable
from ctypes import c_char, c_int64
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from msgspec import structs

from hostbench.core.case import Case
from hostbench.core.errors import CollectiveError, Unavailable, end_of_traceback, in_words
from hostbench.core.processes import die_with_parent, tcp_bytes_sent
from hostbench.core.records import Measurement
from hostbench.device import num_devices, open_device
from hostbench.device.activity import COLLECTIVE
from hostbench.device.base import Device, Step, too_few
from hostbench.measure import measure
from hostbench.measure.evidence import COUNTED_BYTES, COUNTER_WAIT_S, MAX_REPEATS
from hostbench.measure.workload import ASYNCHRONOUS, REGISTRY, Workload, prepare
from hostbench.ranks import collective_logs
from hostbench.ranks.blame import Reply

DOCUMENTED, SENT = "sends_as_documented", "sent"
SENT_SHARE = 0.1  # so far the bytes sent may be from those documented, headers aside
EXACT_SHARE = 0.01  # the same of a step that sends exactly so much, by gloo
HEADER_BYTES = 640  # for each other rank and collective: gloo's messages take 290 bytes beside
# their data, and a ring sends two to go once around


class Counters(ctypes.Structure):
    """Of a rank's collectives how many it has entered and left, and the last one's name."""

    entered: int
    left: int
    operation: bytes
    _fields_ = (("entered", c_int64), ("left", c_int64), ("operation", c_char * 48))


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What a case asks of a group of ranks."""

    device: str
    backend: str
    num_ranks: int
    deadline_s: float  # a case's; after so long torch itself ends a collective that hangs

    @property
    def patience_s(self) -> float:
        """For a case's orders; the rest is for telling who is to blame, and ending ranks."""
        return 0.8 * self.deadline_s


@dataclass(frozen=True, slots=True)
class RankConfig:
    """How a rank finds the others and its device."""

    group: GroupConfig
    rank: int
    store: Callable[[], Any]  # makes, in the rank, the torch store in which the ranks meet
    local_rank: int  # the index of its GPU
    num_local: int  # ranks on this host
    counters: Counters = field(  # in memory that forked processes share
        default_factory=lambda: Counters.from_buffer(mmap.mmap(-1, ctypes.sizeof(Counters)))
    )


class RankGroup:
    """The default process group, as this rank sees it."""

    def __init__(self, config: RankConfig, device: Device) -> None:
        self.rank, self.num_ranks = config.rank, config.group.num_ranks
        self.backend, self.device, self.num_local = config.group.backend, device, config.num_local
        self._counters = config.counters
        self._flag = torch.zeros(1, device=device.torch_device)
        self.line_up = self.counted("barrier", lambda: dist.all_reduce(self._flag))
        """Enqueues a sum of one element: on the device no rank goes on before all are there."""

    def counted(self, operation: str, call: Callable[[], object]) -> Step:
        """`call`, a collective of torch.distributed, as a step that takes about half a microsecond
        more; `operation` is its name where it fails. Raises CollectiveError."""
        counters, name = self._counters, operation.encode()[:48]
        returns_early = self.backend in ASYNCHRONOUS

        def step() -> None:
            counters.operation = name
            counters.entered += 1
            try:
                call()
            except Exception as error:
                raise CollectiveError(str(error)) from error
            if not returns_early:
                counters.left = counters.entered

        return step

    def barrier(self) -> None:
        """Wait for the own device and every rank. dist.barrier is slower and guesses the device."""
        self.line_up()
        self.synchronize()

    def synchronize(self) -> None:
        """Block until the device, and so every collective called so far, has finished."""
        self.device.synchronize()
        self._counters.left = self._counters.entered

    def agree(self, is_so: bool) -> bool:
        """Whether it is so on every rank, each of which has to ask."""
        self._flag.fill_(is_so)
        self.counted("agreement", lambda: dist.all_reduce(self._flag, dist.ReduceOp.MIN))()
        self.synchronize()
        return bool(self._flag.item())


_BLOCKING = "TORCH_NCCL_BLOCKING_WAIT"
_current: RankGroup | None = None


def rank_group() -> RankGroup:
    """The group of the rank that this process is. Raises RuntimeError where it is none."""
    if _current is None:
        raise RuntimeError("this process is not a rank; declare `ranks` in @workload")
    return _current


def join(config: RankConfig) -> RankGroup:
    """Open the rank's own device, bound to its NUMA node, and join the others there. Raises
    Unavailable where there are too few GPUs, or torch has no such group."""
    global _current
    group = config.group
    num = num_devices(group.device)
    if group.device == "cuda" and 0 < num < config.num_local:  # without any the device says why
        raise Unavailable(too_few(group.device, config.num_local, num))
    if not getattr(dist, f"is_{group.backend}_available", lambda: False)():
        raise Unavailable(f"this torch is built without {group.backend}")
    if group.backend == "nccl" and group.device != "cuda":
        raise Unavailable("nccl needs a GPU for each rank")
    if group.backend == "nccl" and os.environ.get(_BLOCKING, "0") not in ("", "0"):
        raise Unavailable(f"{_BLOCKING} is set: each call would wait for its collective; unset it")
    if group.backend == "mpi" and "OMPI_COMM_WORLD_SIZE" not in os.environ:
        started = "mpirun -n 2 python -m hostbench.ranks"
        raise Unavailable(f"ranks of mpi are started by mpirun: {started}")
    device = open_device(group.device, config.local_rank)
    device.settle()
    dist.init_process_group(
        group.backend,
        store=config.store(),
        rank=config.rank,
        world_size=group.num_ranks,
        timeout=timedelta(seconds=group.deadline_s),
        device_id=device.torch_device if group.backend == "nccl" else None,
    )
    _current = RankGroup(config, device)
    device.agree = _current.agree
    return _current


def serve(config: RankConfig, channel: Connection, calls: Connection) -> NoReturn:
    """The whole life of a rank. `channel` is the end of a pipe, an order (name of a method of
    `Rank`, arguments). `calls`: see `collective_logs`."""
    try:
        die_with_parent()
        collective_logs.answer(calls, config.group.backend)
        torch.set_num_threads(1)  # a forked pool of threads would hang
        rank = Rank(config)
        with contextlib.suppress(EOFError):
            while True:
                name, arguments = channel.recv()
                channel.send(obey(rank, name, arguments))
        os._exit(0)
    finally:
        os._exit(1)


def obey(rank: "Rank", name: str, arguments: tuple[Any, ...]) -> Reply:
    """The reply to an order."""
    try:
        return Reply(kind="done", value=getattr(rank, name)(*arguments))
    except Unavailable as reason:
        return Reply(kind="skipped", text=str(reason))
    except (Exception, SystemExit) as error:
        cause = error.__cause__ if isinstance(error, CollectiveError) else None
        where = rank.work.raised_at(cause or error) if rank.work else ""
        text = in_words(error, where, type(cause or error).__name__)
        # gloo says so of a peer that is gone, also in a call that is no step.
        torn = cause is not None or "Connection closed by peer" in text
        return Reply(kind="raised", text=text, traceback=end_of_traceback(error), by_others=torn)


class Rank:
    """Every public method is an order; the parent makes one measurement of what all answer."""

    def __init__(self, config: RankConfig) -> None:
        self.config = config
        self.work: Workload | None = None
        self.log: collective_logs.NcclLog | None = None

    def join(self, is_observed: bool = False) -> dict[str, bool]:
        """What may slow it down, as a finding: `oversubscribed`, more ranks than cores."""
        if is_observed and self.config.group.backend == "nccl":
            self.log = collective_logs.NcclLog()
        self.group = join(self.config)
        self.device = self.group.device
        kind = self.config.group.device
        return {"oversubscribed": kind == "cpu" and self.config.num_local > num_devices(kind)}

    def build(self, case: Case) -> bool:
        """Whether there is a device clock: it would hold the host's time where calls wait."""
        self.work = REGISTRY[case.workload]
        self.prepared = prepare(self.work, self.device, case)
        self.start()
        return self.group.backend in ASYNCHRONOUS and self.prepared.one_stream

    def num_page_faults(self) -> int:
        """While it warms up."""
        return measure.num_page_faults()

    def start(self) -> None:
        """What comes now is sampled."""
        self.device.reset_peak()
        self.noise = measure.noise()

    def iterate(self, count: int) -> list[measure.Reading]:
        """`count` readings; before each one, outside the timer, all ranks wait for each other."""
        step, depth, now = self.prepared.step, self.prepared.depth, self.device.now
        readings = []
        for _ in range(count):
            self._meet()
            readings.append(measure.reading(step, depth, now, self.group.synchronize))
        return readings

    def device_clock(self, count: int, delay_s: float) -> list[float]:
        """`count` readings on the device, seconds per step: between two events behind a delay in
        which every rank has enqueued its steps, and a sum at whose end they begin together."""
        step, depth, line_up = self.prepared.step, self.prepared.depth, self.group.line_up
        seconds = []
        for _ in range(count):
            self._meet()
            seconds.append(self.device.event_time(step, depth, behind_s=delay_s, line_up=line_up))
            self.group.synchronize()
        return seconds

    def finish(self) -> Measurement:
        """The bytes that a reading sends; the memory of the steps, without that of the check; the
        check of the data, and what the step noted. Then leave nothing of the case."""
        noise, sent = measure.noise_since(self.noise), self._sent_by_gloo()
        finished = structs.replace(
            sent,
            noise=noise,
            memory=self.device.memory_stats(),
            proofs={**sent.proofs, **measure.proofs_of(self.prepared)},
            findings={**sent.findings, **measure.findings_of(self.prepared)},
        )
        self._leave()
        return finished

    def _sent_by_gloo(self) -> Measurement:
        """Rank -> bytes that it sends per step over TCP, in one reading with the barrier after it.
        And, where that is documented, whether so."""
        prepared = self.prepared
        if self.group.backend in ASYNCHRONOUS:  # see `observe`
            return Measurement()
        if self.group.backend != "gloo":
            return self._uncounted(f"nobody counts what {self.group.backend} sends")
        self._meet()
        start = tcp_bytes_sent()
        self._steps()
        self.group.barrier()
        sent = (tcp_bytes_sent() - start) // prepared.depth
        if (documented := prepared.sends(None)) is None:
            return Measurement(sent={str(self.group.rank): sent})
        others, num_calls = self.group.num_ranks - 1, prepared.depth + 1
        headers = HEADER_BYTES * others * num_calls / prepared.depth
        share = EXACT_SHARE if prepared.sends_exactly else SENT_SHARE
        low, high = (1 - share) * documented, (1 + share) * documented + headers
        return self._counted(sent, documented, low <= sent <= high)

    def _sent_by_nccl(self, algorithm: str | None) -> Measurement:
        """The same by the counters of the GPU's links. Neither where a step is too small for them,
        or they see less than is documented: they may lag, wrap, or not know a link."""
        prepared = self.prepared
        documented = prepared.sends(algorithm) or 0
        num_readings = -(-COUNTED_BYTES // max(1, documented * prepared.depth))
        start: int | None = None
        with contextlib.suppress(Unavailable):
            start = self.device.bytes_sent()
        if not self.group.agree(start is not None and num_readings <= MAX_REPEATS):
            return self._uncounted("the counters of the GPU's links cannot tell")
        for _ in range(num_readings):
            self._meet()
            self._steps()
        self.group.synchronize()
        time.sleep(COUNTER_WAIT_S)
        try:
            grown = self.device.bytes_sent() - (start or 0)
        except Unavailable as reason:  # the counters alone: what was observed holds
            return self._uncounted(str(reason))
        sent = grown // (num_readings * prepared.depth)
        if sent < (1 - SENT_SHARE) * documented:
            return self._uncounted("the counters of the GPU's links saw less")
        return self._counted(sent, documented, sent <= (1 + SENT_SHARE) * documented)

    def _counted(self, sent: int, documented: int, is_so: bool) -> Measurement:
        """Whether they are those documented: a proof of what sends exactly so much, or finding."""
        by_rank = {str(self.group.rank): sent}
        if not self.prepared.sends_exactly:
            return Measurement(sent=by_rank, findings={DOCUMENTED: is_so})
        proof = "passed" if is_so else f"failed: {sent} bytes, not {documented}"
        return Measurement(sent=by_rank, proofs={SENT: proof})

    def _uncounted(self, why: str) -> Measurement:
        is_proven = self.prepared.sends_exactly
        return Measurement(proofs={SENT: f"unavailable: {why}"} if is_proven else {})

    def observe(self, case: Case, traced: bool = False) -> Measurement:
        """One reading, seen by the device, and what the GPU sends meanwhile; or its trace, which
        begins when all ranks are there. Proof `kernels`: each collective was one at least, if there
        are several ranks. Then leave nothing of the case."""
        self.build(case)
        counters, start = self.config.counters, 0
        before = counters.entered
        self.iterate(1)
        num_entered = counters.entered - before - 1  # without the barrier
        depth, is_one_stream = self.prepared.depth, self.prepared.one_stream

        def sample() -> None:
            nonlocal start
            if traced:
                self._meet()  # a profiler starts late on the one rank, and sooner on the other
            start = len(self.log or ())
            self._steps()

        self._meet()
        try:
            observation = self.device.observe(sample, traced=traced)
            if traced:
                name = {"name": f"rank {self.group.rank}"}
                process = {"ph": "M", "name": "process_name", "pid": os.getpid(), "args": name}
                return Measurement(num_steps=depth, trace=(*observation.trace, process))
            kernels = sum(each.what == COLLECTIVE for each in observation.activities)
            algorithm = None if self.log is None else self.log.choices(start)
            seen = self._sent_by_nccl(algorithm)
        except Unavailable as reason:
            if traced:
                raise
            proofs = self._uncounted(str(reason)).proofs
            return Measurement(proofs={"kernels": f"unavailable: {reason}", **proofs})
        finally:
            self._leave()
        wrong = f"failed: {kernels} kernels ran in {num_entered} collectives"
        proof = "passed" if kernels >= num_entered else wrong
        proofs = {"kernels": proof} if is_one_stream and self.group.num_ranks > 1 else {}
        proofs |= seen.proofs
        findings = {"kernels_per_step": kernels / depth, "algorithm": algorithm, **seen.findings}
        return Measurement(findings=findings, proofs=proofs, sent=seen.sent)

    def _meet(self) -> None:
        """What has to be so before each reading."""
        self.prepared.get_ready(self.device)
        self.group.barrier()

    def _steps(self) -> None:
        for _ in range(self.prepared.depth):
            self.prepared.step()

    def _leave(self) -> None:
        del self.prepared
        self.device.reset()
