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
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
h1 { font-size: 1.4rem; overflow-wrap: anywhere }
article + article { border-top: 1px solid #8888; margin-top: 2.5rem; padding-top: .5rem }
h2 { margin: 1.5rem 0 .3rem; font-size: 1.1rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; overflow-wrap: anywhere }
p, li, figcaption { overflow-wrap: anywhere } section p { margin: 0 } ul { margin: .2rem 0 }
.beside { display: grid; gap: 0 2rem }
.beside { grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)) }
section { min-width: 0 } figure { margin: .5rem 0 } figcaption { font-size: 12px }
figure svg { max-width: 100%; height: auto }
.table { overflow-x: auto } table { border-collapse: collapse; font-size: 13px }
td, th { padding: .2rem .7rem; border-bottom: 1px solid #8884; text-align: left }
.right { text-align: right; white-space: nowrap } .note { min-width: 12rem }
.code { min-width: 12rem; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { body { background: #0e1117; color: #eee } }
@media (max-width: 30rem) {
  body { margin: 1rem auto } h1 { font-size: 1.2rem } td, th { padding: .2rem .3rem }
  .code, .note { min-width: 11rem } ul { padding-left: 1.4rem }
}
@media print {
  body { margin: 0; max-width: none; font-size: 12px } table { font-size: 10px }
  .beside { grid-template-columns: 1fr 1fr } .code, .note { min-width: 8rem }
  section, figure, tr { break-inside: avoid } h2, h3 { break-after: avoid }
}
"""


def html(blocks: Iterable[Block]) -> str:
    """Each Title begins an article; the first is the document's."""
    blocks = list(blocks)
    title = next((block for block in blocks if isinstance(block, Title)), "hostbench")
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        "<article>",
        *_body(blocks),
        "</article></body></html>",
    ]
    return _numbered("\n".join(lines).replace("<article>\n</article>", "", 1))


def _body(blocks: Iterable[Block]) -> Iterator[str]:
    """Neighbours of one kind together: items are a list, answers stand side by side."""
    for kind, group in groupby(blocks, type):
        own = list(group)
        if kind is Item:
            yield from ["<ul>", *(f"<li>{_with_code(str(item))}</li>" for item in own), "</ul>"]
        elif kind is Answer:
            yield '<div class="beside">'
            for answer in own:
                assert isinstance(answer, Answer)
                yield from _answer(answer)
            yield "</div>"
        else:
            for block in own:
                yield from _block(block)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Title):
        yield from ["</article><article>", f"<h1>{escape(block)}</h1>"]
    elif isinstance(block, Heading):
        yield f"<h2>{escape(block)}</h2>"
    elif isinstance(block, str) and block:
        yield f"<p>{_with_code(block)}</p>"


def _with_code(words: str) -> str:
    """What stands between backticks is typed."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(words))


def _answer(answer: Answer) -> Iterator[str]:
    yield f'<section class="{answer.state}"><h3>{escape(answer.question)}</h3>'
    yield f"<p><b>{escape(answer.verdict)}</b></p>"
    texts = [*map(str, answer.figures), *answer.notes]
    yield from ["<ul>", *(f"<li>{escape(words)}</li>" for words in texts), "</ul>"]
    with suppress(ImportError):  # the extra `dashboard`, which draws it, may not be installed
        if answer.chart:
            yield f"<figure>{charts.svg(charts.drawn(answer.chart))}</figure>"
    yield "</section>"


def _table(table: Table) -> Iterator[str]:
    kinds = [f' class="{kind}"' if (kind := _kind(column)) else "" for column in table.columns]
    columns = list(zip(kinds, table.columns, strict=True))
    head = "".join(f"<th{kind}>{escape(column.title)}</th>" for kind, column in columns)
    yield f'<div class="table"><table><tr>{head}</tr>'
    for row in table.words():
        pairs = zip(row, columns, strict=True)
        cells = (f"<td{kind}>{_cell(words, column)}</td>" for words, (kind, column) in pairs)
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"


def _kind(column: Column) -> str:
    """How wide its cells may be."""
    if column.right:
        return "right"
    return "code" if column.code else "" if column.title else "note"


def _cell(words: str, column: Column) -> str:
    """A long name may be broken behind its signs."""
    inner = escape(words)
    if column.code:
        return re.sub(r"([,@]|\[(?!\])|\.(?!\d))", r"\1<wbr>", inner)
    return f"<s>{inner}</s>" if isinstance(words, Struck) else inner


def _numbered(document: str) -> str:
    """vega counts its clip paths up for as long as a process lives: from 1 in each document, the
    same run gives the same bytes."""
    known: dict[str, str] = {}
    return re.sub(
        r"(?<=[\"#])clip\d+(?=[\")])",
        lambda match: known.setdefault(match[0], f"clip{len(known) + 1}"),
        document,
    )
