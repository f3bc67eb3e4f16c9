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


def _nothing(report: IdleReport) -> Iterator[Block]:
    """What can be said where no GPU is."""
    yield "No work of a GPU is in the trace: whether one idled cannot be seen."
    if report.likely_waits:
        yield from ("", Heading("These lines would make the host wait for a GPU"))
        yield Table(_LIKELY_COLUMNS, [asdict(wait) for wait in report.likely_waits])
        yield ""
        yield (
            "Counted by their calls, without a GPU: no time is known, and a tensor kept on the "
            "host does not wait."
        )
    else:
        yield (
            "Idle time, copies and waits need a run on a GPU, with ProfilerActivity.CUDA, where "
            "CUPTI is installed and permitted."
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


def _how_often(per_step: float | None, count: int) -> str:
    return number_of(count, "time", "times") if per_step is None else f"{per_step:.3g} a step"


_COST_COLUMNS = (
    Column(("seconds", "ms_per_step"), "cost", _cost, right=True),
    Column(("share",), "share", format_share, right=True),
)


_LIKELY_COLUMNS = (
    Column(("per_step", "count"), "how often", _how_often, right=True),
    Column(("file", "line", "function"), "line", "{}:{} ({})".format),
    Column(("call",), "call"),
    Column(("remedy",), "what to do", below=True),
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
    if any(wait.line is None for wait in report.waits):
        yield ""
        yield "Some waits have no line: `hostbench idle -- python SCRIPT` records them with theirs."
