"""One run as a page: what it is, the answers, a table of every case."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import pandas as pd

from hostbench import families
from hostbench.core import units
from hostbench.core.case import as_typed
from hostbench.core.clock import epoch_s
from hostbench.core.records import PROOF_FAILED, Run
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.core.units import number_of, one_line
from hostbench.facts.record import busy, text_of
from hostbench.facts.record import number_of as number_fact
from hostbench.families import declared
from hostbench.families.question import Rows, valid
from hostbench.report import write
from hostbench.report.answer import joined
from hostbench.report.blocks import Block, Chart, Column, Heading, Item, Page, Struck, Table, Title
from hostbench.report.picture import picture_of, small
from hostbench.report.questions import answers, rows_of
from hostbench.store.points import gpu_name
from hostbench.store.runs import facts_of

_RATE = "rate: bytes per step / time; 1 GB/s is 10^9 bytes a second"
_TERMS = (
    "device: between two events; none where a step waits (the host's time) or has its own streams",
    "async: 1 - call / end to end",
    "spread: quartiles over the median of the launches",
    "sizes: 1MiB is 2^20 bytes",
)
_FOLDED = ("skipped", "not measured")
"""Statuses of rows without any figure: their reason says all."""
DEVICES = {
    "cpu": "no GPU: CPU threads stand in, not CUDA",
    "simulated": "simulated: nothing here was measured",
}
"""Said once, over all figures: numbers that are no accelerator's."""


def page(rows: pd.DataFrame, run: Run) -> Page:
    """`rows` are the run's rows of the tidy frame: the whole run's, or those of some families."""
    return Page(
        blocks=lambda: list(blocks(rows, run)),
        table=lambda: _frame(rows),
        document=lambda: as_json(rows, run),
    )


def blocks(rows: pd.DataFrame, run: Run) -> Iterator[Block]:
    """What is skipped or was not measured is a line for each reason."""
    what, how = header(run)
    yield Title(f"{what} · {run.header.started_at[:16]}Z")
    yield f"{how} · run {run.run_id}"
    yield from run.disturbed_launches()
    if run.measured_launches < MIN_LAUNCHES:
        yield f"{few_launches(run.measured_launches)}: too few to decide what differs"
    read = rows_of(rows)
    for family, group in groupby(answers(read), key=attrgetter("family")):
        yield from ("", Heading(family))
        yield from _charts(family, read)
        unanswered: dict[str, list[str]] = {}
        for answer in group:
            if answer.state == "unavailable":
                unanswered.setdefault(answer.verdict, []).append(answer.question)
            else:
                yield from answer.blocks()
        for why, questions in unanswered.items():
            yield f"Not answered ({why}):"
            yield from map(Item, questions)
    is_folded = rows["status"].isin(_FOLDED)
    yield from ("", Heading("every case"))
    yield Table(_COLUMNS, list(map(_case, rows[~is_folded].to_dict("records"))))
    yield ""
    folded = Counter(rows.loc[is_folded, ["status", "reason"]].itertuples(index=False, name=None))
    for (status, reason), num in folded.items():
        yield f"{status} in {number_of(num, 'case')}: {reason}"
    if folded:
        yield from ("`hostbench report --format csv` names each of them", "")
    yield from _counts(rows)


def _charts(family: str, rows: Rows) -> Iterator[Chart]:
    """The pictures of a family, or of each of its workloads where it has none."""
    own = [row.with_axes(workload=row.workload) for row in valid(rows) if row.family == family]
    names = dict.fromkeys(row.workload for row in own)
    pictures = [picture for picture in families.pictures().values() if picture.workload in names]
    for picture in pictures or map(picture_of, names):
        yield Chart(picture.text, partial(small, picture, own, 260))


def as_json(rows: pd.DataFrame, run: Run) -> dict[str, Any]:
    """The same as plain values: run, answers, and one object per case. A case that is not `valid`
    may have numbers, of a copy that failed a proof: they count for nothing."""
    header = run.header
    cases = [
        {key: value for key, value in row.items() if value is not None and value == value}
        | {"valid": row["status"] == "ok"}
        for row in rows.drop(columns=["started_at", "committed_at"]).to_dict("records")
    ]
    answered = [
        {name: getattr(answer, name) for name in ("family", "question", "state", "verdict")}
        | {
            "figures": [
                {**asdict(figure), "note": "; ".join(figure.notes)} for figure in answer.figures
            ],
            "notes": [answer.at] if answer.at else [],
            "text": write.text(answer.blocks()),
        }
        for answer in answers(rows_of(rows))
    ]
    return {
        "run_id": run.run_id,
        "machine": header.machine,
        "commit": header.commit,
        "started_at": header.started_at,
        "scratch": header.scratch,
        "launches": header.launches,
        "measured_launches": run.measured_launches,
        "partial": not run.is_whole,
        "answers": answered,
        "cases": cases,
    }


def _frame(rows: pd.DataFrame) -> Table:
    """A row for each case, with the columns of the tidy frame."""

    def plain(cell: Any) -> Any:
        return json.dumps(cell) if isinstance(cell, dict | list) else cell

    cells = rows.map(plain).astype(object).where(rows.notna(), None)
    columns = tuple(Column((str(name),), str(name)) for name in rows)
    records: list[dict[str, Any]] = cells.to_dict("records")  # type: ignore[assignment]
    return Table(columns, records)


def tracebacks(run: Run) -> str:
    """Each traceback once, under the cases that failed with it."""
    cases_of: dict[str, dict[str, None]] = {}
    for (case, _), record in run.winners().items():
        if record.status == "failed" and record.measurement.traceback:
            cases_of.setdefault(record.measurement.traceback, {})[str(case)] = None
    lines = []
    for text, cases in cases_of.items():
        lines += [*cases, *(f"    {line}" for line in text.splitlines()), ""]
    return "\n".join(map(one_line, lines)) or "no case of this run failed with a traceback"


def header(run: Run) -> tuple[str, str]:
    """What ran where, and how: `shelf · NVIDIA H200 · torch 2.13.0 · driver 580.1` and `commit
    1a2b3c4d · 1 of 10 launches, partial, 70 s · machine quiet · quick: not in the history`."""
    header, facts = run.header, facts_of(run.facts_before)
    cores = number_fact(facts, "host", "num_usable_cores")
    cpu = text_of(facts, "host", "cpu_model") or "unknown CPU"
    gpu = gpu_name(facts) if header.device != "cpu" else None
    torch, driver = text_of(facts, "software", "torch"), text_of(facts, "nvml", "driver")
    what = (
        header.machine,
        gpu or (f"{cpu}, {number_of(int(cores), 'core')}" if cores else cpu),
        torch and f"torch {torch}",
        gpu and driver and f"driver {driver}",
        DEVICES.get(header.device),
    )
    last = run.finish.at if run.finish else run.records[-1].started_at if run.records else ""
    took_s = max(0.0, epoch_s(last) - epoch_s(header.started_at)) if last else 0.0
    # each case may have a number of its own: the most that any has
    planned = max(header.launches, run.measured_launches)
    of = f"{run.measured_launches} of " if run.measured_launches < planned else ""
    launches = f"{of}{planned} launch{'es' * (planned != 1)}{'' if run.is_whole else ', partial'}"
    how = (
        f"commit {header.commit[:8]}" if header.commit else "no commit",
        launches + (f", {took_s:.0f} s" if run.records else ""),
        "machine busy" if why_busy(run) else "machine quiet",
        header.scratch and f"{header.scratch}: not in the history",
    )
    return " · ".join(filter(None, what)), " · ".join(filter(None, how))


def why_busy(run: Run) -> str:
    """What disturbed the machine before or while it measured, else a launch; empty where nothing
    did."""
    why = busy(facts_of(run.facts_before), facts_of(run.facts.get("during", {})))
    return why or next(iter(run.disturbed_launches()), "")


_FIGURES = ("time", "device", "rate", "async", "spread")
_COLUMNS = (
    Column(("case",), "case", as_typed, code=True),
    *(Column((name,), name, right=True) for name in _FIGURES),
    Column(("note",), ""),
)


def _case(row: Mapping[Any, Any]) -> dict[str, str]:
    """In words. Of a time that counts for nothing there is only the time itself."""
    status, seconds = str(row["status"]), row["seconds"]
    notes = [row["flags"]] if isinstance(row["flags"], str) and row["flags"] else []
    if status != "ok":
        reason = str(row["reason"])
        notes.insert(0, reason if reason.startswith(PROOF_FAILED) else f"{status}: {reason}")
    words = dict.fromkeys(_FIGURES, "-")
    if not math.isnan(seconds):
        time = units.format_seconds(seconds)
        words["time"] = time if status == "ok" else Struck(time)
    if status == "ok" and seconds > 0:
        if not math.isnan(row["gb_per_s"]):
            words["rate"] = units.format_rate(row["gb_per_s"])
        if not math.isnan(row["device_s"]):
            words["device"] = units.format_seconds(row["device_s"])
        if not math.isnan(row["call_s"]):
            words["async"] = f"{1 - row['call_s'] / seconds:.2f}"
        if row["num_samples"] > 1:
            words["spread"] = units.format_share((row["q75_s"] - row["q25_s"]) / seconds)
    return {"case": row["case"], **words, "note": "; ".join(notes)}


def _counts(rows: pd.DataFrame) -> Iterator[str]:
    """How many cases of which status, what the columns mean, and each proof that could not be made,
    a line each."""
    counted = rows["status"].value_counts()
    words = ("ok", "skipped", "failed", "not measured")
    parts = [f"{counted[word]} {word}" for word in words if word in counted]
    yield f"{', '.join(parts)}."
    yield _RATE
    rated: dict[str, list[str]] = {}
    for work in map(declared, rows.loc[rows["gb_per_s"].notna(), "workload"].unique()):
        if work and work.rate_of:
            rated.setdefault(work.rate_of, []).append(work.name.partition(".")[2])
    for what, names in rated.items():
        yield f"rate of {joined(names)} counts {what}"
    yield from _TERMS
    not_proven = Counter(
        f"{name} {outcome}"
        for proofs in rows["proofs"]
        if isinstance(proofs, dict)
        for name, outcome in proofs.items()
        if str(outcome).startswith("unavailable")
    )
    for text, num in not_proven.items():
        yield f"Not proven in {number_of(num, 'case')}: {text}."
