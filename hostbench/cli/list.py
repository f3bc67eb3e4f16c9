"""`hostbench list`: the workloads, their axes, and their cases."""

from hostbench.cli.output import show, warn
from hostbench.cli.page import show_page
from hostbench.core.case import as_typed, typed_value
from hostbench.core.errors import EXIT_OK
from hostbench.families import broken, load
from hostbench.measure.workload import Workload
from hostbench.report.blocks import Column, Page, Table


def execute(*, families: tuple[str, ...], cases: bool, format: str) -> int:
    """Print the workloads of the families named, or every case of them with `cases`."""
    works = load(families or None).values()
    for why in broken().values():
        warn(why)
    if format == "text":
        every = (as_typed(str(case)) for work in works for case in work.cases())
        show("\n".join(every if cases else map(_text, works)))
        return EXIT_OK
    if cases:
        rows = [
            {"case": str(case), "quick": work.is_quick(case)}
            for work in works
            for case in work.cases()
        ]
        table = Table((Column(("case",), "case", as_typed), Column(("quick",), "quick")), rows)
    else:
        table = Table(_COLUMNS, list(map(_row, works)))
    document = [_document(work, cases) for work in works]
    show_page(format, Page(blocks=lambda: [table], document=lambda: document))
    return EXIT_OK


_COLUMNS = tuple(
    Column((name,), name) for name in ("workload", "version", "cases", "quick", "axes", "question")
)


def _row(work: Workload) -> dict[str, object]:
    cases = list(work.cases())
    return {
        "workload": work.name,
        "version": work.version,
        "cases": len(cases),
        "quick": sum(map(work.is_quick, cases)),
        "axes": "; ".join(_axes(work)),
        "question": work.question,
    }


def _axes(work: Workload) -> list[str]:
    return [
        f"{name}: {', '.join(typed_value(name, value) for value in values)}"
        for name, values in work.axes.items()
    ]


def _text(work: Workload) -> str:
    row = _row(work)
    head = (
        f"{work.name}  version {work.version}, {row['cases']} cases, {row['quick']} of them quick"
    )
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
