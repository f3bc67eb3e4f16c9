"""Compare: what the choices on some axes cost or gain beside a baseline, at one size or along an
axis of numbers; Scaling: the fewest workers, ranks or items in a batch that are enough; Best: what
to choose on each of several axes."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from hostbench.core.samples import Launches
from hostbench.core.units import GB
from hostbench.families import declared, question
from hostbench.families.question import Best, Compare, Figure, Row, Rows, Scaling, first, where
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report.answer import Answer, ScreenLine, State, difference, joined, weight
from hostbench.report.kinds import base
from hostbench.report.kinds.base import size_axis, varying

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
    claim, size = ask.claim or {}, size_axis(group)
    claimed = where(group, **claim)
    if not with_work(ask, claimed):
        return base.unavailable(ask, [row for row in claimed if not row.is_valid])
    here, lost, at = group, group, ""
    if size is not None and size != ask.over:
        here = base.at_size(
            group,
            lambda some: any(pair.row.has(claim) for pair in _pairs(ask, some, rows)),
            lambda some: with_work(ask, some),
        )
        # what failed at a larger size is said, too
        lost = [row for row in group if int(row.axes[size]) >= int(here[0].axes[size])]
    axes, pairs, measured = _named_axes(ask, here), _pairs(ask, here, rows), with_work(ask, here)
    if size != ask.over:
        at = base.shared(ask, here, [axis for axis in varying(group) if axis not in axes])
    shown = [row for row in measured if not ask.over or row.has(claim)]
    figures = [_figure(ask, row, axes, pairs, shown) for row in shown]
    compared = [pair for pair in pairs if pair.row in shown and pair.row.has(claim)]
    if isinstance(ask, Scaling):
        state, verdict = _enough(ask, shown, figures)
    else:
        state, verdict = _verdict(ask, compared)
    if ask.ideal is not None:
        name, ideal = _beside(rows, *ask.ideal(shown[0]))
        figures += [base.figure(name, ideal)] if ideal else []
    return base.made(
        ask,
        state,
        verdict,
        figures,
        lost=lost,
        lines=_lines(ask, measured, pairs) if ask.screen else (),
        at=at,
        notes=base.limits(shown, lambda row: _value(ask, row))[1] if ask.unit == "GB/s" else (),
    )


def best(ask: Best, group: Rows, rows: Rows) -> Answer:
    """What is chosen is held against the value that costs most beside it; no choice is named that
    the launches leave open."""
    work, figures, named, left = declared(ask.workload), list[Figure](), list[str](), list[str]()
    usual = {*(work.base().items() if work else ())}
    for axis in ask.axes:
        fixed = [name for name in varying(group) if name != axis]
        lines = [some for _, some in base.grouped(base.ordered(group, None), fixed)]
        along = max(lines, key=lambda some: (len(some), len(usual & {*some[0].axes.items()})))
        for chosen in along:
            others = [row for row in along if row is not chosen]
            gains = [(conclude(chosen.by_launch, row.by_launch), row) for row in others]
            if all(gain.verdict != "slower" for gain, _ in gains):
                break
        if not gains:
            continue
        gain, other = max(gains, key=lambda pair: weight(pair[0]))
        beside = f"{ask.name(other, [axis])} {question.in_unit(other.time, 's')}"
        figures.append(base.figure(ask.name(chosen, [axis]), chosen, gain, notes=[beside]))
        if gain.verdict == "undecided":
            left.append(axis)
        else:
            named.append(figures[-1].label)
    why = joined(left) if figures else "no two cases differ on one axis alone"
    verdict = "; ".join(filter(None, [joined(named), why and f"undecided: {why}"]))
    return base.made(ask, "figure" if named else "undecided", verdict, figures)


# ---- which rows, and what each is held against --------------------------------------------------


def with_work(ask: Compare, rows: Rows) -> list[Row]:
    """Those with a number, the fewest first."""
    known = base.ordered(rows, ask.over or None)
    return [row for row in known if ask.work is None or ask.work(row) is not None]


def _baseline(ask: Compare) -> Mapping[str, Any]:
    work = declared(ask.workload)
    return ask.baseline or {} if ask.baseline is not None or work is None else work.base()


def _pairs(ask: Compare, here: Rows, rows: Rows) -> list[Pair]:
    """Each row with a number beside the other one that it is held against, which has one, too."""
    baseline, measured, pairs = _baseline(ask), with_work(ask, here), []
    common = {axis: baseline[axis] for axis in varying(here) if axis in baseline}
    claimed = {axis: baseline[axis] for axis in ask.claim or {} if axis in baseline}
    for row in measured:
        name, other = "", None
        if ask.claim is not None:  # the same case but for what is claimed
            other = first(measured, **{**row.axes, **claimed})
        elif ask.beside is not None:
            name, other = _beside(rows, *ask.beside(row))
        elif ask.over:
            other = None if ask.baseline == {} else measured[0]
        elif common:
            other = first(measured, **common)
        if other is not None and other.case != row.case:
            differ = [axis for axis in other.axes if other.axes[axis] != row.axes.get(axis)]
            conclusion = conclude(_launches(ask, row), _launches(ask, other))
            pairs.append(Pair(row, name or ask.name(other, differ), other, conclusion))
    return pairs


def _beside(
    rows: Rows, name: str, workload: str, axes: Mapping[str, Any]
) -> tuple[str, Row | None]:
    work = declared(workload)
    known = {axis: value for axis, value in axes.items() if work is None or axis in work.axes}
    return name, first(rows, workload, **known)


def _launches(ask: Compare, row: Row) -> Launches:
    """The times of as much work."""
    work = ask.work(row) if ask.work else None
    return {n: s / work for n, s in row.by_launch.items()} if work else row.by_launch


def _named_axes(ask: Compare, here: Rows) -> tuple[str, ...]:
    """The axes on which these rows differ; of a single one those on which others would."""
    work = declared(ask.workload)
    if (differ := varying(here)) or work is None:
        return differ
    chosen = [axis for axis, values in ask.where.items() if isinstance(values, tuple)]
    named = [ask.over] if ask.over else chosen if ask.beside else [*_baseline(ask)]
    declares = {axis for axis, values in work.axes.items() if len(values) > 1} - {*ask.each}
    return tuple(axis for axis in named if axis in declares and axis in here[0].axes)


# ---- what is said of them -----------------------------------------------------------------------


def _value(ask: Compare, row: Row) -> float | None:
    """In the unit of the question; None where it is not known. A rate is that of the work that is
    asked about, else the stored one."""
    if ask.unit == "s" or ask.work is None:
        return row.gb_per_s if ask.unit == "GB/s" else row.seconds
    work = ask.work(row)
    return work / row.seconds / (GB if ask.unit == "GB/s" else 1) if work and row.seconds else None


def _figure(
    ask: Compare, row: Row, axes: Sequence[str], pairs: Sequence[Pair], shown: Rows
) -> Figure:
    """The row's number, and what it is beside the other one; which is named where it has no figure
    of its own."""
    pair = next((own for own in pairs if own.row is row), None)
    notes, against = [ask.note(row), "oversubscribed" * row.is_oversubscribed], ""
    if pair is None:
        against = "baseline" * any(own.other is row for own in pairs)
    else:
        against = difference(pair.conclusion, is_share=ask.work is not None)
        if pair.other not in shown:
            number = question.in_unit(_value(ask, pair.other) or pair.other.time, ask.unit)
            notes.insert(0, f"{pair.name} {number}")
    value = _value(ask, row)
    return base.figure(
        ask.name(row, axes or filter(None, [size_axis([row])])),
        row,
        pair and pair.conclusion,
        rate=None if ask.unit == "s" or value is None else (value, ask.unit),
        against=against,
        notes=notes,
    )


def _verdict(ask: Compare, compared: Sequence[Pair]) -> tuple[State, str]:
    """Of a claim, whether it holds, and where."""
    verdicts = {pair.conclusion.verdict for pair in compared}
    if ask.claim is None:
        is_open = "undecided" in verdicts and not verdicts & {"faster", "slower"}
        return "undecided" if is_open and ask.unit == "s" else "figure", ""
    if not compared:
        return "undecided", "undecided: the case that it is compared with has no number in this run"
    state: State = "undecided" if "undecided" in verdicts else "no"
    if "faster" in verdicts:
        state = "yes" if len(verdicts) == 1 else "partly"
    if not ask.over:
        return state, state
    parts = []
    for verdict, group in groupby(compared, key=lambda pair: pair.conclusion.verdict):
        parts.append(f"{verdict} {ask.span(ask.over, [pair.row for pair in group])}")
    words = ", ".join(parts)
    return state, words if words.startswith(state) else f"{state}: {words}"


def _enough(ask: Compare, shown: Rows, figures: Sequence[Figure]) -> tuple[State, str]:
    """The fewest than which no more is established to be faster."""
    for best, fewest in enumerate(shown):
        least = _launches(ask, fewest)
        others = [(row, conclude(_launches(ask, row), least)) for row in shown if row is not fewest]
        more = {known.verdict for _, known in others[best:]}
        if "faster" not in more:
            break
    if others and all(known.verdict == "undecided" for _, known in others):
        return "undecided", "undecided: none is established to be faster"
    label = figures[best].label
    if not more:
        return "figure", f"fastest: {label}, the most that was measured"
    why = "more may be faster, or not" if "undecided" in more else "more is no faster"
    return "figure", f"enough: {label}; {why}"


def _lines(ask: Compare, measured: Sequence[Row], pairs: Sequence[Pair]) -> Iterator[ScreenLine]:
    """The row that differs most, after the one that it is held against; a few where none is."""
    axes = _named_axes(ask, measured)
    names = {row.case: ask.name(row, axes) for row in measured}
    if ask.unit == "items/s":  # which says what is counted
        names = {row.case: str(row.axes[ask.over]) for row in measured}
    is_named = "{choice}" not in ask.screen
    if not pairs and ask.claim is None and is_named:
        some = measured if len(measured) <= FEW else [*measured[:2], measured[-1]]
        values = base.side_by_side(((names[r.case], _value(ask, r)) for r in some), ask.unit)
        crowded = "oversubscribed" if some[-1].is_oversubscribed else ""
        yield ScreenLine(ask.fill(ask.screen, measured[0].axes), values, crowded)
    each = [{axis: value} for axis, values in ask.screen_each.items() for value in values]
    for chosen in each or [dict[str, Any]()]:
        own = [pair for pair in pairs if pair.row.has(chosen)]
        if not own:
            continue
        row, name, other, conclusion = max(own, key=lambda pair: weight(pair.conclusion))
        choice = names[row.case]
        ends = [(names.get(other.case, name), _value(ask, other)), (choice, _value(ask, row))]
        values = base.side_by_side([(n * is_named, v) for n, v in ends], ask.unit, " -> ")
        what = ask.fill(ask.screen, row.axes, choice=choice)
        habit = f"{what}: {choice}" if is_named else what
        verdict = difference(conclusion, is_share=ask.work is not None)
        yield ScreenLine(what, values, verdict, conclusion, habit * ask.is_habit)
