"""One run as a page: what it is, the answer in words, a table of every case. Text or Markdown."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import pandas as pd

from hostbench.core import units
from hostbench.core.units import one_line
from hostbench.report.answer import Answer, Figure
from hostbench.report.questions import answers
from hostbench.report.rows import rows_of
from hostbench.report.table import aligned, piped, shown
from hostbench.store.runs import WholeRun

_RATE = (
    "rate = bytes per step / time: of one rank's buffer for all_reduce (algorithm bandwidth, not "
    "bus bandwidth), of both directions for both_ways"
)
WIDTH = 100
DEVICES = {"cpu": "cpu [no GPU]", "simulated": "simulated"}
"""Said once, over all figures: numbers that are no accelerator's."""
HEADINGS = ("case", "time", "rate", "async", "spread", "")


def page(rows: pd.DataFrame, run: WholeRun, *, markdown: bool = False) -> str:
    """`rows` are the run's rows of the tidy frame."""
    first, *rest = (shown(line, markdown) for line in (title(rows, run), *about(rows, run)))
    lines = [f"## {first}" if markdown else first, *rest]
    lines += (
        markdown_answers(answers(rows_of(rows)))
        if markdown
        else text_answers(answers(rows_of(rows)))
    )
    lines += ["", *_table(rows, markdown), "", counts(rows)]
    lines += [shown(line, markdown) for line in not_proven(rows)]
    return "\n".join(lines)


def text_answers(found: Sequence[Answer]) -> list[str]:
    """Question, verdict, figures; what cannot be seen is folded into a line for each reason."""
    lines = []
    for family, some in by_family(found):
        lines += ["", one_line(family)]
        for one in some:
            if one.state == "unavailable" and not has_figures(one):
                continue
            lines += [f"  {one_line(one.question)}", *_wrapped(one.verdict, 6)]
            more = [str(figure) for figure in one.figures if _adds(figure, one.verdict)]
            lines += _wrapped("; ".join(more), 10) if more else []
            lines += [line for note in one.notes for line in _wrapped(note, 10)]
        for why, questions in unanswered(some).items():
            lines += _wrapped(f"Not answered ({why}):", 2)
            lines += [line for text in questions for line in _wrapped(text, 6)]
    return lines


def _adds(figure: Figure, verdict: str) -> bool:
    """What the verdict says already is not said again; the table of cases has each skip."""
    if figure.status in ("skipped", "refused"):
        return figure.status == "refused" and str(figure.reason) not in verdict
    return str(figure) not in verdict


def markdown_answers(found: Sequence[Answer]) -> list[str]:
    lines = []
    for family, some in by_family(found):
        lines += ["", f"### {shown(family, True)}", ""]
        for one in some:
            if one.state == "unavailable" and not has_figures(one):
                continue
            lines.append(f"- **{shown(one.question, True)}** {shown(one.verdict, True)}")
            lines += [f"  - {shown(str(figure), True)}" for figure in one.figures]
            lines += [f"  - {shown(note, True)}" for note in one.notes]
        for why, questions in unanswered(some).items():
            lines.append(f"- Not answered ({shown(why, True)}): {shown(' '.join(questions), True)}")
    return lines


def by_family(found: Sequence[Answer]) -> Iterator[tuple[str, list[Answer]]]:
    for family, some in groupby(found, key=lambda one: one.family):
        yield family, list(some)


def has_figures(answer: Answer) -> bool:
    """Whether a number goes with it, even where it answers nothing."""
    return any(one.value is not None for one in answer.figures)


def unanswered(found: Sequence[Answer]) -> dict[str, list[str]]:
    """Reason -> the questions that have no answer for it."""
    grouped: dict[str, list[str]] = {}
    for one in found:
        if one.state == "unavailable" and not has_figures(one):
            grouped.setdefault(one.verdict, []).append(one.question)
    return grouped


def _wrapped(text: str, indent: int) -> list[str]:
    space = " " * indent
    return textwrap.wrap(one_line(text), WIDTH, initial_indent=space, subsequent_indent=space)


def as_json(rows: pd.DataFrame, run: WholeRun) -> dict[str, Any]:
    """The same as plain values: run, answers, and one object per case. A case that is not `valid`
    may have numbers, of a copy that failed a proof: they count for nothing."""
    header = run.header
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
        "answers": [_answer_json(one) for one in answers(rows_of(rows))],
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


def title(rows: pd.DataFrame, run: WholeRun) -> str:
    header = run.header
    hardware = next((str(h) for h in rows["hardware"].dropna()), "unknown hardware")
    device = DEVICES.get(header.device, header.device)
    return f"{header.machine} ({hardware}), device {device}, {header.started_at[:16]}Z"


def about(rows: pd.DataFrame, run: WholeRun) -> list[str]:
    header = run.header
    torch = next((f"torch {t}" for t in rows["torch"].dropna()), "torch unknown")
    driver = next((f", driver {d}" for d in rows["driver"].dropna()), "")
    commit = f"commit {header.commit[:8]}" if header.commit else "no commit"
    lines = [f"{commit}, {torch}{driver}, {header.launches} launches, run {run.run_id}"]
    if header.device == "simulated":
        lines.append("simulated: no figure here was measured")
    if header.scratch:
        lines.append(f"scratch ({header.scratch}): kept and shown, never judged, not given to asv")
    return lines


def _table(rows: pd.DataFrame, markdown: bool) -> list[str]:
    lines = [
        (shown(case, markdown), *figures, shown(note, markdown))
        for case, *figures, note in map(cells, rows.to_dict("records"))
    ]
    return piped(HEADINGS, lines) if markdown else aligned([HEADINGS, *lines])


def cells(row: dict[Any, Any]) -> tuple[str, ...]:
    status, seconds = str(row["status"]), row["seconds"]
    has_number = not math.isnan(seconds)
    note = str(row["flags"] or "") if isinstance(row["flags"], str) else ""
    if status != "ok":
        note = f"{status}: {row['reason']}" + (f"; {note}" if note else "")
    if not has_number:
        return (str(row["case"]), "-", "-", "-", "-", note)
    time = units.format_seconds(seconds)
    if status != "ok":  # what follows from a time that counts for nothing is not shown
        return (str(row["case"]), f"~~{time}~~", "-", "-", "-", note)
    return (
        str(row["case"]),
        time,
        "-" if math.isnan(row["gb_per_s"]) else units.format_rate(row["gb_per_s"]),
        "-" if math.isnan(row["call_s"]) or not seconds else f"{1 - row['call_s'] / seconds:.2f}",
        f"{(row['q75_s'] - row['q25_s']) / seconds:.1%}" if seconds else "-",
        note,
    )


def counts(rows: pd.DataFrame) -> str:
    counted = rows["status"].value_counts()
    words = ("ok", "skipped", "failed", "not measured")
    said = [f"{counted[word]} {word}" for word in words if word in counted]
    surprising = rows["flags"].fillna("").astype(str).str.contains("unexpected:", regex=False).sum()
    if surprising:
        said.append(f"{surprising} with an unexpected finding")
    return (
        f"{', '.join(said)}. {_RATE}; async = 1 - call / end to end; spread = quartiles over the "
        "median of the launches; a crossed-out time failed a proof and counts for nothing; sizes "
        "in MiB (2^20), rates in GB/s (10^9)."
    )


def not_proven(rows: pd.DataFrame) -> list[str]:
    """Each proof that could not be made, once with its reason and how many cases it concerns."""
    counted: dict[str, int] = {}
    for proofs in rows["proofs"]:
        for name, said in (proofs if isinstance(proofs, dict) else {}).items():
            if str(said).startswith("unavailable"):
                text = f"{name} {said}"
                counted[text] = counted.get(text, 0) + 1
    return [f"Not proven in {num} case{'s' * (num > 1)}: {text}." for text, num in counted.items()]
