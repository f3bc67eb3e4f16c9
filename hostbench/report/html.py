"""A page as a self-contained HTML file: to attach to a CI job or to send to somebody. Every text is
escaped; no script, no link."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from html import escape
from itertools import groupby

from hostbench.report import charts
from hostbench.report.answer import Answer
from hostbench.report.blocks import Block, Column, Heading, Item, Struck, Table, Title

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem }
h1, h3, p, li, .code { overflow-wrap: anywhere } h1 { font-size: 1.4rem } h2 { font-size: 1.1rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem } section p { margin: 0 } ul { margin: .2rem 0 }
.beside { display: grid; gap: 0 2rem }
.beside { grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)) }
section { min-width: 0; break-inside: avoid } figure { margin: .5rem 0 }
figure svg { max-width: 100%; height: auto; overflow: visible }
.table { overflow-x: auto } table { border-collapse: collapse; font-size: 13px }
td, th { padding: .2rem .5rem; border-bottom: 1px solid #8884; text-align: left }
.right { text-align: right; white-space: nowrap } .note, .code { min-width: 11rem }
"""


def html(blocks: Iterable[Block]) -> str:
    """The first Title is the document's. Neighbours of one kind stand together: items are a list,
    answers side by side."""
    blocks = list(blocks)
    title = next((block for block in blocks if isinstance(block, Title)), "hostbench")
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
    ]
    around = {Item: ("<ul>", "</ul>"), Answer: ('<div class="beside">', "</div>")}
    for kind, group in groupby(blocks, type):
        start, end = around.get(kind, ("", ""))
        lines += filter(None, [start, *(line for block in group for line in _block(block)), end])
    return "\n".join([*lines, "</body></html>"])


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Answer):
        yield from _answer(block)
    elif block:
        tag = {Title: "h1", Heading: "h2", Item: "li"}.get(type(block), "p")
        yield f"<{tag}>{_with_code(block)}</{tag}>"


def _with_code(words: str) -> str:
    """What stands between backticks is typed."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(words))


def _answer(answer: Answer) -> Iterator[str]:
    yield f'<section class="{answer.state}"><h3>{escape(answer.question)}</h3>'
    yield f"<p><b>{escape(answer.verdict)}</b></p>"
    if details := answer.details:
        yield from ["<ul>", *(f"<li>{escape(words)}</li>" for words in details), "</ul>"]
    with suppress(ImportError):  # the extra `dashboard`, which draws it, may not be installed
        if answer.chart:
            yield f"<figure>{charts.svg(charts.drawn(answer.chart))}</figure>"
    yield "</section>"


def _table(table: Table) -> Iterator[str]:
    heads = "".join(f"<th{_width(column)}>{escape(column.title)}</th>" for column in table.columns)
    yield f'<div class="table"><table><tr>{heads}</tr>'
    for row in table.words():
        cells = (
            f"<td{_width(column)}>{_cell(words, column)}</td>"
            for words, column in zip(row, table.columns, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"


def _width(column: Column) -> str:
    """The class of its cells."""
    name = "right" if column.right else "code" if column.code else "" if column.title else "note"
    return f' class="{name}"' if name else ""


def _cell(words: str, column: Column) -> str:
    """A long name may be broken behind its signs."""
    inner = escape(words)
    if column.code:
        return re.sub(r"([,@]|\[(?!\])|\.(?!\d))", r"\1<wbr>", inner)
    return f"<s>{inner}</s>" if isinstance(words, Struck) else inner
