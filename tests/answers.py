"""What each question says of the simulated device, whose clock is exact, and of rows made by hand,
as golden files have it."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from msgspec.structs import replace

from hostbench.core.records import CaseRecord
from hostbench.core.units import GB, MIB
from hostbench.families.question import Row
from hostbench.report.answer import Answer
from hostbench.report.questions import answers, rows_of
from hostbench.report.write import text
from hostbench.store.points import case_rows
from tests.fakes.builders import run, simulated_records
from tests.stored import frame_of

COPY = "transfer.host_to_device"
FAMILIES = ("allocation", "loading", "overlap", "synchronization", "transfer")


def row(seconds: float | None, *, workload: str = COPY, **more: Any) -> Row:
    """A case of one size; what is no field of Row is an axis. `num`: of how many launches alike."""
    num, nbytes = more.pop("num", 8), more.pop("nbytes", MIB)
    own = {field.name: more.pop(field.name) for field in fields(Row) if field.name in more}
    axes: dict[str, Any] = {"nbytes": nbytes, **more} if nbytes else more
    defaults: dict[str, Any] = {
        "device": "cuda",
        "status": "ok" if seconds is not None else "skipped",
        "launches": {} if seconds is None else dict.fromkeys(range(num), seconds),
        "reason": None if seconds is not None else "no such memory",
        "nbytes": nbytes,
        "gb_per_s": nbytes / seconds / GB if nbytes and seconds else None,
    }
    return Row(
        family=workload.partition(".")[0],
        workload=workload,
        case=f"{workload}[{','.join(f'{name}={value}' for name, value in axes.items())}]",
        axes=axes,
        seconds=seconds,
        **{**defaults, **own},
    )


@cache
def simulated(family: str) -> list[CaseRecord]:
    """One launch."""
    return simulated_records(family, launches=1)


def repeated(records: Sequence[CaseRecord], launches: int = 10) -> list[CaseRecord]:
    """The simulated clock is exact: a further launch says the same."""
    return [replace(one, launch=number) for number in range(launches) for one in records]


def lines() -> Iterator[str]:
    """A case that does not do what it declares, or fails a proof, ends it."""
    for family in FAMILIES:
        part = run(repeated(simulated(family)), launches=10, device="simulated")
        for case in case_rows(part):
            assert case["status"] != "failed" and "unexpected" not in case["flags"], case
        for answer in answers(rows_of(frame_of(part))):
            yield f"{family}: {answer.question}"
            yield from said(answer)


def said(answer: Answer) -> Iterator[str]:
    """Its state, and what is printed below the question."""
    at = f" {answer.at}" if answer.at else ""
    yield from (f"    {answer.state}{at}", *text([*answer.blocks()][1:]).splitlines())


def printed(answer: Answer) -> Iterator[str]:
    """With the first screen's lines."""
    yield from said(answer)
    yield from (f"    | {own.what} | {own.figures} | {own.verdict}" for own in answer.lines)
