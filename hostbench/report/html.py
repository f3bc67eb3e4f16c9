"""One run as a self-contained HTML file: to attach to a CI job or to send to somebody."""

import re
from collections.abc import Iterator, Sequence
from html import escape

import pandas as pd

from hostbench.report import charts
from hostbench.report.answer import Chart, by_family
from hostbench.report.page import DEVICES, about, asked_of, counts, not_proven, table, title
from hostbench.report.table import Heading, Part, Table
from hostbench.store.runs import WholeRun

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { margin: 1.5rem 0 .3rem; font-size: 1.1rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem } section p { margin: 0 } ul { margin: .2rem 0 }
figure { margin: .5rem 0; max-width: 46rem; background: #fff }
figure svg { max-width: 100%; height: auto }
.table { overflow-x: auto } table { border-collapse: collapse; font-size: 13px }
td, th { padding: .2rem .7rem; border-bottom: 1px solid #8884; text-align: left }
.right { text-align: right; white-space: nowrap }
tr.failed td:nth-child(2) { text-decoration: line-through }
tr.unexpected td:last-child { font-weight: 600 }
@media (prefers-color-scheme: dark) { body { background: #0e1117; color: #eee } }
"""


def html(rows: pd.DataFrame, run: WholeRun, head: Sequence[Part] = ()) -> str:
    """`rows` are the run's rows of the tidy frame. Every text is escaped; no script, no link.
    `head`: a page that comes first."""
    name = escape(title(rows, run))
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        *_parts(head),
        f"<h2>{name}</h2>" if head else f"<h1>{name}</h1>",
        *(f"<p>{escape(line)}</p>" for line in about(rows, run)),
        *_answers(rows, run),
        *_table(rows),
        *(f"<p>{escape(line)}</p>" for line in counts(rows)),
        *(f"<p>{escape(line)}</p>" for line in not_proven(rows)),
        "</body></html>",
    ]
    return _numbered("\n".join(lines)) + "\n"


def _parts(parts: Sequence[Part]) -> Iterator[str]:
    """The first line is the page's heading."""
    size = "h1"
    for part in parts:
        if isinstance(part, Table):
            yield from _drawn(part)
        elif part.startswith("  "):
            yield f"<li>{escape(part.strip())}</li>"
        elif part:
            tag = size if isinstance(part, Heading) else "p"
            yield f"<{tag}>{escape(part)}</{tag}>"
            size = "h2"


def _breakable(text: str) -> str:
    """A long name may be broken behind a comma."""
    return text.replace(",", ",<wbr>")


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
        lines.append(f"<h2>{escape(family)}</h2>")
        for one in told:
            lines.append(f'<section class="{one.state}"><h3>{escape(one.question)}</h3>')
            lines.append(f"<p><b>{escape(one.verdict)}</b></p>")
            texts = [*map(str, one.figures), *one.notes]
            lines += ["<ul>", *(f"<li>{escape(text)}</li>" for text in texts), "</ul>"]
            lines += [_picture(one.chart, name)] if one.chart else []
            lines.append("</section>")
        for why, questions in untold.items():
            inner = "".join(f"<li>{escape(text)}</li>" for text in questions)
            lines.append(f"<p>Not answered ({escape(why)}):</p><ul>{inner}</ul>")
        if family in lacking:
            asks = f"Not in a quick run (<code>hostbench run {escape(family)}</code> asks):"
            lines.append(f"<p>{asks} {escape(' '.join(lacking[family]))}</p>")
    return lines


def _picture(chart: Chart, about: str) -> str:
    """The chart as SVG; nothing where the extra `dashboard`, which draws it, is not installed."""
    try:
        return f"<figure>{charts.svg(chart, (about,))}</figure>"
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


def _drawn(made: Table, kinds: Sequence[str] = ()) -> list[str]:
    """`kinds`: a class for each row."""
    sides = [' class="right"' * column.right for column in made.columns]
    titles = zip(made.columns, sides, strict=True)
    head = "".join(f"<th{side}>{escape(column.title)}</th>" for column, side in titles)
    lines = [f'<div class="table"><table><tr>{head}</tr>']
    for place, cells in enumerate(made.rows):
        texts = (cell if isinstance(cell, str) else cell.text for cell in cells)
        inner = "".join(
            f"<td{side}>{_breakable(escape(text)) if column.code else escape(text)}</td>"
            for text, side, column in zip(texts, sides, made.columns, strict=True)
        )
        kind = f' class="{escape(kinds[place])}"' if kinds else ""
        lines.append(f"<tr{kind}>{inner}</tr>")
    return [*lines, "</table></div>"]
