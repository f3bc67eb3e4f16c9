"""One run as a page: what it is, the answer in words, a table of every case. Text or Markdown."""

import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

import pandas as pd

from hostbench.core import units
from hostbench.core.case import as_typed
from hostbench.core.records import PROOF_FAILED
from hostbench.core.units import number_of, one_line
from hostbench.families import declared
from hostbench.report.answer import Answer, Figure, by_family, joined
from hostbench.report.questions import answers, left_out
from hostbench.report.rows import rows_of
from hostbench.report.table import Cell, Column, Part, Table, shown
from hostbench.report.table import markdown as as_markdown
from hostbench.report.table import text as as_text
from hostbench.store.runs import WholeRun, launches_in_words

_RATE = "rate: bytes per step / time; 1 GB/s is 10^9 bytes a second"
_TERMS = (
    "async: 1 - call / end to end",
    "spread: quartiles over the median of the launches",
    "sizes: 1MiB is 2^20 bytes",
)
_STRUCK = f"{PROOF_FAILED}: the time is crossed out and counts for nothing"
_FOLDED = ("skipped", "not measured")
"""Statuses of rows without any figure: told by their reason."""
NONE: Mapping[str, list[str]] = {}
WIDTH = 100
DEVICES = {"cpu": "cpu (no GPU: this says nothing about CUDA)", "simulated": "simulated"}
"""Said once, over all figures: numbers that are no accelerator's."""
_FIGURES = ("time", "rate", "async", "spread")
_COLUMNS = (
    Column(title="case", keys=("case",), code=True),
    *(Column(title=name, keys=(name,), right=True) for name in _FIGURES),
    Column(title="", keys=("note",)),
)


def page(
    rows: pd.DataFrame, run: WholeRun, *, markdown: bool = False, terminal: TextIO | None = None
) -> str:
    """`rows` are the run's rows of the tidy frame. The table of cases is as wide as the terminal,
    and coloured, where there is one."""
    head: list[Part] = [title(rows, run), *about(rows, run)]
    told = table(rows[~rows["status"].isin(_FOLDED)])
    cases: list[Part] = ["", told, "", *folded(rows), *counts(rows), *not_proven(rows)]
    found, lacking = asked_of(rows, run)
    if markdown:
        said = [f"## {as_markdown(head)}", *markdown_answers(found, lacking), as_markdown(cases)]
    else:
        said = [as_text(head), *text_answers(found, lacking), as_text(cases, terminal)]
    return "\n".join(said)


def asked_of(rows: pd.DataFrame, run: WholeRun) -> tuple[list[Answer], Mapping[str, list[str]]]:
    """The answers, and of a quick run by family the questions that it leaves out."""
    records = rows_of(rows)
    found = answers(records)
    return found, left_out(records, found) if run.header.profile == "quick" else {}


def text_answers(found: Sequence[Answer], lacking: Mapping[str, list[str]] = NONE) -> list[str]:
    """Question, verdict, figures; what cannot be seen is folded into a line for each reason."""
    lines = []
    for family, told, untold in by_family(found):
        lines += ["", one_line(family)]
        for one in told:
            lines += [f"  {one_line(one.question)}", *_wrapped(one.verdict, 6)]
            more = [str(figure) for figure in one.figures if _adds(figure, one.verdict)]
            lines += _wrapped("; ".join(more), 10) if more else []
            lines += [line for note in one.notes for line in _wrapped(note, 10)]
        for why, questions in untold.items():
            lines += _wrapped(f"Not answered ({why}):", 2)
            lines += [line for text in questions for line in _wrapped(text, 6)]
        if family in lacking:
            lines.append(f"  {in_a_full_run(family, lacking)}")
    return lines


def in_a_full_run(family: str, lacking: Mapping[str, list[str]]) -> str:
    num = number_of(len(lacking[family]), "question")
    return f"{num} more in a full run: hostbench run {family}"


def _adds(figure: Figure, verdict: str) -> bool:
    """What the verdict says already is not said again; the table of cases has each skip."""
    if figure.status == "skipped":
        return False
    if figure.status in ("refused", "undecided"):
        return figure.reason is not None and figure.reason not in verdict
    return str(figure) not in verdict


def markdown_answers(found: Sequence[Answer], lacking: Mapping[str, list[str]] = NONE) -> list[str]:
    lines = []
    for family, told, untold in by_family(found):
        lines += ["", f"### {shown(family, True)}", ""]
        for one in told:
            lines.append(f"- **{shown(one.question, True)}** {shown(one.verdict, True)}")
            lines += [f"  - {shown(said, True)}" for said in (*map(str, one.figures), *one.notes)]
        for why, questions in untold.items():
            lines.append(f"- Not answered ({shown(why, True)}): {shown(' '.join(questions), True)}")
        if family in lacking:
            lines.append(f"- {shown(in_a_full_run(family, lacking), True)}")
    return lines


def _wrapped(text: str, indent: int) -> list[str]:
    space = " " * indent
    return textwrap.wrap(one_line(text), WIDTH, initial_indent=space, subsequent_indent=space)


def as_json(rows: pd.DataFrame, run: WholeRun) -> dict[str, Any]:
    """The same as plain values: run, answers, and one object per case. A case that is not `valid`
    may have numbers, of a copy that failed a proof: they count for nothing."""
    header = run.header
    found, lacking = asked_of(rows, run)
    cases = [
        {key: value for key, value in row.items() if not _missing(value)}
        | {"valid": row["status"] == "ok"}
        for row in rows.drop(columns=["started_at", "committed_at"]).to_dict("records")
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
        "answers": [_answer_json(one) for one in found],
        "not_asked": lacking,
        "cases": cases,
    }


def _answer_json(one: Answer) -> dict[str, Any]:
    """The record, with `text`: all of it in words."""
    said = [one.verdict, *map(str, one.figures), *one.notes]
    figures = [{**asdict(figure), "text": str(figure)} for figure in one.figures]
    return {
        "family": one.family,
        "question": one.question,
        "state": one.state,
        "verdict": one.verdict,
        "figures": figures,
        "notes": list(one.notes),
        "text": "; ".join(said),
    }


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def tracebacks(run: WholeRun) -> str:
    """Each traceback once, under the cases that failed with it."""
    found: dict[str, dict[str, None]] = {}
    for (case, _), record in run.winners().items():
        if record.status == "failed" and record.measurement.traceback:
            found.setdefault(record.measurement.traceback, {})[str(case)] = None
    lines = []
    for text, cases in found.items():
        lines += [*cases, *(f"    {line}" for line in text.splitlines()), ""]
    return "\n".join(map(one_line, lines)) or "no case of this run failed with a traceback"


def title(rows: pd.DataFrame, run: WholeRun) -> str:
    header = run.header
    hardware = next((str(h) for h in rows["hardware"].dropna()), "unknown hardware")
    device = DEVICES.get(header.device, header.device)
    return f"{header.machine} ({hardware}), device {device}, {header.started_at[:16]}Z"


def about(rows: pd.DataFrame, run: WholeRun) -> list[str]:
    header = run.header
    torch = next((f"torch {t}" for t in rows["torch"].dropna()), "torch unknown")
    driver = next((f", driver {d}" for d in rows["driver"].dropna()), "")
    commit = f"commit {header.commit[:8]}" if header.commit else "commit unknown"
    launches = launches_in_words(header.launches, run.measured_launches, run.is_whole)
    lines = [f"{commit}, {torch}{driver}, {launches}, run {run.run_id}"]
    if header.device == "simulated":
        lines.append("simulated: no figure here was measured")
    if header.scratch:
        lines.append(f"scratch ({header.scratch}): kept and shown, never judged, not given to asv")
    return lines


def table(rows: pd.DataFrame) -> Table:
    """A row for each case."""
    return Table(columns=_COLUMNS, rows=tuple(map(_cells, rows.to_dict("records"))))


def _cells(row: dict[Any, Any]) -> tuple[str | Cell, ...]:
    """Of a time that counts for nothing only the time itself, crossed out."""
    status, seconds = str(row["status"]), row["seconds"]
    note = row["flags"] if isinstance(row["flags"], str) else ""
    if status != "ok":
        reason = str(row["reason"])
        said = reason if reason.startswith(PROOF_FAILED) else f"{status}: {reason}"
        note = said + (f"; {note}" if note else "")
    time = "-" if math.isnan(seconds) else units.format_seconds(seconds)
    case = Cell(as_typed(str(row["case"])), (row["case"],))
    if status != "ok" or not seconds > 0:
        struck = status != "ok" and time != "-"
        return case, Cell(time, (time,), struck), "-", "-", "-", note
    return (
        case,
        time,
        "-" if math.isnan(row["gb_per_s"]) else units.format_rate(row["gb_per_s"]),
        "-" if math.isnan(row["call_s"]) else f"{1 - row['call_s'] / seconds:.2f}",
        "-" if row["num_samples"] < 2 else f"{(row['q75_s'] - row['q25_s']) / seconds:.1%}",
        note,
    )


def folded(rows: pd.DataFrame) -> list[str]:
    """What has no figure, a line for each reason."""
    without = rows[rows["status"].isin(_FOLDED)]
    counted = Counter(zip(without["status"], without["reason"], strict=True))
    said = [
        f"{status} in {number_of(num, 'case')}: {reason}"
        for (status, reason), num in counted.items()
    ]
    return [*said, "`hostbench report --format csv` names each of them", ""] if said else []


def counts(rows: pd.DataFrame) -> list[str]:
    """How many cases of which status, and what the columns mean, a line each."""
    counted = rows["status"].value_counts()
    words = ("ok", "skipped", "failed", "not measured")
    said = [f"{counted[word]} {word}" for word in words if word in counted]
    surprising = rows["flags"].fillna("").astype(str).str.contains("unexpected:", regex=False).sum()
    if surprising:
        said.append(f"{surprising} with an unexpected finding")
    struck = ((rows["status"] == "failed") & rows["seconds"].notna()).any()
    return [f"{', '.join(said)}.", *_terms(rows), *([_STRUCK] if struck else [])]


def _terms(rows: pd.DataFrame) -> list[str]:
    """What the columns of figures mean; of a rate also what bytes these workloads count, a line
    each."""
    shown = rows[rows["gb_per_s"].notna()]
    names: dict[str, list[str]] = {}
    for work in map(declared, shown["workload"].unique()):
        if work and work.rate_of:
            names.setdefault(work.rate_of, []).append(work.name.partition(".")[2])
    said = [f"rate of {joined(counted)} counts {what}" for what, counted in names.items()]
    return [_RATE, *said, *_TERMS]


def not_proven(rows: pd.DataFrame) -> list[str]:
    """Each proof that could not be made, once with its reason and how many cases it concerns."""
    counted = Counter(
        f"{name} {said}"
        for proofs in rows["proofs"]
        if isinstance(proofs, dict)
        for name, said in proofs.items()
        if str(said).startswith("unavailable")
    )
    return [f"Not proven in {number_of(num, 'case')}: {text}." for text, num in counted.items()]
