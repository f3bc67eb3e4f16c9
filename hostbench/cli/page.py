"""How a command's page is written: `--format`, and whether standard output is a terminal."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from hostbench.cli.output import show
from hostbench.report.table import Part, Table, as_csv, markdown, plain, text


def show_page(
    form: str,
    parts: Callable[[], Sequence[Part]],
    table: Callable[[], Table] | None = None,
    document: Callable[[], Any] | None = None,
) -> None:
    """Text and Markdown have the parts. CSV has the table, or the first of the parts; JSON the
    document, or the rows of that table."""

    def rows() -> Table:
        return table() if table else next(part for part in parts() if isinstance(part, Table))

    if form == "json":
        show(json.dumps(document() if document else plain(rows()), indent=2))
    elif form == "csv":
        show(as_csv(rows()))
    elif form == "md":
        show(markdown(parts()))
    else:
        show(text(parts(), terminal()))


def terminal() -> TextIO | None:
    """Standard output, where it is a terminal that can move and colour."""
    live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return sys.stdout if live else None
