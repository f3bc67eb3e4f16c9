"""Cases, records, headers and whole runs made by hand or on the simulated device, for tests.

Every builder gives something valid as it is, and takes what a test is about as keywords:
`run([record(copy_case(), launch) for launch in range(10)])` is a run of ten launches of a copy.
`tests.fakes.history` makes many of them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import convert
from msgspec.structs import replace

from hostbench.core.case import AxisValue, Case
from hostbench.core.errors import Unavailable
from hostbench.core.journal import JournalWriter, journal_path
from hostbench.core.records import (
    CaseRecord,
    Done,
    Finish,
    Launch,
    Measurement,
    Message,
    Run,
    RunHeader,
)
from hostbench.core.samples import median
from hostbench.device.simulated import SimulatedDevice
from hostbench.device.simulated_file import GROUP, MARK, Simulation
from hostbench.families import load
from hostbench.measure import evidence, measure
from hostbench.measure.workload import Workload, prepare
from hostbench.runner import worker

COPY, CREATE = (next(iter(load((family,)))) for family in ("transfer", "allocation"))
"""The first workload of each: a copy to the device, and a new tensor."""
COMMIT = "1a2b3c4d" + "0" * 32
STARTED = "2026-11-21T12:00:00.000Z"
FACTS: dict[str, Any] = {
    "host": {"cpu_model": "A Toy CPU"},
    "software": {"torch": "2.13.0+cpu"},
    "nvml": {"driver": {"value": None, "why": "no driver"}},
}
GPU_FACTS: dict[str, Any] = {**FACTS, "nvml": {"driver": "580.1"}, "gpu0": {"name": "NVIDIA H200"}}


def copy_case(
    workload: str = COPY,
    *,
    device: str = "cpu",
    nbytes: int = 1 << 20,
    memory: str = "pageable",
    blocking: bool = True,
) -> Case:
    axes: dict[str, AxisValue] = {"device": device, "nbytes": nbytes}
    return Case(workload, {**axes, "memory": memory, "blocking": blocking})


def create_case(*, device: str = "cpu", fill: str = "zeros", place: str = "direct") -> Case:
    axes: dict[str, AxisValue] = {"device": device, "nbytes": 1 << 20, "fill": fill, "place": place}
    return Case(CREATE, axes)


def declared_case(work: Workload, **axes: object) -> Case:
    """The first one with these axes, on cuda where they name no device."""
    wanted = {"device": "cuda", **axes}
    return next(case for case in work.cases() if wanted.items() <= case.values.items())


def header(**changes: Any) -> RunHeader:
    fields: dict[str, Any] = {
        "run_id": "20261121T120000Z-1a2b3c4d-0001",
        "machine": "shelf",
        "commit": COMMIT,
        "committed_at": "2026-11-20T09:00:00+01:00",
        "scratch": None,
        "profile": "standard",
        "launches": 2,
        "device": "cpu",
        "started_at": STARTED,
        "hostbench": "0.1.0",
    }
    return RunHeader(**{**fields, **changes})


def record(case: Case, launch: int = 0, seconds: float | None = 0.5, **changes: Any) -> CaseRecord:
    """A measured case; `call_s` as a keyword sets how long the call itself took."""
    call_s = changes.pop("call_s", seconds)
    nbytes = case.values.get("nbytes") if case.workload.startswith("transfer") else None
    fields: dict[str, Any] = {
        "version": "1",
        "status": "ok",
        "reason": None,
        "started_at": STARTED,
        "nbytes": nbytes,
    }
    if seconds is not None:
        fields["measurement"] = {"end_to_end_s": [seconds], "call_s": [call_s]}
    fields |= changes
    fields["measurement"] = convert(fields.get("measurement", {}), Measurement)
    return CaseRecord(case=case, launch=launch, seconds=seconds, **fields)


def skipped(case: Case, reason: str = "needs a GPU", launch: int = 0) -> CaseRecord:
    return record(case, launch, None, status="skipped", reason=reason)


def failed(case: Case, reason: str = "it broke", launch: int = 0, **changes: Any) -> CaseRecord:
    changes = {"seconds": None, **changes}
    return record(case, launch, status="failed", reason=reason, **changes)


def run(records: Sequence[CaseRecord], **changes: Any) -> Run:
    """A finished part of a run that planned just these cases; header and Run fields as keywords."""
    own = {name: changes.pop(name) for name in ("damaged",) if name in changes}
    facts = changes.pop("facts", FACTS)
    if changes.get("device") == MARK:
        facts = {**facts, GROUP: Simulation().all_facts()[GROUP]}
    finish = changes.pop("finish", Finish(at="2026-11-21T12:05:00.000Z", status="complete"))
    planned = tuple(dict.fromkeys(str(one.case) for one in records))
    return Run(
        header=header(**{"planned": planned, **changes}),
        records=tuple(records),
        facts={"before": facts},
        finish=finish,
        **own,
    )


def write_journal(results: Path, part: Run, *, finish: bool = True) -> Path:
    """The journal that a run of these records leaves; nobody holds it."""
    path = journal_path(results, part.header.run_id)
    with JournalWriter(path, part.header) as journal:
        for when, facts in part.facts.items():
            journal.facts(when, facts)
        for one in part.records:
            journal.case(one)
        if finish:
            journal.finish("complete", "2026-11-21T12:05:00.000Z")
    return path


class InProcess:
    """Stands in for the Launcher: walks the cases in this process, for the simulated device."""

    def __init__(self, *_: Any) -> None:
        self.launches: list[Launch] = []

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def run(self, launch: Launch) -> Iterator[CaseRecord]:
        self.launches.append(launch)
        yield from walked(launch)


def walked(launch: Launch) -> list[CaseRecord]:
    """What a worker in this process makes of a launch."""
    messages: list[Message] = []
    worker.walk(launch, messages.append)
    return [message.record for message in messages if isinstance(message, Done)]


def later(part: Run, minutes: int, number: int, records: Sequence[CaseRecord]) -> Run:
    """A run like `part`, that many minutes later."""
    started = f"2026-11-21T12:{minutes:02d}:00.000Z"
    run_id = f"20261121T12{minutes:02d}00Z-1a2b3c4d-{number:04d}"
    header = replace(part.header, run_id=run_id, started_at=started)
    return replace(part, header=header, records=tuple(records))


def simulated_records(family: str, *, launches: int = 2) -> list[CaseRecord]:
    """Every case of a family on the simulated device, measured and observed as a worker does."""
    load((family,))
    made = []
    for launch in range(launches):
        device = SimulatedDevice()
        for work in load((family,)).values():
            for case in work.cases():
                if case.values["device"] == "cuda":
                    try:
                        made.append(_simulated(device, work, case, launch))
                    except Unavailable as reason:
                        made.append(skipped(case, str(reason), launch))
                    device.reset()
    return made


def _simulated(device: SimulatedDevice, work: Workload, case: Case, launch: int) -> CaseRecord:
    found = measure.measure(device, prepare(work, device, case), measure.BRIEF)
    seen = evidence.gather(device, prepare(work, device, case))
    measurement = replace(
        found.thinned(),
        findings={**found.findings, **seen.findings},
        proofs={**found.proofs, **seen.proofs},
    )
    seconds = median(found.end_to_end_s)
    return record(
        case,
        launch,
        seconds,
        measurement=measurement,
        nbytes=work.options(case).moves,
        expected=work.options(case).expects,
    )
