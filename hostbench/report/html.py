"""A page as a self-contained HTML file: to attach to a CI job or to send to somebody. It is the
page's Markdown, in which no text is markup, with the charts of its answers; no script, no link."""

from collections.abc import Iterable
from contextlib import suppress
from html import escape
from itertools import groupby

from markdown_it import MarkdownIt

from hostbench.report import charts
from hostbench.report.answer import Answer
from hostbench.report.blocks import Block, Title
from hostbench.report.write import markdown

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 70rem; padding: 0 1rem }
body { overflow-wrap: anywhere } h2 { font-size: 1.4rem } h3 { font-size: 1.1rem }
p, ul { margin: .2rem 0 } ul { padding-left: 1rem } figure { margin: .5rem 0 1rem }
section { display: inline-block; vertical-align: top; width: 26rem; max-width: 100% }
svg { max-width: 100%; height: auto }
table { display: block; overflow-x: auto; border-collapse: collapse; font-size: 13px }
td, th { padding: .2rem .5rem; border-bottom: 1px solid #8884; min-width: 4rem }
td code { display: block; min-width: 12rem }
"""


def html(blocks: Iterable[Block]) -> str:
    """The first Title is the document's."""
    blocks = list(blocks)
    title = next((block for block in blocks if isinstance(block, Title)), "hostbench")
    options = {"html": False, "breaks": True}
    render = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).render
    parts = list[str]()
    for answer, group in groupby(blocks, lambda own: own if isinstance(own, Answer) else None):
        words = render(markdown(group))
        parts.append(f"<section>{words}{_figure(answer)}</section>" if answer else words)
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


def _figure(block: Block) -> str:
    with suppress(ImportError):  # the extra `dashboard`, which draws it, may not be installed
        if isinstance(block, Answer) and block.chart:
            return f"<figure>{charts.svg(charts.drawn(block.chart))}</figure>"
    return ""
