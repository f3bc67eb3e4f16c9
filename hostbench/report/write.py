"""Pages as text, Markdown, JSON, CSV and HTML."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from html import escape
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from hostbench.core.units import one_line
from hostbench.report.blocks import (
    Block,
    Chart,
    Heading,
    Item,
    Page,
    Quoted,
    Struck,
    Subheading,
    Table,
    Title,
)

STYLES = {
    **dict.fromkeys(("slower", "failed", "broken", "fails now"), "red"),
    **dict.fromkeys(("faster", "ok"), "green"),
    **dict.fromkeys(("undecided", "warn", "skipped", "provisional"), "yellow"),
    **dict.fromkeys(("not measured", "not judged"), "yellow"),
}
"""Colour of a verdict, a state or a level on a terminal."""
_TYPED = re.compile(r"(`[^`]*\bhostbench [^`]*`|\b\w+\.\w+\[[^]\[`|]*\](?:@[\w.-]*\w)?)")
"""What a person types: a command of ours, a case or a series."""
_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem }
body { overflow-wrap: anywhere } h2 { font-size: 1.4rem } h3 { font-size: 1.1rem }
p, ul { margin: .2rem 0 } ul { padding-left: 1rem }
figure { display: inline-block; margin: .5rem 0; width: 32rem; max-width: 100% }
svg { max-width: 100%; height: auto }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: 13px }
td, th { padding: .2rem .5rem; border-bottom: 1px solid #8884; min-width: 4rem }
th { text-align: left } td { overflow-wrap: break-word }
td code { display: block; min-width: 12rem; overflow-wrap: anywhere }
"""


class StyledLine(NamedTuple):
    """A line of text, and the style of what stands from `start` to `end`."""

    text: str
    style: str = ""
    start: int = 0
    end: int | None = None


def write(page: Page, form: str, terminal: TextIO | None = None) -> str:
    """The page in a format of `--format`; text for a terminal is coloured."""
    if form in ("text", "md"):
        return text(page.blocks(), terminal) if form == "text" else markdown(page.blocks())
    if form == "html":
        return html(page)
    if form == "json" and page.document:
        return json.dumps(page.document(), indent=2)
    tables = (block for block in page.blocks() if isinstance(block, Table))
    table = page.table() if page.table else next(tables)
    return json.dumps(values(table), indent=2) if form == "json" else as_csv(table)


# ---- JSON and CSV -------------------------------------------------------------------------------


def values(table: Table) -> list[dict[str, Any]]:
    """The rows as JSON has them."""
    return [{key: row[key] for key in table.keys} for row in table.rows]


def as_csv(table: Table) -> str:
    """With a line of keys; an empty field is a value that is not there."""
    out = io.StringIO()
    writer = csv.DictWriter(out, table.keys, lineterminator="\n")
    writer.writeheader()
    for row in values(table):  # a terminal may show it
        writer.writerow({key: one_line(v) if isinstance(v, str) else v for key, v in row.items()})
    return out.getvalue().rstrip("\n")


# ---- text ---------------------------------------------------------------------------------------


def text(blocks: Iterable[Block], terminal: TextIO | None = None) -> str:
    """Lines of any length; coloured for a terminal."""
    lines = list[StyledLine]()
    for block in blocks:
        if isinstance(block, Table):
            lines += _table_lines(block)
        elif isinstance(block, str):
            lines.append(StyledLine("  " * isinstance(block, Item | Subheading) + block))
    return draw(lines, terminal)


def draw(lines: Iterable[StyledLine], terminal: TextIO | None) -> str:
    """Coloured for a terminal. Every line is rich's Text, so that nothing in it is markup; rich is
    imported only here, and where a terminal is."""
    if terminal is None:
        return "\n".join(one_line(line.text).rstrip() for line in lines)
    from rich.console import Console
    from rich.text import Text

    console = Console(file=terminal, highlight=False)
    with console.capture() as capture:
        for line in lines:
            drawn = Text(one_line(line.text).rstrip())
            drawn.stylize(line.style, line.start, line.end)
            console.print(drawn, soft_wrap=True)
    return capture.get().rstrip("\n")


def _table_lines(table: Table) -> Iterator[StyledLine]:
    is_below = table.columns[-1].below
    columns = table.columns[:-1] if is_below else table.columns
    titles = [column.title for column in columns]
    rows = [[_cell(cell, markdown=False) for cell in row] for row in table.words()]
    styles = [STYLES.get(str(row.get(table.status)), "") for row in table.rows]
    shown = rows if table.indent else [titles, *rows]
    widths = [max(map(len, cells)) for cells in zip(*shown, strict=False)]

    def aligned(row: Sequence[str]) -> str:
        cells = zip(row, widths, columns, strict=False)
        words = (c.rjust(width) if column.right else c.ljust(width) for c, width, column in cells)
        return " " * table.indent + "  ".join(words)

    if not table.indent:
        yield StyledLine(aligned(titles), "bold")
    styled = zip(rows, styles, strict=True)
    for note, group in groupby(styled, key=lambda own: own[0][-1] if is_below else ""):
        alike = list(group)
        for row, style in alike:
            yield StyledLine(aligned(row), style, 0, len(row[0]))
        if note:
            of_all = f"the {len(alike)} above: {note}" if len(alike) > 1 else note
            yield StyledLine(f"    {of_all}", "dim")


# ---- Markdown -----------------------------------------------------------------------------------


def markdown(blocks: Iterable[Block]) -> str:
    """With an empty line wherever a table, a list or a text ends, else what follows joins it."""
    lines: list[str] = []
    before = ""
    for block in blocks:
        if isinstance(block, Chart):
            continue
        kind, marked = _marked(block)
        if kind != before and lines and lines[-1] and marked[0]:
            lines.append("")
        before = kind
        lines += marked
    return "\n".join(lines)


def _marked(block: str | Table) -> tuple[str, list[str]]:
    """(kind, lines)."""
    if isinstance(block, Table):
        return "table", _piped(block)
    for level, kind in (("##", Title), ("###", Heading), ("####", Subheading)):
        if isinstance(block, kind):
            return "heading", [f"{level} {escaped(block)}"]
    if isinstance(block, Quoted):
        return "item", [f"- {code(block)}"]
    pieces = _TYPED.split(block.strip())  # what a person types is every second one
    words = "".join(
        code(piece.strip("`")) if index % 2 else escaped(piece)
        for index, piece in enumerate(pieces)
    )
    return ("item", [f"- {words}"]) if isinstance(block, Item) else ("text", [words])


def _piped(table: Table) -> list[str]:
    rows = [
        [
            code(cell, in_table=True) if column.code else _cell(cell, markdown=True)
            for cell, column in zip(row, table.columns, strict=True)
        ]
        for row in table.words()
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


def _cell(cell: str, *, markdown: bool) -> str:
    words = escaped(cell) if markdown else one_line(cell)
    return f"~~{words}~~" if isinstance(cell, Struck) else words


def escaped(words: str) -> str:
    """Text from a result file is data: one line without control characters, and no markup."""
    return re.sub(r"([\\`*_~\[\]<>|#&])", r"\\\1", one_line(words))


def code(words: str, in_table: bool = False) -> str:
    """Text from anywhere as code in Markdown, as it is: a command that is copied is the one that
    was typed. It stands between more backticks than it has together. In a table, a backslash before
    a bar would undo the one that keeps the bar from ending a cell."""
    line = one_line(words).strip()
    line = re.sub(r"\\*\|", r"\\|", line) if in_table else line
    runs = re.findall("`+", line)
    fence, space = "`" * (1 + max(map(len, runs), default=0)), " " * bool(runs)
    return f"{fence}{space}{line}{space}{fence}" if line else ""


# ---- HTML ---------------------------------------------------------------------------------------


def html(page: Page) -> str:
    """A self-contained file, to attach to a CI job or to send to somebody: the page's Markdown, in
    which no text is markup, with its charts; no script, no link. The first Title is the
    document's."""
    from markdown_it import MarkdownIt

    blocks = page.blocks()
    title = next((block for block in blocks if isinstance(block, Title)), "hostbench")
    options = {"html": False, "breaks": True}
    render = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).render
    parts = list[str]()
    for is_chart, group in groupby(blocks, lambda block: isinstance(block, Chart)):
        if not is_chart:
            parts.append(render(markdown(group)))
            continue
        with suppress(ImportError):  # the extra `dashboard` may not be installed
            parts += [_figure(block) for block in group if isinstance(block, Chart)]
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_STYLE}</style></head><body>",
            *parts,
            "</body></html>",
        ]
    )


def _figure(chart: Chart) -> str:
    from hostbench.report.charts import svg

    spec = chart.make()
    if spec is None:
        return ""
    caption = ": ".join(filter(None, (chart.title, spec["description"])))
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg(spec)}</figure>"
