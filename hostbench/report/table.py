"""One table and how it is written: text, Markdown, JSON or CSV. Its text may come from anybody."""

import csv
import io
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from hostbench.core.units import one_line

_LEAST = 32
"""Characters of a terminal that the last column needs beside the others, or it goes below them."""
MOST_LISTED = 10
"""Lines of one kind that are listed; the others are counted."""
_STYLES = {
    **dict.fromkeys(("slower", "failed", "broken", "damaged"), "red"),
    **dict.fromkeys(("faster", "ok"), "green"),
    **dict.fromkeys(("undecided", "warn", "provisional", "not", "skipped"), "yellow"),
}
"""Colour of a row's first word on a terminal."""
_TYPED = re.compile(r"(`[^`]*\bhostbench [^`]*`|\b\w+\.\w+\[[^]\[`|]*\](?:@[\w.-]*\w)?)")
"""What a person types: a command of ours, a case or a series."""


class Cell(NamedTuple):
    """What a person reads, and the plain values behind it, one for each key of the column."""

    text: str
    values: tuple[Any, ...]
    struck: bool = False
    """Crossed out: it counts for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A cell is a Cell, or a text that is its own value."""

    title: str
    keys: tuple[str, ...]
    """The names of its values in JSON and CSV, with their unit."""
    right: bool = False
    code: bool = False
    """A name that a person types: code in Markdown."""
    below: bool = False
    """In text it is a line below the rows, once for neighbours that share it. Only the last may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Every row has a cell for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | Cell, ...], ...]


class Heading(str):
    """A line that stands above what follows."""


Part = str | Table
"""Of a page: a table or one line; a line that begins with two spaces is an item of a list."""


def listed(title: str, lines: Sequence[str]) -> list[Part]:
    """Lines of one kind under a heading, the first MOST_LISTED; nothing where there are none."""
    if not lines:
        return []
    more = [f"  and {len(lines) - MOST_LISTED} more"] if len(lines) > MOST_LISTED else []
    return ["", Heading(title), *(f"  {line}" for line in lines[:MOST_LISTED]), *more]


def text(parts: Sequence[Part], terminal: TextIO | None = None) -> str:
    """Lines of any length, or as wide as the terminal and coloured.

    rich is imported only here; every line is a Text, so that nothing in it is markup.
    """
    if terminal is None:
        return "\n".join(line.text for line in _lines(parts, sys.maxsize))
    from rich.console import Console
    from rich.text import Text

    console = Console(file=terminal, highlight=False)
    with console.capture() as capture:
        for line in _lines(parts, console.width):
            drawn = Text(line.text)
            drawn.stylize(line.style, 0, line.styled)
            console.print(drawn, soft_wrap=True)
    return capture.get().rstrip("\n")


def markdown(parts: Sequence[Part]) -> str:
    """With an empty line wherever a table, a list or a text ends, else what follows joins it."""
    lines: list[str] = []
    before = ""
    for part in parts:
        kind, own = _block(part)
        if kind != before and lines and lines[-1] and own[0]:
            lines.append("")
        before = kind
        lines += own
    return "\n".join(lines)


def _block(part: Part) -> tuple[str, list[str]]:
    if isinstance(part, Table):
        return "table", _piped(part)
    if isinstance(part, Heading):
        return "heading", [f"### {shown(part, True)}"]
    is_item = part.startswith("  ")
    return "item" if is_item else "text", ["- " * is_item + _with_code(part.strip())]


def plain(table: Table) -> list[dict[str, Any]]:
    """Rows as JSON has them."""
    keys = [key for column in table.columns for key in column.keys]
    return [
        dict(zip(keys, (value for cell in row for value in _values(cell)), strict=True))
        for row in table.rows
    ]


def as_csv(table: Table) -> str:
    """With a line of keys; an empty field is a value that is not there."""
    out = io.StringIO()
    keys = [key for column in table.columns for key in column.keys]
    writer = csv.DictWriter(out, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain(table))
    return out.getvalue().rstrip("\n")


def shown(text: str, markdown: bool) -> str:
    """Text from a result file is data: one line without control characters, and no markup."""
    line = one_line(text)
    return re.sub(r"([\\`*_~\[\]<>|#&])", r"\\\1", line) if markdown else line


def _with_code(line: str) -> str:
    """A line in Markdown; commands of ours and cases in it are code."""
    pieces = _TYPED.split(line)
    return "".join(
        code(piece.strip("`")) if place % 2 else shown(piece, True)
        for place, piece in enumerate(pieces)
    )


def _values(cell: str | Cell) -> tuple[Any, ...]:
    return (cell,) if isinstance(cell, str) else cell.values


def code(text: str, in_table: bool = False) -> str:
    """Text from anywhere as code in Markdown, as it is: a command that is copied is the one that
    was typed. It stands between more backticks than it has together. In a table, a backslash before
    a bar would undo the one that keeps the bar from ending a cell."""
    kept = one_line(text).strip()
    kept = re.sub(r"\\*\|", r"\\|", kept) if in_table else kept
    runs = re.findall("`+", kept)
    fence, space = "`" * (1 + max(map(len, runs), default=0)), " " * bool(runs)
    return f"{fence}{space}{kept}{space}{fence}" if kept else ""


def _text(cell: str | Cell, markdown: bool = False) -> str:
    if isinstance(cell, str):
        return shown(cell, markdown)
    text = shown(cell.text, markdown)
    return f"~~{text}~~" if cell.struck else text


class _Line(NamedTuple):
    """One line of text, and the style of its first so many characters, or of all."""

    text: str
    style: str = ""
    styled: int | None = None


def _lines(parts: Sequence[Part], width: int) -> Iterator[_Line]:
    for part in parts:
        if isinstance(part, str):
            yield from map(_Line, _folded(one_line(part), width))
        else:
            yield from _drawn(part, width)


def _drawn(table: Table, width: int) -> Iterator[_Line]:
    """A row that does not fit goes on below, indented: columns but the last with their title."""
    is_below = table.columns[-1].below
    columns = table.columns[:-1] if is_below else table.columns
    titles = [column.title for column in columns]
    rows = [[_text(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, cells)) for cells in zip(titles, *rows, strict=False)]
    num = _num_beside(widths, width)
    last = sum(widths[: num - 1]) + 2 * (num - 1)

    def aligned(row: Sequence[str], style: str, styled: int | None = None) -> Iterator[_Line]:
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(row[:num], widths, columns, strict=False)
        ]
        for line in _folded("  ".join(cells).rstrip(), width, last):
            yield _Line(line, style, styled)

    yield from aligned(titles, "bold")
    for note, group in groupby(rows, key=lambda row: row[-1] if is_below else ""):
        own = list(group)
        for row in own:
            first = re.split(r"\W", row[0].lower())[0]
            yield from aligned(row, _STYLES.get(first, ""), len(row[0]))
            if num < len(columns):
                named = zip(titles[num:-1], row[num:], strict=False)
                said = [*(f"{title} {cell}" for title, cell in named), row[len(columns) - 1]]
                yield from map(_Line, _folded(f"    {'  '.join(said)}", width, 4))
        if note:
            of_all = f"    the {len(own)} above: {note}" if len(own) > 1 else f"    {note}"
            yield from (_Line(line, "dim") for line in _folded(of_all, width, 4))


def _folded(line: str, width: int, start: int = 0) -> list[str]:
    """What does not fit goes on below, from the same place as what begins at `start`."""
    if len(line) <= width:
        return [line]
    room = max(width - start, _LEAST)
    first, *more = textwrap.wrap(line[start:], room, break_on_hyphens=False) or [""]
    return [line[:start] + first, *(" " * start + rest for rest in more)]


def _num_beside(widths: Sequence[int], width: int) -> int:
    """How many columns stand side by side: all, where the last has room enough, else what fits."""
    used = [sum(widths[:num]) + 2 * (num - 1) for num in range(1, len(widths) + 1)]
    if used[-1] <= width or (len(used) > 1 and used[-2] + 2 + _LEAST <= width):
        return len(widths)
    fitting = sum(each <= width for each in used[:-1])
    return max(1, fitting)


def _piped(table: Table) -> list[str]:
    rows = [
        [
            code(_text(cell), in_table=True) if column.code else _text(cell, True)
            for cell, column in zip(row, table.columns, strict=True)
        ]
        for row in table.rows
    ]
    if table.columns[-1].below:
        for last, group in groupby(rows, key=lambda row: row[-1]):
            for row in list(group)[1:]:
                row[-1] = "as above" if last else ""
    return [
        "| " + " | ".join(column.title for column in table.columns) + " |",
        "|" + "|".join("--:" if column.right else "---" for column in table.columns) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
