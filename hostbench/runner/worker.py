"""One launch inside a worker process: measure the cases in the order given, tell about each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hostbench.core import errors
from hostbench.core.clock import now
from hostbench.core.records import (
    PROOF_FAILED,
    CaseRecord,
    Done,
    Launch,
    Measurement,
    Message,
    Started,
)
from hostbench.core.samples import median
from hostbench.device import open_device
from hostbench.device.base import Device
from hostbench.families import load
from hostbench.measure import evidence, measure
from hostbench.measure.measure import BRIEF, Prepared
from hostbench.measure.workload import Workload, prepare

if TYPE_CHECKING:
    from hostbench.ranks.lockstep import Ranks

Emit = Callable[[Message], None]


def walk(launch: Launch, emit: Emit) -> None:
    """Measure the cases of a launch in order. Before each case `Started` is emitted, after it
    `Done`. Stops early with a failed one when the process can no longer be trusted, and without one
    where the device does not start."""
    workloads = load(tuple(dict.fromkeys(case.family for case in launch.cases)))
    worker = _Worker(launch, emit)
    for case in launch.cases:
        work = workloads[case.workload]
        options = work.options(case)
        record = CaseRecord(  # of a case that has not come to its end yet
            case=case,
            version=work.version,
            launch=launch.number,
            status="failed",
            reason=None,
            started_at=now(),
            seconds=None,
            nbytes=options.moves,
            expected=options.expects,
        )
        emit(Started(record=record))
        try:
            record, is_fatal = worker.measure(work, record)
        except errors.DeviceLost as lost:
            emit(Started(record=record, lost=str(lost)))
            return
        emit(Done(record=record))
        if is_fatal:
            return  # ranks that are left die with this process
    worker.close()


@dataclass(slots=True)
class _Worker:
    """What the cases of a launch share: their device, and the ranks that were started for them."""

    launch: Launch
    emit: Emit
    _device: Device | None = field(default=None, init=False)
    _ranks: "Ranks | None" = field(default=None, init=False)
    _timed: Prepared | None = field(default=None, init=False)
    """What was timed, and is to be observed."""

    def measure(self, work: Workload, begun: CaseRecord) -> tuple[CaseRecord, bool]:
        """(what the case came to, whether this process can no longer be trusted). Raises DeviceLost
        where the device should work and does not start."""
        record, is_fatal = self._measured(work, begun, observes=self.launch.observe)
        is_next = self._timed is not None and record.status == "ok"
        if self.launch.trace:  # over ranks, too, and what has failed a proof
            is_next = record.seconds is not None
        if is_next:
            self.emit(Done(record=record))
            begun = replace(begun, launch=begun.launch + 1)
            self.emit(Started(record=begun))
            record, is_fatal = self._measured(work, begun, observes=True)
        self._timed = None
        try:
            if self._device is not None and not is_fatal:
                self._device.reset()  # also after a failed case
        except Exception as error:
            return record if record.status == "failed" else _failed(begun, error), True
        return record, is_fatal

    def _measured(
        self, work: Workload, record: CaseRecord, *, observes: bool
    ) -> tuple[CaseRecord, bool]:
        try:
            measurement = self._measurement(work, record, observes=observes)
            failed = [text for text in measurement.proofs.values() if text.startswith("failed")]
            wrong = "; ".join(text.removeprefix("failed: ") for text in failed)
            finished = replace(
                record,
                status="failed" if failed else "ok",
                reason=f"{PROOF_FAILED}: {wrong}" if failed else None,
                seconds=median(measurement.end_to_end_s) if measurement.end_to_end_s else None,
                measurement=measurement.thinned(),
            )
            return finished, False
        except errors.Unavailable as reason:
            return replace(record, status="skipped", reason=str(reason)), False
        except errors.DeviceLost:
            raise
        except errors.RankFailure as failure:  # the ranks are gone, this process is as good as new
            traceback = Measurement(traceback=failure.traceback)
            return replace(record, reason=str(failure), measurement=traceback), False
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # no key reaches a worker
            refusal = self._device.refused_pinning(error) if self._device else None
            if refusal is not None:
                return replace(record, status="skipped", reason=str(refusal)), False
            is_fatal = errors.fatal_reason(error) is not None
            return _failed(record, error, work.raised_at(error)), is_fatal

    def _measurement(self, work: Workload, record: CaseRecord, *, observes: bool) -> Measurement:
        case, launch = record.case, self.launch
        # What stands in is exact, and its clock may not see what a step does on the host.
        settings = launch.settings if launch.device is None else BRIEF
        if work.has_ranks:
            if launch.device is not None:  # ranks need torch, which a simulated launch imports not
                raise errors.Unavailable(f"the {launch.device} device has no ranks")
            if self._ranks is None:
                from hostbench.ranks.lockstep import Ranks

                self._ranks = Ranks(launch.deadline_s, is_observed=launch.observe)
            if observes:
                return self._ranks.observe(work, case, traced=launch.trace)
            return self._ranks.measure(work, case, settings)
        device = self._open(record)
        prepared = self._timed or prepare(work, device, case)
        if observes:
            return evidence.gather(device, prepared, traced=launch.trace)
        measurement = measure.measure(device, prepared, settings.shortened(work.sampling))
        if launch.trace or (launch.observes_after and not prepared.host_only):
            self._timed = prepared
        return measurement

    def _open(self, record: CaseRecord) -> Device:
        """Opened and settled, the same for all cases of the launch. Raises DeviceLost where it
        should work and does not."""
        if self._device is not None:
            return self._device
        name = self.launch.device or str(record.case.values["device"])
        self.emit(Started(record=record, opening=name))
        try:
            device = open_device(name, launch=self.launch.number)
            device.settle()
        except errors.BrokenError as error:
            raise errors.DeviceLost(str(error)) from error
        except Exception as error:
            if errors.fatal_reason(error) is None:
                raise
            why = errors.in_words(error, "")
            raise errors.DeviceLost(f"device {name} does not start: {why}") from error
        self.emit(Started(record=record))
        self._device = device
        return device

    def close(self) -> None:
        for opened in (self._ranks, self._device):
            if opened is not None:
                opened.close()


def _failed(record: CaseRecord, error: BaseException, where: str = "") -> CaseRecord:
    """How it failed, and where in the workload."""
    measurement = Measurement(traceback=errors.end_of_traceback(error))
    return replace(record, reason=errors.in_words(error, where), measurement=measurement)
