"""The report of one or several traces: devices, causes, waits by line, copies, and advice."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

from hostbench.idle import advice
from hostbench.idle.causes import CAUSES, COPY_NOT_HIDDEN, ProcessTime, process_time
from hostbench.idle.intervals import union
from hostbench.idle.trace import COPY, LINE, NONE, Trace

MOSTLY = 0.9
"""Of the time: if the steps take less, what a step costs is not told."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdleReport:
    """Of all traces together. Without devices it has only what the host did.

    A cost is `seconds` of devices, which add up over them; `ms_per_step`, none where no steps are
    marked, or they are only a part of the time; and `share`, of the spans of all devices. A line is
    `file`, `line` and `function`, none where the trace lacks it.
    """

    devices: pd.DataFrame = field(default_factory=pd.DataFrame)
    """device, rank, file; span_s, from first activity to last end; busy_s; idle_fraction."""
    num_steps: int = 0
    """Steps times devices: what a cost per step is divided by. 0: no steps are marked."""
    step_s: float | None = None
    """How long a marked step lasts on the host, on average."""
    steps_share: float | None = None
    """Of the spans, what the steps take until devices are done with what is launched in them."""
    causes: pd.DataFrame = field(default_factory=pd.DataFrame)
    """cause, is_idle, and its cost. Those that are idle add up to the idle time; in the others the
    device copied, and computed nothing."""
    waits: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Lines at which the host waits for a device, the costliest first: the line, call, count;
    num_in_steps, how many of them lie in marked steps; seconds that the host waited; idle_s, that
    devices idled for it; nbytes, of copies from pageable memory that were called with non_blocking,
    and wait all the same, 0 for all other waits."""
    copies: pd.DataFrame = field(default_factory=pd.DataFrame)
    """By way (`H2D pageable`): count, nbytes, seconds; not_hidden_s, with nothing computed."""
    advice: pd.DataFrame = field(default_factory=pd.DataFrame)
    """what costs time, the remedy, and the cost; the worst first."""
    likely_waits: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Lines that would wait for a GPU, as a run without one shows, the most frequent first: the
    line, call, count; per_step, none where no steps are marked; remedy."""
    warnings: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        values = {column.name: getattr(self, column.name) for column in fields(self)}
        return {
            name: records(value) if isinstance(value, pd.DataFrame) else value
            for name, value in values.items()
        }


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Its rows; what is missing is None."""
    rows: Any = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return list(rows)


def idle_report(traces: Sequence[Trace]) -> IdleReport:
    """What the traces say together; without work of a device, which lines would wait for one."""
    warnings = tuple(text for trace in traces for text in trace.warnings)
    processes = [process_time(trace) for trace in traces if len(trace.work)]
    if not processes:
        return IdleReport(likely_waits=_likely_waits(traces), warnings=warnings)
    devices = pd.concat([process.devices for process in processes])
    devices["span_s"] = devices["end_s"] - devices["start_s"]
    idle_s, span_s = devices["span_s"] - devices["busy_s"], devices["span_s"].sum()
    devices["idle_fraction"] = (idle_s / devices["span_s"]).clip(lower=0).fillna(0)
    num_steps = num_device_steps = 0
    step_s = steps_share = None
    if all(len(process.trace.steps.starts) for process in processes):
        for process in processes:
            num_steps += len(process.trace.steps.starts)
            num_device_steps += len(process.trace.steps.starts) * len(process.devices)
        step_s = sum(process.trace.steps.length for process in processes) / num_steps
        steps_share = sum(map(_covered_s, processes)) / span_s if span_s else 0.0

    def with_costs(rows: pd.DataFrame) -> pd.DataFrame:
        """The costliest first."""
        rows = rows.sort_values("seconds", ascending=False, kind="stable")
        is_per_step = steps_share is not None and steps_share >= MOSTLY
        per_step = rows["seconds"] * 1e3 / num_device_steps if is_per_step else None
        share = rows["seconds"] / span_s if span_s else 0.0
        return rows.assign(ms_per_step=per_step, share=share)

    idle = pd.concat([process.idle for process in processes])
    work = pd.concat([process.work for process in processes])
    waits = _by_line(pd.concat([process.waits for process in processes]))
    copies = _by_way(work[work["kind"] == COPY])
    causes = idle.groupby("cause")["seconds"].sum().reindex([*CAUSES], fill_value=0.0)
    causes[COPY_NOT_HIDDEN] = devices["copy_s"].sum()
    rows = causes.rename_axis("cause").reset_index()
    items = [
        *(advice.of_wait(wait, num_steps) for wait in records(waits)),
        *advice.of_copies(records(copies), devices["collective_s"].sum()),
        *advice.of_idleness(idle, work),
    ]
    costly = pd.DataFrame(items, columns=["seconds", "what", "remedy"])
    return IdleReport(
        devices=devices[["device", "rank", "file", "span_s", "busy_s", "idle_fraction"]],
        num_steps=num_device_steps,
        step_s=step_s,
        steps_share=steps_share,
        causes=with_costs(rows.assign(is_idle=rows["cause"] != COPY_NOT_HIDDEN)),
        waits=waits,
        copies=copies,
        advice=with_costs(costly[costly["seconds"] > 0]),
        warnings=warnings,
    )


def _covered_s(process: ProcessTime) -> float:
    """Of the devices' spans, what the steps take until devices are done with what each launched."""
    steps, work = process.trace.steps, process.work[process.work["call"] != NONE]
    step = steps.index_of(process.trace.calls["start_s"].to_numpy()[work["call"]])
    done_s = steps.ends.copy()
    np.maximum.at(done_s, step[step >= 0], work["end_s"].to_numpy()[step >= 0])
    covered, _ = union(pd.DataFrame({"start_s": steps.starts, "end_s": done_s}))
    return float(covered.within(process.devices["start_s"], process.devices["end_s"]).sum())


def _by_line(waits: pd.DataFrame) -> pd.DataFrame:
    """And by call; copies apart."""
    keys = [*LINE, "call", "is_copy"]
    sums = waits.assign(is_copy=waits["nbytes"] > 0).groupby(keys, dropna=False, sort=False)
    table = sums.agg(
        count=("seconds", "size"),
        num_in_steps=("in_step", "sum"),
        seconds=("seconds", "sum"),
        idle_s=("idle_s", "sum"),
        nbytes=("nbytes", "sum"),
    ).sort_values(["idle_s", "seconds"], ascending=False)
    return table.droplevel("is_copy").reset_index().astype({"line": "Int64"})


def _by_way(copies: pd.DataFrame) -> pd.DataFrame:
    table = copies.groupby("name", sort=False).agg(
        count=("seconds", "size"),
        nbytes=("nbytes", "sum"),
        seconds=("seconds", "sum"),
        not_hidden_s=("not_hidden_s", "sum"),
    )
    return table.rename_axis("way").reset_index()


def _likely_waits(traces: Sequence[Trace]) -> pd.DataFrame:
    """In the steps, where some are marked."""
    num_steps = sum(len(trace.steps.starts) for trace in traces)
    marks = pd.concat(
        [trace.marks.assign(step=trace.steps.index_of(trace.marks["start_s"])) for trace in traces]
    )
    marks = marks[(marks["call"] != "") & ((marks["step"] != NONE) | (num_steps == 0))]
    table = marks.groupby([*LINE, "call"], sort=False).size().rename("count")
    rows = table.sort_values(ascending=False, kind="stable").reset_index()
    return rows.assign(
        per_step=rows["count"] / num_steps if num_steps else None,
        remedy=rows["call"].map(advice.remedy_of),
    )
