"""The questions of the families, asked of one run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hostbench import families
from hostbench.core import user_project
from hostbench.core.errors import UsageError
from hostbench.core.records import DAMAGE
from hostbench.measure.workload import Workload
from hostbench.report.answer import Answer
from hostbench.report.kinds import Compare, Question
from hostbench.report.rows import Row

UNKNOWN = (
    "no such family is known here; ask in its own project, or name the folder of its workloads in "
    f"{user_project.WORKLOADS}"
)


def answers(rows: Sequence[Row]) -> list[Answer]:
    """Answers for one run's rows, family by family; families it holds no case of give none."""
    names = dict.fromkeys([*families.names(), *(row.family for row in rows)])
    by_family = {name: [row for row in rows if row.family == name] for name in names}
    return [
        answer
        for family, own in by_family.items()
        if any(row.status != "not measured" for row in own)
        for answer in _of_family(family, own)
    ]


def asked(family: str) -> tuple[Question, ...]:
    """The family's own questions, then one about each workload that none of them asks about.

    Raises UsageError where the family is not known or its questions cannot be read.
    """
    if family not in families.names():
        raise UsageError(UNKNOWN)
    words, is_ours = families.words(family), families.is_ours(family)
    own: list[Question] = list(families.questions(family))
    covered = {name for ask in own for name in (ask.workload, *ask.also)}
    works = families.load((family,)).values()
    own += [Compare(text=_default(w), workload=w.name) for w in works if w.name not in covered]
    # Of a project's own every question has a line on the first screen.
    screens = ["" if is_ours else ask.workload.partition(".")[2].replace("_", " ") for ask in own]
    return tuple(
        replace(ask, words={**words, **ask.words}, screen=ask.screen or screen)
        for ask, screen in zip(own, screens, strict=True)
    )


def _default(work: Workload) -> str:
    """`One copy. Timed: ...` asks `One copy: what do the choices cost?`, where there are some."""
    what = (work.question or work.name).partition(". ")[0].rstrip(".")
    choices = any(len(values) > 1 for axis, values in work.axes.items() if axis != "device")
    return f"{what}: what {'do the choices' if choices else 'does it'} cost?"


def _of_family(family: str, rows: Sequence[Row]) -> Iterator[Answer]:
    try:
        questions = asked(family)
    except UsageError as error:
        about = Question(text="What do its cases say?", workload=rows[0].workload)
        yield about.made(about.text, "unavailable", str(error))
        return
    for question in questions:
        try:
            question.check()
            yield from question.answers(rows)
        except UsageError as error:
            yield question.made(question.text, "unavailable", f"cannot be asked: {error}")
        except (*DAMAGE, ArithmeticError, AssertionError) as error:
            # What is stored is not what hostbench writes.
            kind = type(error).__name__
            verdict = f"cannot be told: the stored rows are odd ({kind}: {error})"
            yield question.made(question.text, "unavailable", verdict)
