"""One run as a self-contained HTML file: to attach to a CI job or to send to somebody."""

from html import escape

import pandas as pd

from hostbench.report.answer import answers
from hostbench.report.page import HEADINGS, about, cells, counts, not_proven, title
from hostbench.store.runs import WholeRun

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
h2 { margin: 1.5rem 0 .3rem; font-size: 1.1rem }
dt { color: #666; margin-top: .5rem } dd { margin: 0 }
.table { overflow-x: auto } table { border-collapse: collapse; font-size: 13px }
td, th { padding: .2rem .7rem; border-bottom: 1px solid #8884; text-align: left }
td:nth-child(n+2):nth-child(-n+5) { text-align: right; white-space: nowrap }
tr.failed td:nth-child(2) { text-decoration: line-through }
tr.surprise td:last-child { font-weight: 600 }
@media (prefers-color-scheme: dark) { body { background: #0e1117; color: #eee } dt { color: #aaa } }
"""


def html(rows: pd.DataFrame, run: WholeRun) -> str:
    """`rows` are the run's rows of the tidy frame. Every text is escaped; no script, no link."""
    name = escape(title(rows, run))
    lines = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{name}</h1>",
        *(f"<p>{escape(line)}</p>" for line in about(rows, run)),
        *_answers(rows),
        *_table(rows),
        f"<p>{escape(counts(rows))}</p>",
        *(f"<p>{escape(line)}</p>" for line in not_proven(rows)),
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def _answers(rows: pd.DataFrame) -> list[str]:
    lines: list[str] = []
    family = None
    for answer in answers(rows):
        if answer.family != family:
            lines += ["</dl>"] * (family is not None) + [f"<h2>{escape(answer.family)}</h2><dl>"]
            family = answer.family
        lines.append(f"<dt>{escape(answer.question)}</dt><dd>{escape(answer.text)}</dd>")
    return lines + ["</dl>"] * (family is not None)


def _table(rows: pd.DataFrame) -> list[str]:
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADINGS)
    lines = [f'<h2>every case</h2><div class="table"><table><tr>{head}</tr>']
    for row in rows.to_dict("records"):
        inner = "".join(f"<td>{escape(cell.strip('~'))}</td>" for cell in cells(row))
        kind = f"{row['status']}{' surprise' * ('surprise:' in str(row['flags']))}"
        lines.append(f'<tr class="{escape(kind)}">{inner}</tr>')
    return [*lines, "</table></div>"]
