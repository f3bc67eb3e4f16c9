"""`hostbench list`: the workloads, their axes, and their cases."""

from collections.abc import Iterable
from dataclasses import dataclass

from hostbench.cli.output import show, warn
from hostbench.cli.page import show_page
from hostbench.core.case import as_typed, typed_value
from hostbench.core.errors import EXIT_OK
from hostbench.families import broken, load
from hostbench.measure.workload import Workload
from hostbench.report.table import Cell, Column, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    families: tuple[str, ...]
    cases: bool
    format: str


def execute(options: ListOptions) -> int:
    """Print the workloads of the families named, or every case of them with --cases."""
    works = load(options.families or None).values()
    for why in broken().values():
        warn(why)
    if options.format == "text":
        cases = (as_typed(str(case)) for work in works for case in work.cases())
        show("\n".join(cases if options.cases else map(_as_text, works)))
        return EXIT_OK
    table = _table_of_cases(works) if options.cases else _table(works)
    show_page(
        options.format,
        lambda: [table],
        document=lambda: [_as_json(work, options.cases) for work in works],
    )
    return EXIT_OK


def _table_of_cases(works: Iterable[Workload]) -> Table:
    rows = [
        (Cell(as_typed(str(case)), (str(case),)), str(work.is_quick(case)))
        for work in works
        for case in work.cases()
    ]
    return Table(columns=_columns("case", "quick"), rows=tuple(rows))


def _table(works: Iterable[Workload]) -> Table:
    columns = _columns("workload", "version", "cases", "quick", "axes", "question")
    rows = ((*_counted(work), "; ".join(_axes(work)), work.question) for work in works)
    return Table(columns=columns, rows=tuple(rows))


def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(title=name, keys=(name,)) for name in names)


def _counted(work: Workload) -> tuple[str, str, str, str]:
    """Name, version, how many cases, how many of them quick."""
    cases = list(work.cases())
    return work.name, work.version, str(len(cases)), str(sum(map(work.is_quick, cases)))


def _axes(work: Workload) -> list[str]:
    return [
        f"{name}: {', '.join(typed_value(name, value) for value in values)}"
        for name, values in work.axes.items()
    ]


def _as_text(work: Workload) -> str:
    name, version, cases, quick = _counted(work)
    head = f"{name}  version {version}, {cases} cases, {quick} of them quick"
    about = work.question or "no docstring says what is measured"
    return "\n    ".join([head, about, *_axes(work)])


def _as_json(work: Workload, with_cases: bool) -> dict[str, object]:
    about: dict[str, object] = {
        "workload": work.name,
        "version": work.version,
        "question": work.question,
        "axes": {name: list(values) for name, values in work.axes.items()},
    }
    return {**about, "cases": [str(case) for case in work.cases()]} if with_cases else about
