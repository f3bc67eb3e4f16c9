"""How a command's page is shown: `--format`, and whether standard output is a terminal."""

import os
import sys
from typing import TextIO

from hostbench.cli.output import show
from hostbench.report.blocks import Page
from hostbench.report.write import write


def show_page(form: str, page: Page) -> None:
    show(write(page, form, terminal()))


def terminal() -> TextIO | None:
    """Standard output, where it is a terminal that can move and colour."""
    is_live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return sys.stdout if is_live else None
