"""Finding: what cases turned out to do, and what was counted of them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hostbench.families.question import NOT_ASKED, Figure, Finding, Row, Rows, valid
from hostbench.report import answer as base
from hostbench.report.answer import Answer, ScreenLine, State

_STATES: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}


def answer(ask: Finding, group: Rows, rows: Rows) -> Answer:
    """Whether they show it, and the figures that a family makes of them."""
    size, axes = base.size_axis(group), base.named_axes(ask, group)
    figures = [figure for row in valid(group) for figure in _figures(ask, row, rows, axes)]
    state: State = "figure" if any(figure.value is not None for figure in figures) else "undecided"
    verdict = "" if figures else NOT_ASKED
    if ask.finding:
        shown = {_shows(ask, row) for row in valid(group)}
        series = [axis for axis in base.varying(group) if axis != size]
        if not all(valid(some) for _, some in base.grouped(group, series)):
            shown.add(None)
        state = verdict = "partly" if len(shown) > 1 else _STATES[shown.pop()]
    return base.made(
        ask,
        state,
        verdict,
        figures,
        lost=group,
        lines=_lines(ask, valid(base.at_size(group, valid)), rows, verdict),
        shared=() if size in base.varying(group) else base.shared(ask, group),
    )


def _figures(ask: Finding, row: Row, rows: Rows, axes: Iterable[str]) -> Iterator[Figure]:
    """What the family says of a row, else its time; and whether it shows what is asked."""
    name, shows = ask.name(row, axes), _STATES[_shows(ask, row)] if ask.finding else ""
    if ask.figures is None:
        yield base.figure_of(name, row, against=shows)
        return
    for figure in ask.figures(row, rows):
        label = ", ".join(filter(None, [name, figure.label])) or row.function
        yield replace(figure, label=label, against=shows)


def _shows(ask: Finding, row: Row) -> bool | None:
    """None where it is not known; odd values tell nothing either."""
    finding = ask.finding
    value = row.findings.get(finding) if isinstance(finding, str) else finding(row)
    return value if isinstance(value, bool) else None


def _lines(ask: Finding, largest: Rows, rows: Rows, verdict: str) -> Iterator[ScreenLine]:
    """What is said of the largest size: of a share what it means, else the numbers."""
    figures = [figure for row in largest if ask.figures for figure in ask.figures(row, rows)]
    shares = [note for figure in figures if figure.unit == "share" for note in figure.notes]
    words = ", ".join(figure.number() for figure in figures if figure.value is not None)
    yield ScreenLine(ask.fill(ask.screen, largest[0].axes), shares[0] if shares else words, verdict)
