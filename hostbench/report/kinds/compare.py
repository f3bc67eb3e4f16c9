"""Compare: what the choices on some axes cost or gain beside a baseline, at one size or along an
axis of numbers; Scaling: the fewest workers, ranks or items in a batch that are enough; Best: what
to choose on each of several axes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from hostbench.core.samples import Launches
from hostbench.core.units import GB, format_seconds
from hostbench.families import declared
from hostbench.families.question import (
    Best,
    Compare,
    Figure,
    Row,
    Rows,
    Scaling,
    first,
    in_unit,
    where,
)
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as base
from hostbench.report.answer import Answer, ScreenLine, State, difference, varying

FEW = 3
"""Choices that a line of the first screen names; of more only some."""


class Pair(NamedTuple):
    """A row with a number, and what the launches say of it beside the other one."""

    row: Row
    name: str
    """Of the other one."""
    other: Row
    conclusion: Conclusion


def answer(ask: Compare, group: Rows, rows: Rows) -> Answer:
    """Of the largest size that says something, or along an axis."""
    claim, size, here, lost = ask.claim or {}, base.size_axis(group), group, group
    claimed = where(group, **claim)
    if not with_work(ask, claimed):
        return base.unavailable(ask, claimed)
    if size and size != ask.over:
        here = base.at_size(
            group,
            lambda some: any(pair.row.has(claim) for pair in pairs_of(ask, some, rows)),
            lambda some: with_work(ask, some),
        )
        # what failed at a larger size is said, too
        lost = [row for row in group if int(row.axes[size]) >= int(here[0].axes[size])]
    measured, pairs = with_work(ask, here), pairs_of(ask, here, rows)
    axes = base.named_axes(ask, measured)
    shown = [row for row in measured if not ask.over or row.has(claim)]
    figures = [_figure(ask, row, axes, pairs) for row in shown]
    if isinstance(ask, Scaling):
        state, verdict = _enough(ask, shown, axes)
    else:
        state, verdict = _verdict(ask, [pair for pair in pairs if pair.row.has(claim)])
    limits = base.limits(shown, lambda row: _value(ask, row)) if ask.unit == "GB/s" else ()
    others = [axis for axis in varying(group) if axis not in axes]
    return base.made(
        ask,
        state,
        verdict,
        [*figures, *limits],
        lost=lost,
        lines=_lines(ask, shown, figures),
        shared=base.shared(ask, measured, others) if not size or size != ask.over else (),
    )


def best(ask: Best, group: Rows, rows: Rows) -> Answer:
    """What is chosen is held against the value that costs most beside it; no choice is named that
    the launches leave open."""
    work, figures, named, left = declared(ask.workload), list[Figure](), list[str](), list[str]()
    usual = {*(work.base().items() if work else ())}
    for axis in ask.axes:
        fixed = [name for name in varying(group) if name != axis]
        lines = [some for _, some in base.grouped(base.ordered(group, ""), fixed)]
        along = max(lines, key=lambda some: (len(some), len(usual & {*some[0].axes.items()})))
        chosen, others = _unbeaten(along, lambda row: row.by_launch)
        if others:
            gain, other = max(others, key=lambda pair: base.weight(pair[0]))
            beside = f"{ask.name(other, [axis])} {format_seconds(other.time)}"
            figures.append(base.figure_of(ask.name(chosen, [axis]), chosen, gain, beside=beside))
            if gain.verdict == "undecided":
                left.append(axis)
            else:
                named.append(figures[-1].label)
    why = base.joined(left) if figures else "no two cases differ on one axis alone"
    verdict = "; ".join(filter(None, [base.joined(named), why and f"undecided: {why}"]))
    return base.made(ask, "figure" if named else "undecided", verdict, figures)


# ---- which rows, and what each is held against --------------------------------------------------


def with_work(ask: Compare, rows: Rows) -> list[Row]:
    """Those with a number, the fewest first."""
    return [row for row in base.ordered(rows, ask.over) if not ask.work or ask.work(row)]


def pairs_of(ask: Compare, here: Rows, rows: Rows) -> list[Pair]:
    """Each row with a number beside the other one that it is held against, which has one, too: what
    `beside` says, else the same case but for the baseline's choices, or with the fewest."""
    measured, pairs = with_work(ask, here), list[Pair]()
    work, baseline = declared(ask.workload), ask.baseline
    if baseline is None and measured and ask.over and ask.claim is None:
        baseline = {ask.over: measured[0].axes[ask.over]}
    elif baseline is None:
        baseline = work.base() if work else {}
    axes = varying(measured) if ask.claim is None else ask.claim
    changed = {axis: baseline[axis] for axis in axes if axis in baseline}
    for row in measured:
        if ask.beside is not None:
            name, workload, known = ask.beside(row)
            work = declared(workload)
            known = {axis: known[axis] for axis in known if work is None or axis in work.axes}
            other = first(rows, workload, **known)
        else:
            name = ask.name(row.with_axes(**changed), changed)
            other = first(measured, **{**row.axes, **changed}) if changed else None
        if other is not None and other.case != row.case:
            conclusion = conclude(_launches(ask, row), _launches(ask, other))
            pairs.append(Pair(row, name, other, conclusion))
    return pairs


def _launches(ask: Compare, row: Row) -> Launches:
    """The times of as much work."""
    work = ask.work(row) if ask.work else None
    return {n: s / work for n, s in row.by_launch.items()} if work else row.by_launch


def _unbeaten(
    rows: Rows, launches: Callable[[Row], Launches]
) -> tuple[Row, list[tuple[Conclusion, Row]]]:
    """The first than which none is established to be faster, and what is known beside each other;
    nothing of the last, where each is beaten."""
    for chosen in rows:
        others = [(conclude(launches(chosen), launches(r)), r) for r in rows if r is not chosen]
        if all(known.verdict != "slower" for known, _ in others):
            break
    return chosen, others


# ---- what is said of them -----------------------------------------------------------------------


def _value(ask: Compare, row: Row) -> float | None:
    """In the unit of the question; None where it is not known. A rate is that of the work that is
    asked about, else the stored one."""
    if ask.unit == "s" or ask.work is None:
        return row.gb_per_s if ask.unit == "GB/s" else row.seconds
    work = ask.work(row)
    return work / row.seconds / (GB if ask.unit == "GB/s" else 1) if work and row.seconds else None


def _figure(ask: Compare, row: Row, axes: Sequence[str], pairs: Sequence[Pair]) -> Figure:
    """The row's number, and what it is beside the other one."""
    pair = next((pair for pair in pairs if pair.row is row), None)
    value, beside, against = _value(ask, row), "", ""
    if pair is not None:
        against = difference(pair.conclusion, is_share=ask.work is not None)
        beside = f"{pair.name} {in_unit(_value(ask, pair.other) or pair.other.time, ask.unit)}"
    elif any(pair.other is row for pair in pairs):
        against = base.BASELINE
    return base.figure_of(
        ask.name(row, axes or [base.size_axis([row])]),
        row,
        pair and pair.conclusion,
        rate=None if ask.unit == "s" or value is None else (value, ask.unit),
        against=against,
        beside=beside,
        notes=[ask.note(row), "oversubscribed" * row.is_oversubscribed],
    )


def _verdict(ask: Compare, compared: Sequence[Pair]) -> tuple[State, str]:
    """Of a claim, whether it holds, and where."""
    verdicts = {pair.conclusion.verdict for pair in compared}
    if ask.claim is None:
        is_open = "undecided" in verdicts and not verdicts & {"faster", "slower"}
        return "undecided" if is_open and ask.unit == "s" else "figure", ""
    state: State = "undecided" if not verdicts or "undecided" in verdicts else "no"
    if "faster" in verdicts:
        state = "yes" if len(verdicts) == 1 else "partly"
    if not ask.over or not verdicts:
        return state, state
    stretches = []
    for verdict, group in groupby(compared, key=lambda pair: pair.conclusion.verdict):
        stretches.append(f"{verdict} {ask.span(ask.over, [pair.row for pair in group])}")
    words = ", ".join(stretches)
    return state, words if words.startswith(state) else f"{state}: {words}"


def _enough(ask: Scaling, shown: Rows, axes: Sequence[str]) -> tuple[State, str]:
    """The fewest than which no other number is established to be faster."""
    fewest, others = _unbeaten(shown, lambda row: _launches(ask, row))
    label, verdicts = ask.name(fewest, axes), {known.verdict for known, _ in others}
    if verdicts == {"undecided"}:
        return "undecided", "undecided: none is established to be faster"
    is_open = fewest is shown[-1] or "undecided" in verdicts
    return "figure", f"enough: {label}; {'more may be faster' if is_open else 'more is no faster'}"


def _lines(ask: Compare, shown: Rows, figures: Sequence[Figure]) -> Iterator[ScreenLine]:
    """The row that differs most, after the one that it is held against; a few where none is."""
    rows = [*zip(shown, figures, strict=True)]
    compared = [pair for pair in rows if pair[1].conclusion]
    if not compared and ask.claim is None:
        some = figures if len(figures) <= FEW else [*figures[:2], figures[-1]]
        numbers = ", ".join(f"{figure.label} {figure.number()}" for figure in some)
        crowded = "oversubscribed" * shown[-1].is_oversubscribed
        yield ScreenLine(ask.fill(ask.screen, shown[0].axes), numbers, crowded)
    each = [{axis: value} for axis, values in ask.screen_each.items() for value in values]
    for chosen in each or [dict[str, Any]()]:
        if candidates := [pair for pair in compared if pair[0].has(chosen)]:
            row, most = max(candidates, key=lambda pair: base.weight(pair[1].conclusion))
            what = ask.fill(ask.screen, row.axes)
            name = "" if ask.claim else most.label  # which names the claim
            numbers = f"{most.beside} -> {name} {most.number()}".replace("  ", " ")
            habit = ": ".join(filter(None, [what, name])) * ask.is_habit
            yield ScreenLine(what, numbers, most.against, most.conclusion, habit)
