"""`hostbench compare A B`: what became slower or faster from A to B, and how sure that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from hostbench.cli.history import open_history
from hostbench.cli.page import show_page
from hostbench.cli.program import given
from hostbench.cli.results import check_machines
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.judge.compare import Comparison, compare
from hostbench.report.comparison import as_json, page, table
from hostbench.report.side_runs import chosen
from hostbench.report.sides import Key, Sides, both
from hostbench.vcs.repo import commit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    a: str
    b: str
    all: bool
    format: str
    results: str | None
    machine: str | None = None


WhenJudged = Callable[[Mapping[Key, Comparison], Sides], None]


def execute(
    options: CompareOptions,
    called: tuple[str, str] | None = None,
    remarks: Sequence[str] = (),
    judged: WhenJudged = lambda comparisons, sides: None,
) -> int:
    """`called`: what a person calls the two, where that is not how they are found. `remarks` stand
    below the table. `judged` gets what the page shows. Exit code 4 where a series that has a number
    at A failed at B, 1 where one got slower, 3 where nothing could be decided, else 0."""
    history = open_history(options.results)
    runs = history.sides()
    if options.machine is not None:
        check_machines([options.machine], history.machines())
        runs = runs[runs["machine"] == options.machine]
    names = (options.a, options.b)
    first, second = chosen(runs, names, lambda name: commit_of(Path.cwd(), name))
    sides = both(first, second, history)
    shown = called or (first.called, second.called)
    typed = " ".join(map(quote, names)) + given(options, "results", "machine")
    comparisons = compare(sides.series, sides.interleaved, sides.confounded)
    show_page(
        options.format,
        lambda: page(
            comparisons,
            sides,
            shown,
            f"hostbench compare {typed}",
            every=options.all,
            remarks=remarks,
        ),
        lambda: table(comparisons, sides),
        lambda: as_json(comparisons, sides, names, remarks),
    )
    judged(comparisons, sides)
    if sides.broke:
        return EXIT_FAILED
    verdicts = {one.verdict for one in comparisons.values()}
    if "slower" in verdicts:
        return EXIT_REGRESSION
    return EXIT_OK if verdicts - {"undecided"} else EXIT_NOTHING_MEASURED
