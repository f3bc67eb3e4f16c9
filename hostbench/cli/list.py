"""`hostbench list`: the workloads, their axes, and their cases."""

from hostbench.cli.output import show, warn
from hostbench.cli.page import show_page
from hostbench.core.case import as_typed, typed_value
from hostbench.core.errors import EXIT_OK
from hostbench.families import broken, load
from hostbench.measure.workload import Workload
from hostbench.report.table import Cell, Column, Table

_COLUMNS = ("workload", "version", "cases", "quick", "axes", "question")


def execute(*, families: tuple[str, ...], cases: bool, format: str) -> int:
    """Print the workloads of the families named, or every case of them with `cases`."""
    works = load(families or None).values()
    for why in broken().values():
        warn(why)
    if format == "text":
        every = (as_typed(str(case)) for work in works for case in work.cases())
        show("\n".join(every if cases else map(_text, works)))
        return EXIT_OK
    rows = [row for work in works for row in _case_rows(work)] if cases else map(_row, works)
    names = ("case", "quick") if cases else _COLUMNS
    columns = tuple(Column(title=name, keys=(name,)) for name in names)
    table = Table(columns=columns, rows=tuple(rows))
    document = [_document(work, cases) for work in works]
    show_page(format, lambda: [table], document=lambda: document)
    return EXIT_OK


def _case_rows(work: Workload) -> list[tuple[Cell | str, ...]]:
    return [
        (Cell(as_typed(str(case)), (str(case),)), str(work.is_quick(case))) for case in work.cases()
    ]


def _row(work: Workload) -> tuple[Cell | str, ...]:
    """Name, version, how many cases, how many of them quick, axes, question."""
    cases = list(work.cases())
    counted = str(len(cases)), str(sum(map(work.is_quick, cases)))
    return work.name, work.version, *counted, "; ".join(_axes(work)), work.question


def _axes(work: Workload) -> list[str]:
    return [
        f"{name}: {', '.join(typed_value(name, value) for value in values)}"
        for name, values in work.axes.items()
    ]


def _text(work: Workload) -> str:
    name, version, cases, quick, *_ = _row(work)
    head = f"{name}  version {version}, {cases} cases, {quick} of them quick"
    about = work.question or "no docstring says what is measured"
    return "\n    ".join([head, about, *_axes(work)])


def _document(work: Workload, with_cases: bool) -> dict[str, object]:
    about: dict[str, object] = {
        "workload": work.name,
        "version": work.version,
        "question": work.question,
        "axes": {name: list(values) for name, values in work.axes.items()},
    }
    return {**about, "cases": [str(case) for case in work.cases()]} if with_cases else about
