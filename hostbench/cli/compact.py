"""`hostbench compact`: make old archives smaller without losing anything that is judged."""

from dataclasses import dataclass

from hostbench.cli.output import warn
from hostbench.cli.page import show_page
from hostbench.cli.results import stored_results
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.core.units import format_bytes, number_of
from hostbench.report.table import Cell, Column, Table
from hostbench.store import compact
from hostbench.store.compact import Compacted

COLUMNS = (
    Column(title="archive", keys=("archive",)),
    Column(title="before", keys=("before_bytes",), right=True),
    Column(title="after", keys=("after_bytes",), right=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactOptions:
    older_than: float
    keep: int
    median: bool
    dry_run: bool
    format: str
    results: str | None


def execute(options: CompactOptions) -> int:
    """Thin the inner samples of old runs. Exit code 4 where an archive could not be read."""
    said: list[str] = []
    amount = compact.MEDIAN if options.median else compact.QUANTILES
    done = list(
        compact.compact(
            stored_results(options.results),
            said.append,
            older_than_days=options.older_than,
            keep=options.keep,
            kept=amount,
            dry_run=options.dry_run,
        )
    )
    for text in said:
        warn(text)
    before, after = sum(one.before for one in done), sum(one.after for one in done)
    would = "would become" if options.dry_run else "became"
    total = (
        f"{number_of(len(done), 'archive')} {would} smaller: {format_bytes(before)} to "
        f"{format_bytes(after)}; "
        f"of each launch's samples the {amount} stay{'s' if options.median else ''}"
    )
    table = Table(columns=COLUMNS, rows=tuple(map(_row, done)))
    show_page(
        options.format,
        lambda: [total] if options.format == "text" else [table, "", total],
        lambda: table,
    )
    return EXIT_FAILED if said else EXIT_OK


def _row(done: Compacted) -> tuple[str | Cell, ...]:
    sizes = (Cell(format_bytes(size), (size,)) for size in (done.before, done.after))
    return (str(done.path), *sizes)
