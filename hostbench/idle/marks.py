"""Marks that hostbench writes into a trace beside each wait: the line of the user's code.

The profiler itself names Python functions by the line where they begin, and only with stacks on,
which slow the host down. A mark is an annotation without length, just behind the wait.
"""

from typing import NamedTuple

MARK = "hostbench line "
BORDER = "hostbench step"
"""Where one step ends and the next begins: a step that is under way at the end is none."""


class CodeLine(NamedTuple):
    """A line of a user's code."""

    file: str
    line: int
    function: str
    is_exact: bool = True
    """It is the line of the call, and not the one where its function begins."""


def mark(file: str, line: int, function: str) -> str:
    return f"{MARK}{line} {function} {file}"


def read_mark(text: str) -> CodeLine | None:
    line, _, rest = text.removeprefix(MARK).partition(" ")
    function, _, file = rest.partition(" ")
    return CodeLine(file, int(line), function) if line.isdecimal() and file else None
