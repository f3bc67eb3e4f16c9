"""Finding: what cases turned out to do, by size, and what was counted of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from hostbench.core import units
from hostbench.families.question import NOT_ASKED, Figure, Finding, Row, Rows, in_unit, valid
from hostbench.judge.conclude import conclude
from hostbench.report.answer import Answer, Ratio, ScreenLine, State, joined
from hostbench.report.kinds import base

_STATES: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}
_UNKNOWN = "unknown"
_SHARE, _ASYNC = "overlapped share of the shorter one", "asyncness"


def answer(ask: Finding, group: Rows, rows: Rows) -> Answer:
    """Whether they show it, and the figures that a family makes of them."""
    size, much = base.size_axis(group), _SHARE if ask.share else _ASYNC
    axes = [axis for axis in base.varying(group) if axis != size]
    series = [(ask.name(some[0], axes), some) for _, some in base.grouped(group, axes)]
    known = [(name, base.ordered(some, size)) for name, some in series if valid(some)]
    figures = [figure for row in valid(group) for figure in _figures(ask, row, rows)]
    counted = [figure for figure in figures if figure.value is not None]
    if ask.finding:
        state, verdict = _by_size(ask, known, size)
        lacks = [(name, some) for name, some in series if not valid(some)]
        lacking = (f"{name} {_UNKNOWN} ({base.unseen(some)})" for name, some in lacks)
        verdict = "; ".join([verdict, *lacking])
        state = "partly" if lacks and state == "yes" else state
    else:
        is_refused = figures and all(figure.status == "refused" for figure in figures)
        state = "figure" if counted else "no" if is_refused else "undecided"
        reasons = dict.fromkeys(own.reason or NOT_ASKED for own in figures) or [NOT_ASKED]
        values = (f"{own.label} {in_unit(own.value or 0.0, own.unit)}" for own in counted)
        verdict = joined(values) or f"{state}: {'; '.join(reasons)}"
    if ask.share or ask.is_of_call:
        figures += [_how_much(ask, name, some[-1], size, much) for name, some in known]
    return base.made(
        ask,
        state,
        verdict,
        figures,
        lost=group,
        lines=_lines(ask, group, size, verdict, counted, much),
        at=base.shared(ask, group) if size and size not in base.varying(group) else "",
    )


def _figures(ask: Finding, row: Row, rows: Rows) -> Iterator[Figure]:
    """What the family says of a row, beside what it holds it against."""
    other = ask.beside and ask.beside(row, rows)
    for figure in ask.figures(row, rows) if ask.figures else ():
        if other is not None:
            ratio = Ratio(other[0], conclude(row.by_launch, other[1]), share_of=ask.share_of)
            figure = replace(figure, ratio=ratio)
        yield figure


def _by_size(
    ask: Finding, known: Sequence[tuple[str, Rows]], size: str | None
) -> tuple[State, str]:
    """`not always: async at 1KiB, not async from 4KiB to 16KiB`; lines of which the same is said,
    together."""
    findings = {_shows(ask, row) for _, some in known for row in some}
    is_mixed, finding = len(findings) > 1, next(iter(findings), None)
    words = {None: _UNKNOWN, **ask.stretch}
    names: dict[str, list[str]] = {}
    for name, rows in known:
        stretches = [
            f"{words[shown] * is_mixed} {ask.span(size, [*some]) if size else ''}".strip()
            for shown, some in groupby(rows, key=lambda row: _shows(ask, row))
        ]
        names.setdefault(", ".join(stretches), []).append(name)
    by_name = [f"{joined(filter(None, some))} {text}".strip() for text, some in names.items()]
    verdict = ask.mixed if is_mixed else words[finding]
    text = ": ".join(filter(None, [verdict, "; ".join(by_name)]))
    return "partly" if is_mixed else _STATES[finding], text


def _shows(ask: Finding, row: Row) -> bool | None:
    """None where it is not known; odd values tell nothing either."""
    finding = ask.finding
    value = row.findings.get(finding) if isinstance(finding, str) else finding(row)
    return value if isinstance(value, bool) else None


def _much(ask: Finding, row: Row) -> float | None:
    """The observed share, else asyncness; None where it is not known."""
    if ask.share:
        value = row.number(ask.share)
        return value if value is not None and 0 <= value <= 1 else None
    if row.call_s is None or not row.seconds or row.call_s < 0:
        return None
    return 1 - row.call_s / row.seconds


def _call(row: Row) -> str:
    """When the call returns."""
    if row.call_s is None or row.seconds is None:
        return ""
    return f"returns after {units.format_seconds(row.call_s)} of {units.format_seconds(row.time)}"


def _how_much(ask: Finding, name: str, row: Row, size: str | None, what: str) -> Figure:
    """How much of it; that the probe behind a delay contradicts when the call returns."""
    at = units.format_bytes(int(row.axes[size])) if size else ""
    label = ": ".join(filter(None, [f"{at} {name}".strip(), what]))
    much, note = _much(ask, row), _call(row) if ask.is_of_call else ""
    if note:
        is_early = 1 - (row.call_s or 0.0) / row.time > 0.5
        odd = _shows(ask, row) not in (None, is_early)
        note = f"the call {note}{', which the delay probe contradicts' if odd else ''}"
    if much is not None:
        return Figure(label, much, "share", note=note)
    lacks = "it was not observed" if ask.share else "the call's own time is not stored"
    return Figure(label, None, "share", status="refused", reason=lacks, note=note)


def _lines(
    ask: Finding, group: Rows, size: str | None, verdict: str, counted: Sequence[Figure], what: str
) -> Iterator[ScreenLine]:
    """At the largest size, of the first that has a number."""
    row = max(valid(group), key=lambda row: int(row.axes[size]) if size else 0)
    much = _much(ask, row)
    figures = "" if much is None else f"{what} {much:.2f}"
    if counted:
        values = (("", figure.value) for figure in counted)
        figures = base.side_by_side(values, counted[0].unit)
    if ask.is_of_call:
        figures = _call(row) or figures
    yield ScreenLine(ask.fill(ask.screen, row.axes), figures, verdict.partition(":")[0])
