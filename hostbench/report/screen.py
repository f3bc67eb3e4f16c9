"""The first screen: what a run says, on one page of 45 lines of 100 columns.

A header, what was learnt, a line for each question that asks for one (`Question.screen`), and
what else there is. Everything else is in `hostbench report`.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TextIO

import pandas as pd

from hostbench.core.case import as_typed
from hostbench.core.records import Run
from hostbench.core.units import format_factor, number_of, one_line
from hostbench.families.question import Row
from hostbench.report.answer import Answer, ScreenLine, factor
from hostbench.report.page import header, why_busy
from hostbench.report.questions import answers as answers_of
from hostbench.report.questions import rows_of
from hostbench.report.write import STYLES, StyledLine, draw

WIDTH = 100
MOST_LEARNT = 3
"""Effects named on each line of what was learnt."""
MOST_VERDICT = 30
"""Characters of a verdict that always have their place behind the figures."""
_LABEL = 15
"""Columns before the text of a last line."""


def screen(
    run: Run,
    frame: pd.DataFrame,
    footer: Sequence[tuple[str, str]],
    terminal: TextIO | None = None,
    command: str = "hostbench run",
) -> str:
    """The page as text; in colour where it is for a terminal. `frame`: the run's rows of the tidy
    frame; `footer`: (label, path or command) of the last lines, as long as they are; `command`
    measures all."""
    rows = rows_of(frame)
    answers = answers_of(rows)
    pairs = [*_rest(rows, answers)]
    if run.header.profile == "quick":
        pairs.append(("in a full run", f"more sizes and questions: {command}"))
    if why := why_busy(run):
        quiet = "on a quiet machine launches agree more, fewer are undecided"
        pairs.append(("busy", f"{why}: {quiet}"))
    learnt = [*_learnt([line for answer in answers for line in answer.lines])]
    table = [*_table(answers)]
    if not table and any(answer.state != "unavailable" for answer in answers):
        table = [StyledLine("The answers from these cases have no line here; `report` has them.")]
    lines = [
        *(StyledLine(_clipped(line)) for line in header(run)),
        StyledLine(""),
        *(learnt and [*learnt, StyledLine("")]),
        *table,
        StyledLine(""),
    ]
    for label, text in pairs:
        first, *more = textwrap.wrap(one_line(text), WIDTH - _LABEL, max_lines=2)
        lines.append(StyledLine(f"{label:<{_LABEL}}{first}", "bold", end=len(label)))
        lines += [StyledLine(" " * _LABEL + rest) for rest in more]
    for label, text in footer:
        lines.append(StyledLine(f"{label:<{_LABEL}}{text}", "bold", end=len(label)))
    return draw(lines, terminal)


def _clipped(text: str, width: int = WIDTH) -> str:
    """Within the page; figures differ by machine, and some are longer than foreseen."""
    text = one_line(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _learnt(lines: Sequence[ScreenLine]) -> Iterator[StyledLine]:
    """The largest established effects: what costs, what pays; a habit once, where it shows most."""
    known = [(line.habit, line.conclusion) for line in lines if line.habit and line.conclusion]
    if known and not any(conclusion.is_different for _, conclusion in known):
        text = "No difference between two habits is established by these launches."
        yield StyledLine(text, "bold")
    for label, verdict in (("Costs most:", "slower"), ("Pays most: ", "faster")):
        factors: dict[str, float] = {}
        for habit, conclusion in known:
            if conclusion.verdict == verdict:
                factors[habit] = max(factors.get(habit, 0.0), factor(conclusion))
        largest = sorted(factors, key=lambda habit: -round(factors[habit], 1))[:MOST_LEARNT]
        named = [one_line(f"{habit} {format_factor(factors[habit])}") for habit in largest]
        while len(f"{label} {' · '.join(named)}") > WIDTH and len(named) > 1:
            named.pop()
        if named:
            yield StyledLine(_clipped(f"{label} {' · '.join(named)}"), "bold")


def _table(answers: Sequence[Answer]) -> Iterator[StyledLine]:
    """A heading for each family, a row for each line."""
    lines = [line for answer in answers for line in answer.lines]
    first = max((len(line.what) for line in lines), default=0) + 4
    figures = max((len(line.figures) for line in lines if line.conclusion), default=0)
    verdicts = max((len(line.verdict) for line in lines), default=0)
    second = min(first + figures + 2, WIDTH - min(verdicts, MOST_VERDICT))
    for family, group in groupby(answers, key=attrgetter("family")):
        shown = [line for answer in group for line in answer.lines]
        if shown:
            yield StyledLine(family, "bold")
        for line in shown:
            verdict, known = line.verdict, line.conclusion
            start = f"  {line.what}".ljust(first) + line.figures
            is_long = len(start) + 2 + len(verdict) > WIDTH
            if is_long and known and known.verdict == "undecided":
                verdict = "undecided"  # a figure that is cut is worse than a reason left out
            verdict = _clipped(verdict, WIDTH // 2)
            start = _clipped(start, WIDTH - len(verdict) - 2)
            start = f"{start}  ".ljust(min(second, WIDTH - len(verdict)))
            style = STYLES.get(known.verdict, "") if known else ""
            yield StyledLine(start + verdict, style, len(start))


def _rest(rows: Sequence[Row], answers: Sequence[Answer]) -> Iterator[tuple[str, str]]:
    """What failed, what surprised, what cannot be seen here."""
    failed = [row for row in rows if row.status == "failed"]
    if failed:
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        yield "failed", f"{as_typed(failed[0].case)}: {failed[0].reason}{more}"
    surprising = [row for row in rows if "unexpected:" in (row.flags or "")]
    if surprising:
        yield "unexpected", f"{number_of(len(surprising), 'case')} did not do what is documented"
    without = [
        "; ".join(sorted({own.reason for own in answer.figures if own.reason})) or answer.verdict
        for answer in answers
        if answer.state == "unavailable"
    ]
    skips = [row.reason for row in rows if row.status == "skipped" and row.reason]
    for label, what, reasons in (
        ("not answered", "question", without),
        ("skipped", "case", [why for why in skips if why not in "; ".join(without)]),
    ):
        if reasons:
            most = Counter(reasons).most_common(1)[0][0]
            yield label, f"{number_of(len(reasons), what)}: {most}"
