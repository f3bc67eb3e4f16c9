"""What `hostbench idle` says: a page, a table, a document."""

from collections.abc import Iterator
from dataclasses import asdict

from hostbench.core.units import format_seconds, format_share, number_of
from hostbench.idle.causes import (
    COPY_NOT_HIDDEN,
    HOST_LATE,
    LAUNCH_BOUND,
    OTHER,
    QUEUED,
    SLOW_LAUNCH,
    SYNCHRONIZATION,
)
from hostbench.idle.report import Advice, IdleDevice, IdleReport
from hostbench.idle.summary import MOSTLY
from hostbench.report.blocks import Block, Column, Heading, Table

_SHOWN = 8
_WORTH = 0.001
"""Of the span: less is left out of text."""
_MUCH = 0.1
"""Of a step: less before the device's first work is left out of text."""

_CAUSES = {
    SYNCHRONIZATION: "synchronization: the host had waited for the device",
    HOST_LATE: "host late: the launch came after the queue was empty",
    LAUNCH_BOUND: "launch-bound: launches back to back, and the device waits for each",
    SLOW_LAUNCH: "slow launch: the launch call itself took long",
    QUEUED: "queued: the work was launched, and had not begun",
    OTHER: "other: the trace lacks the launch",
    COPY_NOT_HIDDEN: "copy not hidden: copies ran, and nothing was computed",
}


def blocks(report: IdleReport) -> list[Block]:
    if not report.devices:
        return [*report.warnings, *_nothing(report)]
    return [
        *report.warnings,
        *_headlines(report),
        *_before(report),
        "",
        Heading("Where the time goes"),
        causes_table(report),
        "",
        Heading("What to do, the worst first"),
        *_advice_parts(report),
        *_notes(report),
    ]


def overhead(free_s: float | None, recorded_s: float | None) -> str:
    """What recording cost; empty where too few steps tell."""
    if free_s is None or recorded_s is None:
        return ""
    free, recorded = format_seconds(free_s), format_seconds(recorded_s)
    return (
        f"A step took {free} before the recording and {recorded} in it. The profiler slows the "
        "host: host late, launch-bound and slow launch are overestimated."
    )


def _nothing(report: IdleReport) -> Iterator[str]:
    yield "No work of a GPU is in the trace: whether one idled cannot be seen."
    if report.num_host_operations:
        num = number_of(report.num_host_operations, "operation")
        yield (
            f"It has {num} of torch on the host. Idle time, copies and waits need a run on a GPU, "
            "with ProfilerActivity.CUDA, where CUPTI is installed and permitted."
        )


def _headlines(report: IdleReport) -> Iterator[Block]:
    """How much of the time the devices were idle."""
    if len(report.devices) == 1:
        yield _headline(report.devices[0], report)
        return
    idle_s = sum(device.span_s - device.busy_s for device in report.devices)
    share = idle_s / sum(device.span_s for device in report.devices)
    yield f"{len(report.devices)} GPUs: idle {share:.1%} of their time."
    yield Table(_DEVICE_COLUMNS, list(map(asdict, report.devices)))


def _headline(device: IdleDevice, report: IdleReport) -> str:
    text = (
        f"GPU {device.device}: idle {device.idle_fraction:.1%} of {format_seconds(device.span_s)}"
    )
    if report.step_s is None or report.steps_share is None:
        return f"{text} (no steps are marked; profile.step() marks them)."
    steps = f"{number_of(report.num_steps, 'step')} of {format_seconds(report.step_s)}"
    if report.steps_share < MOSTLY:
        return f"{text}, of which {steps} are {report.steps_share:.1%}; costs are of all of it."
    idle = format_seconds((device.span_s - device.busy_s) / report.num_steps)
    return f"{text}: {steps}, {idle} idle per step."


def _before(report: IdleReport) -> Iterator[str]:
    """What a step lacks in the span, where that is much of a step."""
    before_s = report.before_first_work_s
    if before_s <= _MUCH * (report.step_s or 0.0):
        return
    text = f"The device began {format_seconds(before_s)} after the first step did"
    if report.before_first_work_in_loader_s:
        loading = format_seconds(report.before_first_work_in_loader_s)
        text += f", {loading} of which the host waited for the DataLoader"
    yield f"{text}. That is not counted as idle."


_DEVICE_COLUMNS = (
    Column(("rank",), "rank", right=True),
    Column(("device",), "GPU", right=True),
    Column(("idle_fraction",), "idle", format_share, right=True),
    Column(("span_s",), "span", format_seconds, right=True),
    Column(("busy_s",), "busy", format_seconds, right=True),
    Column(("file",), "trace"),
)


def _cost(seconds: float, ms_per_step: float | None) -> str:
    """Per step where that is known."""
    if ms_per_step is None:
        return format_seconds(seconds)
    return f"{format_seconds(ms_per_step / 1e3)}/step"


_COST_COLUMNS = (
    Column(("seconds", "ms_per_step"), "cost", _cost, right=True),
    Column(("share",), "share", format_share, right=True),
)


def causes_table(report: IdleReport) -> Table:
    columns = (*_COST_COLUMNS, Column(("cause",), "cause", lambda cause: _CAUSES[cause]))
    return Table(columns, [asdict(cause) for cause in report.causes if cause.seconds > 0])


def advice_table(advice: tuple[Advice, ...]) -> Table:
    what = Column(("what",), "what")
    remedy = Column(("remedy",), "what to do", below=True)
    return Table((*_COST_COLUMNS, what, remedy), list(map(asdict, advice)))


def _advice_parts(report: IdleReport) -> Iterator[Block]:
    shown = tuple(item for item in report.advice if item.share >= _WORTH)[:_SHOWN]
    if shown:
        yield advice_table(shown)
    else:
        yield f"Nothing costs {_WORTH:.1%} of the time."
    num_left = len(report.advice) - len(shown)
    if num_left:
        yield f"{num_left} more that cost less; --format json lists them"


def _notes(report: IdleReport) -> Iterator[str]:
    yield ""
    lines = {wait.line_of for wait in (*report.syncs, *report.pageable_non_blocking)}
    if "function" in lines:
        yield "Lines are those where a function begins: the profiler names no others."
    if None in lines:
        yield (
            "Some waits have no line: record with `hostbench idle -- python SCRIPT`, or the "
            "profiler with with_stack=True."
        )
