"""One run as a self-contained HTML file: to attach to a CI job or to send to somebody."""

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

import pandas as pd

from hostbench.report import charts
from hostbench.report.answer import by_family
from hostbench.report.page import (
    DEVICES,
    about,
    asked_of,
    counts,
    in_a_full_run,
    not_proven,
    table,
    title,
)
from hostbench.report.table import Column, Heading, Part, Table
from hostbench.store.runs import WholeRun

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
tr.failed td:nth-child(2) { text-decoration: line-through }
tr.unexpected td:last-child { font-weight: 600 }
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


def html(rows: pd.DataFrame, run: WholeRun, *, head: Sequence[Part] = ()) -> str:
    """`rows` are the run's rows of the tidy frame. Every text is escaped; no script, no link.
    `head`: a page that comes first."""
    name = title(rows, run)
    body = [
        *(f"<p>{escape(line)}</p>" for line in about(rows, run)),
        *_answers(rows, run),
        *_table(rows),
        *(f"<p>{escape(line)}</p>" for line in (*counts(rows), *not_proven(rows))),
    ]
    blocks = [(head[0], [*_parts(head[1:])])] if head else []
    return _document(name, [*blocks, (name, body)])


def document(parts: Sequence[Part]) -> str:
    """A page by itself; its first part is the title."""
    return _document(str(parts[0]), [(parts[0], [*_parts(parts[1:])])])


def _document(name: str, blocks: Sequence[tuple[Part, list[str]]]) -> str:
    """Each block is an article with its title."""
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
    ]
    for heading, own in blocks:
        lines += [f"<article><h1>{escape(str(heading))}</h1>", *own, "</article>"]
    return _numbered("\n".join([*lines, "</body></html>"])) + "\n"


def _parts(parts: Sequence[Part]) -> Iterator[str]:
    """Lines with two spaces before them are items of a list."""
    for is_item, some in groupby(parts, lambda part: str(part).startswith("  ")):
        yield from ["<ul>"] * is_item
        for part in some:
            if isinstance(part, Table):
                yield from _drawn(part)
            elif part:
                tag = "li" if is_item else "h2" if isinstance(part, Heading) else "p"
                yield f"<{tag}>{_with_code(part.strip())}</{tag}>"
        yield from ["</ul>"] * is_item


def _with_code(text: str) -> str:
    """What stands between backticks is typed."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _breakable(text: str) -> str:
    """A long name may be broken behind its signs."""
    return re.sub(r"([,@]|\[(?!\])|\.(?!\d))", r"\1<wbr>", text)


def _numbered(document: str) -> str:
    """vega counts its clip paths up for as long as a process lives: from 1 in each document, the
    same run gives the same bytes."""
    known: dict[str, str] = {}
    return re.sub(
        r"(?<=[\"#])clip\d+(?=[\")])",
        lambda match: known.setdefault(match[0], f"clip{len(known) + 1}"),
        document,
    )


def _answers(rows: pd.DataFrame, run: WholeRun) -> list[str]:
    lines: list[str] = []
    name = title_of(rows)
    found, lacking = asked_of(rows, run)
    for family, told, untold in by_family(found):
        lines.append(f'<h2>{escape(family)}</h2><div class="beside">')
        for one in told:
            lines.append(f'<section class="{one.state}"><h3>{escape(one.question)}</h3>')
            lines.append(f"<p><b>{escape(one.verdict)}</b></p>")
            texts = [*map(str, one.figures), *one.notes]
            lines += ["<ul>", *(f"<li>{escape(text)}</li>" for text in texts), "</ul>"]
            lines += [_picture(charts.drawn(one.chart, (name,)))] if one.chart else []
            lines.append("</section>")
        lines.append("</div>")
        for why, questions in untold.items():
            inner = "".join(f"<li>{escape(text)}</li>" for text in questions)
            lines.append(f"<p>Not answered ({escape(why)}):</p><ul>{inner}</ul>")
        if family in lacking:
            lines.append(f"<p>{escape(in_a_full_run(family, lacking))}</p>")
    return lines


def _picture(chart: charts.Spec) -> str:
    """The chart as SVG; nothing where the extra `dashboard`, which draws it, is not installed."""
    try:
        return f"<figure>{charts.svg(chart)}</figure>"
    except ImportError:
        return ""


def title_of(rows: pd.DataFrame) -> str:
    """What a chart was measured on."""
    hardware = next((str(one) for one in rows["hardware"].dropna()), "unknown hardware")
    devices = {str(one) for one in rows["device"].dropna()}
    return f"{hardware}, {', '.join(DEVICES.get(one, one) for one in sorted(devices))}"


def _table(rows: pd.DataFrame) -> list[str]:
    kinds = [
        f"{row['status']}{' unexpected' * ('unexpected:' in str(row['flags']))}"
        for row in rows.to_dict("records")
    ]
    return ["<h2>every case</h2>", *_drawn(table(rows), kinds)]


def _kind(column: Column) -> str:
    """How wide its cells may be."""
    if column.right:
        return "right"
    return "code" if column.code else "" if column.title else "note"


def _drawn(made: Table, kinds: Sequence[str] = ()) -> list[str]:
    """`kinds`: a class for each row."""
    sides = [f' class="{_kind(column)}"' * bool(_kind(column)) for column in made.columns]
    titles = zip(made.columns, sides, strict=True)
    head = "".join(f"<th{side}>{escape(column.title)}</th>" for column, side in titles)
    lines = [f'<div class="table"><table><tr>{head}</tr>']
    for number, cells in enumerate(made.rows):
        texts = (cell if isinstance(cell, str) else cell.text for cell in cells)
        inner = "".join(
            f"<td{side}>{_breakable(escape(text)) if column.code else escape(text)}</td>"
            for text, side, column in zip(texts, sides, made.columns, strict=True)
        )
        kind = f' class="{escape(kinds[number])}"' if kinds else ""
        lines.append(f"<tr{kind}>{inner}</tr>")
    return [*lines, "</table></div>"]
