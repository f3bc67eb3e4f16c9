"""`hostbench list`: the workloads, their axes, and their cases."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hostbench.cli.output import warn
from hostbench.cli.page import show_page
from hostbench.core.case import AxisValue, as_typed, typed_value
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
    table = _cases(works) if options.cases else _table(works)
    if options.format == "text":
        lines = (as_typed(str(case)) for work in works for case in work.cases())
        print("\n".join(lines if options.cases else map(_as_text, works)))
    else:
        show_page(
            options.format,
            lambda: [table],
            document=lambda: [_as_json(one, options.cases) for one in works],
        )
    return EXIT_OK


def _cases(works: Iterable[Workload]) -> Table:
    rows = [
        (Cell(as_typed(str(case)), (str(case),)), str(work.is_quick(case)))
        for work in works
        for case in work.cases()
    ]
    return Table(columns=_columns("case", "quick"), rows=tuple(rows))


def _table(works: Iterable[Workload]) -> Table:
    names = ("workload", "version", "cases", "quick", "axes", "question", "nvbandwidth")
    return Table(columns=_columns(*names), rows=tuple(map(_row, works)))


def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(title=name, keys=(name,)) for name in names)


def _row(work: Workload) -> tuple[str | Cell, ...]:
    axes = Cell("; ".join(_axes(work)), ("; ".join(_axes(work, lambda _, value: str(value))),))
    return (*_head(work), axes, work.question, _same_in_nvbandwidth(work) or "")


def _head(work: Workload) -> tuple[str, str, str, str]:
    """Name, version, how many cases, how many of them quick."""
    cases = list(work.cases())
    quick = sum(work.is_quick(case) for case in cases)
    return work.name, work.version, str(len(cases)), str(quick)


def _axes(work: Workload, written: Callable[[str, AxisValue], str] = typed_value) -> list[str]:
    return [
        f"{name}: {', '.join(written(name, value) for value in values)}"
        for name, values in work.axes.items()
    ]


def _as_text(work: Workload) -> str:
    name, version, cases, quick = _head(work)
    said = work.question or "no docstring says what is measured"
    peer = _same_in_nvbandwidth(work)
    about = [said, *_axes(work), *([f"nvbandwidth: {peer}"] if peer else [])]
    head = f"{name}  version {version}, {cases} cases, {quick} of them quick"
    return "\n    ".join([head, *about])


def _as_json(work: Workload, with_cases: bool) -> dict[str, object]:
    about: dict[str, object] = {
        "workload": work.name,
        "version": work.version,
        "question": work.question,
        "axes": {name: list(values) for name, values in work.axes.items()},
        "nvbandwidth": _same_in_nvbandwidth(work),
    }
    if with_cases:
        about["cases"] = [str(case) for case in work.cases()]
    return about


def _same_in_nvbandwidth(work: Workload) -> str | None:
    """The test of nvbandwidth that measures the same, and our axes for it, or None."""
    for test, axes in work.nvbandwidth.items():
        chosen = ",".join(f"{axis}={value}" for axis, value in axes.items())
        return f"{test} [{chosen}]" if chosen else test
    return None
