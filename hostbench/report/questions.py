"""The questions of the families, asked of one run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hostbench import families
from hostbench.core import user_project
from hostbench.core.errors import UsageError
from hostbench.core.records import DAMAGE
from hostbench.measure.workload import Workload
from hostbench.report.answer import Answer
from hostbench.report.kinds import Compare, Question
from hostbench.report.rows import Row, valid

UNKNOWN = (
    "no such family is known here; ask in its own project, or name the folder of its workloads in "
    f"{user_project.WORKLOADS}"
)


def answers(rows: Sequence[Row]) -> list[Answer]:
    """Answers for one run's rows, family by family; families it holds no case of give none."""
    found: list[Answer] = []
    known = families.names()
    for family in dict.fromkeys([*known, *(row.family for row in rows)]):
        mine = [row for row in rows if row.family == family]
        if any(row.status != "not measured" for row in mine):
            own = _of_family(family, mine) if family in known else [_unasked(family, mine, UNKNOWN)]
            found += _counted(own, mine)
    return found


def left_out(rows: Sequence[Row], found: Iterable[Answer]) -> dict[str, list[str]]:
    """Family -> the questions of it that these rows hold no case of, or too few to ask it: those
    that a quick run leaves out. Without a family that has none of its cases in the rows."""
    answered = {(one.workload, one.template) for one in found}
    device = rows[0].device if rows else ""
    lacking: dict[str, list[str]] = {}
    for family in dict.fromkeys(row.family for row in rows if row.status != "not measured"):
        for one in _known(family):
            is_ours = not one.devices or device in one.devices
            if is_ours and (one.workload, one.text) not in answered:
                lacking.setdefault(family, []).append(one.text)
    return lacking


def _known(family: str) -> tuple[Question, ...]:
    """None of a family that is not here, and none of one that cannot say its own."""
    try:
        return asked(family) if family in families.names() else ()
    except UsageError:
        return ()


def asked(family: str) -> tuple[Question, ...]:
    """The family's own questions, then one about each workload that none of them asks about."""
    words = families.words(family)
    own: list[Question] = list(families.questions(family))
    covered = {name for one in own for name in (one.workload, *getattr(one, "also", ()))}
    for work in families.load((family,)).values():
        if work.name not in covered:
            own.append(Compare(text=_default(work), workload=work.name))
    if families.is_ours(family):
        return tuple(replace(one, words={**words, **one.words}) for one in own)
    # Of a project's own every question has a line on the first screen.
    return tuple(
        replace(one, words={**words, **one.words}, screen=one.screen or _short(one.workload))
        for one in own
    )


def _short(workload: str) -> str:
    return workload.partition(".")[2].replace("_", " ")


def _counted(found: Iterable[Answer], rows: Sequence[Row]) -> Iterator[Answer]:
    """With the fewest launches of each answer's workload."""
    for one in found:
        own = [len(row.launches) for row in valid(rows) if row.workload == one.workload]
        yield replace(one, launches=min(filter(None, own), default=None))


def _default(work: Workload) -> str:
    """`One copy. Timed: ...` asks `One copy: what do the choices cost?`, where there are some."""
    what = (work.question or work.name).partition(". ")[0].rstrip(".")
    choices = any(len(values) > 1 for axis, values in work.axes.items() if axis != "device")
    return f"{what}: what {'do the choices' if choices else 'does it'} cost?"


def _unasked(family: str, rows: Sequence[Row], why: str) -> Answer:
    """Of a family whose questions nobody can ask here."""
    return Answer(
        family=family,
        workload=rows[0].workload,
        question="What do its cases say?",
        verdict=why,
        state="unavailable",
    )


def _of_family(family: str, rows: Sequence[Row]) -> Iterator[Answer]:
    try:
        questions = asked(family)
    except UsageError as error:
        yield _unasked(family, rows, str(error))
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
