"""The questions of the families, asked of one run."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import pandas as pd

from hostbench import families
from hostbench.core import user_project
from hostbench.core.case import Case, counts_bytes, read_case
from hostbench.core.errors import UsageError
from hostbench.core.records import DAMAGE
from hostbench.families import question as kinds
from hostbench.families.question import Compare, Question, Row, Rows, valid, where
from hostbench.report import answer as base
from hostbench.report.answer import Answer
from hostbench.report.kinds import compare, curve, finding, parts

UNKNOWN = (
    "no such family is known here; ask in its own project, or name the folder of its workloads in "
    f"{user_project.WORKLOADS}"
)
_ANSWERS: Mapping[type[Question], Callable[[Any, Rows, Rows], Answer]] = {
    Compare: compare.answer,
    kinds.Scaling: compare.answer,
    kinds.Best: compare.best,
    kinds.Curve: curve.answer,
    kinds.Finding: finding.answer,
    kinds.Parts: parts.answer,
}
"""From the cases of one group, at least one of which has a valid number, and the family's rows."""
_CELLS = {cell.name for cell in fields(Row)} - {"family", "workload", "axes"}


def rows_of(frame: pd.DataFrame, read: Callable[[str], Case | None] = read_case) -> list[Row]:
    """The rows of the tidy frame whose case can be read; what the frame does not know, or knows as
    no finite number, is as Row has it."""
    rows = []
    for cells in frame[[name for name in frame if name in _CELLS]].to_dict("records"):
        case = read(str(cells["case"]))
        if case is None:
            continue
        known: dict[str, Any] = {
            str(name): cell
            for name, cell in cells.items()
            if cell is not None and not (isinstance(cell, float) and not math.isfinite(cell))
        }
        axes = {name: value for name, value in case.values.items() if name != "device"}
        known["device"] = str(known.get("device", case.values.get("device")))
        rows.append(Row(**known, family=case.family, workload=case.workload, axes=axes))
    return rows


def answers(rows: Rows) -> list[Answer]:
    """Answers for one run's rows, family by family; families it holds no case of give none."""
    names = dict.fromkeys([*families.known(), *(row.family for row in rows)])
    by_family = {name: [row for row in rows if row.family == name] for name in names}
    return [
        answer
        for family, group in by_family.items()
        if any(row.status != "not measured" for row in group)
        for answer in _of_family(family, group)
    ]


def asked(family: str) -> tuple[Question, ...]:
    """The family's own questions, then one about each workload that none of them asks about.

    Raises UsageError where the family is not known or its questions cannot be read.
    """
    if family not in families.known():
        raise UsageError(UNKNOWN)
    words, is_ours = families.words(family), families.known()[family].is_ours
    questions: list[Question] = list(families.questions(family))
    covered = {name for ask in questions for name in (ask.workload, *ask.also)}
    works = families.load((family,)).values()
    for work in works:
        if work.name not in covered:  # `One copy. Timed: ...` asks what its choices cost
            what = (work.question or work.name).partition(". ")[0].rstrip(".")
            questions.append(Compare(text=f"{what}: what does it cost?", workload=work.name))
    for number, ask in enumerate(questions):
        screen = ask.screen
        if not is_ours:  # of a project's own every question has a line on the first screen
            screen = screen or ask.workload.partition(".")[2].replace("_", " ")
        questions[number] = replace(ask, words={**words, **ask.words}, screen=screen)
    return tuple(questions)


def _of_family(family: str, rows: Sequence[Row]) -> Iterator[Answer]:
    try:
        questions = asked(family)
    except UsageError as error:
        about = Question(text="What do its cases say?", workload=rows[0].workload)
        yield base.made(about, "unavailable", str(error))
        return
    for question in questions:
        try:
            check(question)
            yield from answers_to(question, rows)
        except UsageError as error:
            yield base.made(question, "unavailable", f"cannot be asked: {error}")
        except (*DAMAGE, ArithmeticError, AssertionError) as error:
            # What is stored is not what hostbench writes.
            why = f"cannot be told: the stored rows are odd ({type(error).__name__}: {error})"
            yield base.made(question, "unavailable", why)


def answers_to(ask: Question, rows: Rows) -> Iterator[Answer]:
    """One answer for each group of the run's cases; none where the run holds no such case. `rows`
    are those of the whole family, to which `select` may add."""
    names, selected = (ask.workload, *ask.also), ask.select(rows) if ask.select else rows
    rows = [*selected, *rows] if ask.select else rows
    mine = [
        row.with_axes(workload=row.workload) if ask.also else row
        for row in selected
        if row.workload in names and (not ask.devices or row.device in ask.devices)
    ]
    for values, group in base.grouped(where(mine, **ask.where), ask.each):
        if _is_asked(ask, group, rows):
            answer = _ANSWERS[type(ask)] if valid(group) else base.unavailable
            yield answer(replace(ask, text=ask.fill(ask.text, values)), group, rows)


def _is_asked(ask: Question, group: Rows, rows: Rows) -> bool:
    """Whether the cases of a group are enough for the question to make sense: a quick run holds one
    size, and no curve."""
    differ = base.varying(group)
    match ask:
        case kinds.Curve():
            return base.size_axis(group) in differ
        case kinds.Parts():
            needed = {ask.serial} if isinstance(ask.serial, str) else {*ask.parts}
            return needed <= {row.axes.get(ask.axis) for row in group}
        case Compare():
            needed = {*(ask.claim or ()), *(ask.baseline or ())}
            if isinstance(ask, kinds.Scaling) or (ask.over and ask.claim):
                needed.add(ask.over)
            if ask.over and ask.beside:
                return bool(compare.pairs_of(ask, group, rows))
            has_work = compare.with_work(ask, group)  # one rank has no rate
            return needed <= {*differ} and bool(has_work or len(valid(group)) < len(group))
    return True


def check(ask: Question) -> None:
    """Raises UsageError where a name is none of the workloads'."""
    names = (ask.workload, *ask.also)
    alone = [*ask.each, *getattr(ask, "axes", ()), getattr(ask, "over", "")]
    chosen: dict[str, Any] = {axis: () for axis in alone if axis}
    for choices in (ask.where, getattr(ask, "baseline", None), getattr(ask, "claim", None)):
        chosen |= choices or {}
    for workload in names:
        work = families.declared(workload)
        if work is None:
            raise UsageError(f"{ask.text!r} asks about {workload!r}, which is not a workload")
        if isinstance(ask, kinds.Curve) and not any(map(counts_bytes, work.axes)):
            raise UsageError(f"{ask.text!r} needs sizes: {work.name} has no axis ...bytes")
        known = {**work.axes, **({"workload": names} if ask.also else {})}
        for axis, value in () if ask.select else chosen.items():  # which may give more axes
            if axis not in known:
                axes = ", ".join(known)
                raise UsageError(f"{ask.text!r} names the axis {axis!r}; there are: {axes}")
            for choice in value if isinstance(value, tuple) else (value,):
                if choice not in known[axis]:
                    there = ", ".join(map(str, known[axis]))
                    raise UsageError(f"{ask.text!r}: {axis} is never {choice!r}, it is {there}")
