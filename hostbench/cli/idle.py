"""`hostbench idle`: is the GPU idle, and why? From traces, or from a script that it records."""

from dataclasses import dataclass
from pathlib import Path

from hostbench.cli.output import Reading
from hostbench.cli.page import show_page
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, UsageError
from hostbench.idle.summary import idle_report
from hostbench.idle.words import advice_table, document, page


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleOptions:
    trace: tuple[Path, ...] = ()
    all: bool = False
    format: str = "text"


def execute(options: IdleOptions) -> int:
    """Print the page. 0, or 3 where no work of a GPU is seen."""
    if not options.trace:
        raise UsageError("say what to look at: --trace FILE")
    with Reading() as reading:
        report = idle_report(_files(options.trace), reading)
    show_page(
        options.format,
        lambda: page(report, every=options.all),
        lambda: advice_table(report.advice),
        lambda: document(report),
    )
    return EXIT_OK if report.devices else EXIT_NOTHING_MEASURED


def _files(paths: tuple[Path, ...]) -> list[Path]:
    """Each, and of a folder the traces in it."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(
            each for each in path.iterdir() if each.name.endswith((".json", ".json.gz"))
        )
        if not inside:
            raise UsageError(f"{path} has no traces: no file there ends in .json or .json.gz")
        files += inside
    return files
