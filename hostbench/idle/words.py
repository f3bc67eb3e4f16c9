"""What `hostbench idle` says: a page, a table, a document."""

from collections.abc import Iterator, Sequence

import pandas as pd

from hostbench.core.units import format_seconds, format_share, number_of
from hostbench.idle.causes import CAUSES
from hostbench.idle.recording import RecordedProcess
from hostbench.idle.report import MOSTLY, IdleReport, records
from hostbench.report.blocks import Block, Column, Heading, Table

_SHOWN = 8
_WORTH = 0.001
"""Of the span: less is left out of text."""


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
_CAUSE_COLUMNS = (*_COST_COLUMNS, Column(("cause",), "cause", lambda cause: CAUSES[cause]))
_REMEDY = Column(("remedy",), "what to do", below=True)
_DEVICE_COLUMNS = (
    Column(("rank",), "rank", right=True),
    Column(("device",), "GPU", right=True),
    Column(("idle_fraction",), "idle", format_share, right=True),
    Column(("span_s",), "span", format_seconds, right=True),
    Column(("busy_s",), "busy", format_seconds, right=True),
    Column(("file",), "trace"),
)
_LIKELY_COLUMNS = (
    Column(("per_step", "count"), "how often", _how_often, right=True),
    Column(("file", "line", "function"), "line", "{}:{} ({})".format),
    Column(("call",), "call"),
    _REMEDY,
)


def blocks(report: IdleReport, processes: Sequence[RecordedProcess] = ()) -> Iterator[Block]:
    """The page: of devices, and what recording them cost; else of the lines that would wait for
    one."""
    yield from report.warnings
    if not len(report.devices):
        yield from _likely_waits(report)
        return
    yield from _idleness(report)
    for process in processes[:1]:
        if process.free_s and process.recorded_s:
            free, recorded = format_seconds(process.free_s), format_seconds(process.recorded_s)
            yield (
                f"A step took {free} before the recording and {recorded} in it. The profiler slows "
                "the host: host late, launch-bound and slow launch are overestimated."
            )


def advice_table(advice: pd.DataFrame) -> Table:
    columns = (*_COST_COLUMNS, Column(("what",), "what"), _REMEDY)
    return Table(columns, records(advice))


def _likely_waits(report: IdleReport) -> Iterator[Block]:
    yield "The trace has no GPU work, so idle time cannot be seen."
    if not len(report.likely_waits):
        yield (
            "Idle time, copies and waits need a run on a GPU, with ProfilerActivity.CUDA, where "
            "CUPTI is installed and permitted. Without one, `hostbench idle -- python SCRIPT` "
            "names the lines that would wait for it."
        )
        return
    yield from ("", Heading("These lines would make the host wait for a GPU"))
    yield Table(_LIKELY_COLUMNS, records(report.likely_waits))
    yield ""
    yield (
        "Counted without a GPU: how long each would wait is not known, and a tensor that stays on "
        "the host does not wait."
    )


def _idleness(report: IdleReport) -> Iterator[Block]:
    yield _headline(report)
    if len(report.devices) > 1:
        yield Table(_DEVICE_COLUMNS, records(report.devices))
    yield from ("", Heading("Where the time goes"))
    yield Table(_CAUSE_COLUMNS, records(report.causes[report.causes["seconds"] > 0]))
    yield from ("", Heading("What to do, the worst first"))
    shown = report.advice[report.advice["share"] >= _WORTH][:_SHOWN]
    yield advice_table(shown) if len(shown) else f"Nothing costs {_WORTH:.1%} of the time."
    if num_left := len(report.advice) - len(shown):
        yield f"{num_left} more that cost less; --format json lists them"
    if report.waits["line"].isna().any():
        yield ""
        yield "Some waits have no line: `hostbench idle -- python SCRIPT` records them with theirs."


def _headline(report: IdleReport) -> str:
    span_s = report.devices["span_s"].sum()
    idle_s = span_s - report.devices["busy_s"].sum()
    idle = f"idle {format_share(idle_s / span_s if span_s else 0.0)} of"
    if len(report.devices) > 1:
        return f"{len(report.devices)} GPUs: {idle} their time."
    text = f"GPU {report.devices['device'].iloc[0]}: {idle} {format_seconds(span_s)}"
    if report.step_s is None or report.steps_share is None:
        return f"{text} (no steps are marked; profile.step() marks them)."
    steps = f"{number_of(report.num_steps, 'step')} of {format_seconds(report.step_s)}"
    if report.steps_share < MOSTLY:
        return f"{text}, of which {steps} are {report.steps_share:.1%}; costs are of all of it."
    return f"{text}: {steps}, {format_seconds(idle_s / report.num_steps)} idle per step."
