"""`hostbench check-results`: find and explain damage below a results folder."""

from dataclasses import dataclass

from hostbench.cli.output import Reading
from hostbench.cli.page import show_page
from hostbench.cli.results import stored_results
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.core.units import number_of
from hostbench.report.table import Column, Table
from hostbench.store import check

COLUMNS = tuple(Column(title=name, keys=(name,)) for name in ("path", "what", "remedy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResultsOptions:
    format: str
    results: str | None


def execute(options: CheckResultsOptions) -> int:
    """Print each finding with its remedy; change nothing. Exit code 4 where there is one."""
    with Reading() as tell:
        checked = check.check(stored_results(options.results), tell)
    found = checked.findings
    said = f"{number_of(checked.num_files, 'file')}, {number_of(checked.num_runs, 'run')}: "
    said += f"{len(found)} to look at" if found else "all whole"
    if num := checked.num_waiting:
        said += f"; {number_of(num, 'run waits', 'runs wait')} to be archived, which "
        said += f"{check.NEXT_ONE} does"
    table = Table(columns=COLUMNS, rows=tuple((str(f.path), f.what, f.remedy) for f in found))
    show_page(
        options.format,
        lambda: [table, "", said] if options.format == "md" else [*map(str, found), said],
        lambda: table,
        lambda: check.as_json(checked),
    )
    return EXIT_FAILED if found else EXIT_OK
