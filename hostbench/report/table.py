"""One table and how it is written: text, Markdown, JSON or CSV. Its text may come from anybody."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from hostbench.core.units import one_line

_LEAST = 32
"""Characters of a terminal that the last column needs beside the others, or it goes below them."""
_STYLES = {
    **dict.fromkeys(("slower", "failed", "broken", "damaged"), "red"),
    **dict.fromkeys(("faster", "ok"), "green"),
    **dict.fromkeys(("undecided", "warn", "provisional", "not", "skipped"), "yellow"),
}
"""Colour of a row's first word on a terminal."""


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
    below: bool = False
    """In text it is a line below the rows, once for neighbours that share it. Only the last may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Every row has a cell for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | Cell, ...], ...]


Part = str | Table
"""Of a page: a table or one line; a line that begins with two spaces is an item of a list."""


def text(parts: Sequence[Part], terminal: TextIO | None = None) -> str:
    """Lines of any length, or as wide as the terminal and coloured."""
    if terminal is None:
        lines = ([one_line(p)] if isinstance(p, str) else _aligned(p) for p in parts)
        return "\n".join(line for own in lines for line in own)
    return _on_terminal(parts, terminal)


def markdown(parts: Sequence[Part]) -> str:
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Table):
            lines += _piped(part)
        else:
            lines.append("- " * part.startswith("  ") + shown(part.strip(), True))
    return "\n".join(lines)


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


def _values(cell: str | Cell) -> tuple[Any, ...]:
    return (cell,) if isinstance(cell, str) else cell.values


def _text(cell: str | Cell, markdown: bool = False) -> str:
    if isinstance(cell, str):
        return shown(cell, markdown)
    text = shown(cell.text, markdown)
    return f"~~{text}~~" if cell.struck else text


def _blocks(table: Table) -> Iterator[tuple[list[list[str]], str]]:
    """(rows as texts, the line below them): all rows, or neighbours that share the last column."""
    rows = [[_text(cell) for cell in row] for row in table.rows]
    if not table.columns[-1].below:
        yield rows, ""
        return
    for last, group in groupby(rows, key=lambda row: row[-1]):
        own = [row[:-1] for row in group]
        yield own, f"these {len(own)}: {last}" if last and len(own) > 1 else last


def _side_by_side(table: Table) -> tuple[Column, ...]:
    return table.columns[:-1] if table.columns[-1].below else table.columns


def _aligned(table: Table) -> list[str]:
    columns = _side_by_side(table)
    blocks = list(_blocks(table))
    rows = [row for own, _ in blocks for row in own]
    titles = [column.title for column in columns]
    lines = iter(_padded([titles, *rows], [column.right for column in columns]))
    out = [next(lines)]
    for own, below in blocks:
        out += [next(lines) for _ in own]
        out += [f"    {below}"] if below else []
    return out


def _padded(lines: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]


def _piped(table: Table) -> list[str]:
    rows = [[_text(cell, True) for cell in row] for row in table.rows]
    if table.columns[-1].below:
        for last, group in groupby(rows, key=lambda row: row[-1]):
            for row in list(group)[1:]:
                row[-1] = "as above" if last else ""
    return [
        "| " + " | ".join(column.title for column in table.columns) + " |",
        "|" + "|".join("--:" if column.right else "---" for column in table.columns) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _on_terminal(parts: Sequence[Part], terminal: TextIO) -> str:
    """rich is imported only here; every cell is a Text, so that nothing in it is markup."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=terminal, highlight=False)
    with console.capture() as capture:
        for part in parts:
            if isinstance(part, str):
                console.print(Text(one_line(part), overflow="fold"))
            else:
                _draw(part, console)
    return capture.get().rstrip("\n")


def _draw(table: Table, console: Any) -> None:
    """A row that does not fit goes on below, indented: columns but the last with their title."""
    from rich.padding import Padding
    from rich.table import Table as Grid
    from rich.text import Text

    columns = _side_by_side(table)
    titles = [column.title for column in columns]
    blocks = list(_blocks(table))
    rows = [row for own, _ in blocks for row in own]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    beside = _num_beside(widths, console.width)

    def below(line: str, style: str = "") -> None:
        console.print(Padding(Text(line, style=style, overflow="fold"), (0, 0, 0, 4), expand=False))

    def draw(row: list[str], style: str = "") -> None:
        grid = Grid.grid(padding=(0, 2, 0, 0))
        for column, width in list(zip(columns, widths, strict=True))[:beside]:
            is_last = column is columns[-1]
            justify: Any = "right" if column.right else "left"
            grid.add_column(justify=justify, width=None if is_last else width)
        cells = [Text(cell, style=style, overflow="fold") for cell in row[:beside]]
        cells[0].stylize(_STYLES.get(re.split(r"\W", row[0].lower())[0], ""))
        grid.add_row(*cells)
        console.print(grid)

    draw(titles, "bold")
    for own, note in blocks:
        for row in own:
            draw(row)
            if beside < len(row):
                named = zip(titles[beside:-1], row[beside:-1], strict=True)
                below("  ".join([*(f"{title} {cell}" for title, cell in named), row[-1]]))
        if note:
            below(note, "dim")


def _num_beside(widths: Sequence[int], width: int) -> int:
    """How many columns stand side by side: all, where the last has room enough, else what fits."""
    used = [sum(widths[:num]) + 2 * (num - 1) for num in range(1, len(widths) + 1)]
    if used[-1] <= width or (len(used) > 1 and used[-2] + 2 + _LEAST <= width):
        return len(widths)
    fitting = sum(each <= width for each in used[:-1])
    return max(1, fitting)
