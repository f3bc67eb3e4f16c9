"""Runs as they are read, and what the launches of a case come to together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, ValidationError, convert

from hostbench.core.case import Case
from hostbench.core.records import PROOF_FAILED, CaseRecord, Run
from hostbench.core.samples import median
from hostbench.facts.record import Facts

MAX_REASON = 4000
"""Characters of a reason that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case of one run over all its launches."""

    case: Case
    version: str
    status: str
    """`ok`, `skipped`, `failed`, or `not measured`: planned, but the run never came to it."""
    reason: str | None
    launches: tuple[int, ...]
    """The launches that gave a number, in order."""
    seconds: tuple[float, ...]
    """Their medians; also those of a failed proof, to be shown struck out."""
    call_s: tuple[float, ...]
    device_s: tuple[float, ...]
    nbytes: int | None
    findings: dict[str, Any]
    """What all launches agree on, and the median of numbers; None where they do not agree."""
    unexpected: dict[str, str]
    """Findings that differ, in any launch, from what the case declares: name -> what was found,
    `True` or `True in 9 of 10 launches`."""
    proofs: dict[str, str]
    """Proof name to `passed`, `failed: why` or `unavailable: why`: the worst over all passes."""
    peak_memory_bytes: int | None
    """The most that the device's allocator held; None where nobody counts."""


class StoredFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a stored file (an archive, a journal, a file of asv's) without opening it:
    the same in all its points, and of a run how it was measured."""

    file: str = ""
    """Its path, relative to the results folder."""
    size: int = 0
    changed_ns: int = 0
    """Time of its last change."""
    depends: str = ""
    """What asv's other files say of its points: where one of the three differs it is read again."""
    digest: str = ""
    """Of its bytes: the same in every clone."""
    warnings: list[str] = []
    """What is not shown of it, and why."""
    rows: int = 0
    machine: str = ""
    run_id: str = ""
    commit: str | None = None
    hardware: str | None = None
    torch: str | None = None
    driver: str | None = None
    scratch: str | None = None
    source: str | None = None
    first_us: int | None = None
    """When its first point began, in microseconds since the epoch."""
    started_at: str = ""
    """Of a run alone, as all that follows."""
    launches: int = 0
    by: str = ""
    identity: dict[str, str] = {}
    """What makes it another machine (hostbench.facts.differences.identity)."""


def facts_of(stored: Any) -> Facts:
    """Stored facts that are odd say nothing; the run is shown all the same."""
    try:
        return convert(stored, Facts)
    except ValidationError:
        return {}


def facts_by_when(stored: Mapping[str, Any]) -> dict[str, Facts]:
    """`before`, `during`, ... -> the facts of a run."""
    return {when: facts_of(facts) for when, facts in stored.items()}


def case_results(run: Run) -> list[CaseResult]:
    """One result per measured case, in the plan's order."""
    by_case: dict[str, list[CaseRecord]] = {text: [] for text in run.header.planned}
    for record in run.winners().values():
        by_case.setdefault(str(record.case), []).append(record)
    return [_result(records) for records in by_case.values() if records]


def _result(records: list[CaseRecord]) -> CaseResult:
    records = sorted(records, key=lambda record: record.launch)
    rank = {"failed": 0, "skipped": 1}
    bad = min((r for r in records if r.status in rank), key=lambda r: rank[r.status], default=None)
    last = bad or records[-1]
    is_shown = bad is None or (bad.reason or "").startswith(PROOF_FAILED)
    measured = [r for r in records if r.seconds is not None and is_shown]
    clocks = {
        clock: tuple(median(own) for r in measured if (own := getattr(r.measurement, clock)))
        for clock in ("call_s", "device_s")
    }
    findings, proofs = dict[str, list[Any]](), dict[str, str]()
    # a failure counts more than what could not be shown, and that more than a pass
    order = ("passed", "unavailable", "failed")
    for record in records:
        for name, value in record.measurement.findings.items():
            findings.setdefault(name, []).append(value)
        for name, outcome in record.measurement.proofs.items():
            both = (proofs.get(name, outcome), outcome)
            proofs[name] = max(both, key=lambda text: order.index(text.partition(":")[0]))
    agreed = {name: _together(values) for name, values in findings.items()}
    unexpected = {}
    for name, expected in last.expected.items():
        flags = [value for value in findings.get(name, ()) if isinstance(value, bool)]
        if 0 < sum(flags) < len(flags):
            unexpected[name] = f"True in {sum(flags)} of {len(flags)} launches"
        elif agreed.get(name) not in (None, expected):
            unexpected[name] = str(agreed[name])
    peaks = [record.measurement.memory.get("peak_allocated") for record in records]
    return CaseResult(
        case=last.case,
        version=last.version,
        status=last.status,
        reason=last.reason and last.reason[:MAX_REASON],
        launches=tuple(r.launch for r in measured),
        seconds=tuple(r.seconds for r in measured if r.seconds is not None),
        **clocks,
        nbytes=last.nbytes,
        findings=agreed,
        unexpected=unexpected,
        proofs=proofs,
        peak_memory_bytes=max((peak for peak in peaks if peak is not None), default=None),
    )


def _together(values: list[Any]) -> Any:
    """What all launches agree on, or the median of numbers; None where they do not agree."""
    if all(value == values[0] for value in values):
        return values[0]
    are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return median(values) if are_numbers else None
