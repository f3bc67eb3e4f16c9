"""Finding: what cases turned out to do, by size, and what was counted of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from hostbench.families.question import NOT_ASKED, Figure, Finding, Row, Rows, valid
from hostbench.judge.conclude import conclude
from hostbench.report.answer import Answer, ScreenLine, State, difference, joined
from hostbench.report.kinds import base

_WORDS: dict[bool | None, str] = {True: "yes", False: "no", None: "unknown"}
_STATES: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}


def answer(ask: Finding, group: Rows, rows: Rows) -> Answer:
    """Whether they show it, and the figures that a family makes of them."""
    size = base.size_axis(group)
    axes = [axis for axis in base.varying(group) if axis != size]
    series = [
        (ask.name(some[0], axes), base.ordered(some, size)) for _, some in base.grouped(group, axes)
    ]
    figures = [figure for row in valid(group) for figure in _figures(ask, row, rows)]
    is_counted = any(figure.value is not None for figure in figures)
    state: State = "figure" if is_counted else "undecided"
    verdict = "" if figures else NOT_ASKED
    if ask.finding:
        state, verdict = _by_size(ask, series, size)
    largest = next(some[-1] for _, some in series if some)
    for name, some in series:
        if some and ask.of_largest:
            figure, at = ask.of_largest(some[-1]), ask.name(some[-1], [size] if size else ())
            label = ": ".join(filter(None, [f"{at} {name}".strip(), figure.label]))
            figures.append(replace(figure, label=label))
    return base.made(
        ask,
        state,
        verdict,
        figures,
        lost=group,
        lines=_lines(ask, largest, figures, verdict.partition(":")[0]),
        at=base.shared(ask, group) if size and size not in base.varying(group) else "",
    )


def _figures(ask: Finding, row: Row, rows: Rows) -> Iterator[Figure]:
    """What the family says of a row, beside what it holds it against."""
    other = ask.beside and ask.beside(row, rows)
    for figure in ask.figures(row, rows) if ask.figures else ():
        if other is not None:
            name, launches = other
            conclusion = conclude(row.by_launch, launches)
            note = "; ".join(filter(None, [f"against {name}", figure.note]))
            against = difference(conclusion)
            figure = replace(figure, against=against, conclusion=conclusion, note=note)
        yield figure


def _by_size(
    ask: Finding, series: Sequence[tuple[str, Rows]], size: str | None
) -> tuple[State, str]:
    """`partly: yes at 1KiB, no from 4KiB to 16KiB`; series of which the same is said, together."""
    shown = {_shows(ask, row) for _, some in series for row in some}
    shown |= {None for _, some in series if not some}
    is_mixed, finding = len(shown) > 1, next(iter(shown))
    names: dict[str, list[str]] = {}
    for name, rows in series:
        stretches = [
            f"{_WORDS[known] * is_mixed} {ask.span(size, [*some]) if size else ''}".strip()
            for known, some in groupby(rows, key=lambda row: _shows(ask, row))
        ]
        names.setdefault(", ".join(stretches or [_WORDS[None]]), []).append(name)
    by_name = [f"{joined(filter(None, some))} {text}".strip() for text, some in names.items()]
    word = "partly" if is_mixed else _WORDS[finding]
    text = ": ".join(filter(None, [word, "; ".join(by_name)]))
    return "partly" if is_mixed else _STATES[finding], text


def _shows(ask: Finding, row: Row) -> bool | None:
    """None where it is not known; odd values tell nothing either."""
    finding = ask.finding
    value = row.findings.get(finding) if isinstance(finding, str) else finding(row)
    return value if isinstance(value, bool) else None


def _lines(ask: Finding, row: Row, figures: Sequence[Figure], state: str) -> Iterator[ScreenLine]:
    """The numbers, or what is said of the largest size."""
    words = ", ".join(figure.number() for figure in figures if figure.value is not None)
    if ask.of_largest:
        words = ask.of_largest(row).note or words
    yield ScreenLine(ask.fill(ask.screen, row.axes), words, state)
