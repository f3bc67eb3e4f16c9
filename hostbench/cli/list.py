"""`hostbench list`: the workloads, their axes, and their cases."""

from hostbench.cli.output import show, show_page, warn
from hostbench.core.case import as_typed, typed_value
from hostbench.core.errors import EXIT_OK
from hostbench.families import broken, load
from hostbench.measure.workload import Workload
from hostbench.report.blocks import Column, Page, Table

_WORKLOADS = (
    *(Column((name,), name) for name in ("workload", "version")),
    *(Column((name,), name, right=True) for name in ("cases", "quick")),
    Column(("question",), "question"),
    Column(("axes",), "axes", below=True),
)
_CASES = (Column(("case",), "case", as_typed), Column(("quick",), "quick"))


def execute(*, families: tuple[str, ...], cases: bool, format: str) -> int:
    """Print the workloads of the families named, or every case of them with `cases`."""
    works = load(families or None).values()
    for why in broken().values():
        warn(why)
    table = Table(_WORKLOADS, [*map(_row, works)])
    if cases:
        every = [(str(case), work.options(case).quick) for work in works for case in work.cases()]
        if format == "text":
            show("\n".join(as_typed(case) for case, _ in every))
            return EXIT_OK
        table = Table(_CASES, [{"case": case, "quick": quick} for case, quick in every])
    show_page(format, Page(blocks=lambda: [table]))
    return EXIT_OK


def _row(work: Workload) -> dict[str, object]:
    cases = list(work.cases())
    axes = (
        f"{name}: {', '.join(typed_value(name, value) for value in values)}"
        for name, values in work.axes.items()
    )
    return {
        "workload": work.name,
        "version": work.version,
        "cases": len(cases),
        "quick": sum(work.options(case).quick for case in cases),
        "question": work.question or "no docstring says what is measured",
        "axes": "; ".join(axes),
    }
