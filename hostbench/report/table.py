"""Tables for the terminal and for Markdown, of text that may come from anybody."""

import re
from collections.abc import Sequence

from hostbench.core.units import one_line


def shown(text: str, markdown: bool) -> str:
    """Text from a result file is data: one line without control characters, and no markup."""
    line = one_line(text)
    return re.sub(r"([\\`*_~\[\]<>|#&])", r"\\\1", line) if markdown else line


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """The first and the last column to the left, figures between them to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = []
    for line in lines:
        first = line[0].ljust(widths[0])
        middle = [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)]
        out.append("  ".join([first, *middle, line[-1]]).rstrip())
    return out


def piped(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """The same in Markdown; cells are taken as they are."""
    rule = ["---", *["--:"] * (len(headings) - 2), "---"]
    return [
        "| " + " | ".join(headings) + " |",
        "|" + "|".join(rule) + "|",
        *("| " + " | ".join(line) + " |" for line in lines),
    ]
