"""Compare: what the choices on some axes cost or gain beside a baseline, at one size or along an
axis of numbers; Scaling: the fewest workers, ranks or items in a batch that are enough."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from hostbench.core.samples import Launches
from hostbench.core.units import GB, format_factor, format_seconds
from hostbench.families import declared, question
from hostbench.families.question import Best, Compare, Figure, Row, Rows, Scaling, first, where
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Ratio, ScreenLine, State
from hostbench.report.kinds import base
from hostbench.report.kinds.base import size_axis, varying

FEW = 3
"""Choices that are named; of more only some, or how many."""


class Pair(NamedTuple):
    """A row with a number, and what the launches say of it beside the other one."""

    row: Row
    other: Row
    conclusion: Conclusion


def answer(ask: Compare, group: Rows, rows: Rows) -> Answer:
    """Of the largest size that says something, or along an axis."""
    claim, size = ask.claim or {}, size_axis(group)
    claimed = where(group, **claim)
    if not with_work(ask, claimed):
        return base.unavailable(ask, [row for row in claimed if not row.is_valid])
    is_at_size = size is not None and size != ask.over
    here = _largest(ask, group, rows) if is_at_size else group
    axes, pairs, measured = _named_axes(ask, here), _pairs(ask, here, rows), with_work(ask, here)
    beside = {pair.row.case: pair for pair in pairs}
    shown = [row for row in measured if not ask.over or row.has(claim)]
    figures = [_figure(ask, row, axes, beside.get(row.case)) for row in shown]
    state, verdict = (_enough if isinstance(ask, Scaling) else _verdict)(ask, shown, figures)
    lost: Rows = group
    others = [axis for axis in varying(group) if axis not in axes]
    at = base.shared(ask, here, others) if size is None or is_at_size else ""
    if size is not None and is_at_size:  # what failed at a larger size is said, too
        lost = [row for row in group if int(row.axes[size]) >= int(here[0].axes[size])]
    limits = base.limits(shown, lambda row: _value(ask, row))[1] if ask.unit == "GB/s" else ()
    if ask.ideal is not None and (ideal := _case(rows, *ask.ideal(shown[0]))):
        figures.append(base.timed(ask.ideal_name, ideal))
    return base.made(
        ask,
        state,
        verdict,
        figures,
        lost=lost,
        lines=_lines(ask, measured, pairs) if ask.screen else (),
        at=at,
        more_notes=tuple(limits),
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
        gain, other = max(gains, key=lambda pair: answers.weight(pair[0]))
        ratio = Ratio(ask.name(other, [axis]), gain)
        figures.append(base.timed(ask.name(chosen, [axis]), chosen, ratio=ratio))
        if gain.verdict == "undecided":
            left.append(axis)
        else:
            named.append(f"{figures[-1].label} ({ratio})")
    why = question.few_launches(group) if figures else "no two cases differ on one axis alone"
    undecided = f"undecided: {why or answers.joined(left)}" if why or left else ""
    verdict = "; ".join(filter(None, [answers.joined(named), undecided]))
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
        other = None
        if ask.claim is not None:  # the same case but for what is claimed
            other = first(measured, **{**row.axes, **claimed})
        elif ask.beside is not None:
            other = _case(rows, *ask.beside(row))
        elif ask.over:
            other = None if ask.baseline == {} else measured[0]
        elif common:
            other = first(measured, **common)
        if other is not None and other.case != row.case:
            conclusion = conclude(_launches(ask, row), _launches(ask, other))
            pairs.append(Pair(row, other, conclusion))
    return pairs


def _case(rows: Rows, workload: str, axes: Mapping[str, Any]) -> Row | None:
    work = declared(workload)
    known = {axis: value for axis, value in axes.items() if work is None or axis in work.axes}
    return first(rows, workload, **known)


def _launches(ask: Compare, row: Row) -> Launches:
    """The times of as much work."""
    work = ask.work(row) if ask.work else None
    return {n: s / work for n, s in row.by_launch.items()} if work else row.by_launch


def _largest(ask: Compare, group: Rows, rows: Rows) -> Rows:
    """The rows of the largest size at which one is held against another, else at which one has a
    number."""
    size = size_axis(group) or ""
    for nbytes in sorted({int(row.axes[size]) for row in group}, reverse=True):
        here = where(group, **{size: nbytes})
        if any(pair.row.has(ask.claim or {}) for pair in _pairs(ask, here, rows)):
            return here
    return where(group, **{size: base.at_size(with_work(ask, group))[0].axes[size]})


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


def _figure(ask: Compare, row: Row, axes: Sequence[str], pair: Pair | None) -> Figure:
    """The row's number, and what it is beside the other one."""
    crowded = "oversubscribed" if row.is_oversubscribed else ""
    more: dict[str, Any] = {"note": ", ".join(filter(None, [ask.note(row), crowded]))}
    if pair is not None:
        to = f"{ask.beside_name} ({format_seconds(pair.other.time)})"
        if ask.beside is None:
            differ = [axis for axis in axes if axis != ask.over or not ask.claim]
            to = ask.name(pair.other, differ) or "the baseline"
        more["ratio"] = Ratio(to, pair.conclusion, share_of=ask.share_of)
    label, value = ask.name(row, axes or filter(None, [size_axis([row])])), _value(ask, row)
    if ask.unit == "s" or value is None:
        return base.timed(label, row, **more)
    return Figure(label or row.function, value, ask.unit, **more)


def _verdict(ask: Compare, shown: Rows, figures: Sequence[Figure]) -> tuple[State, str]:
    """Names a winner and a factor only where the rule does; of a claim, whether it holds."""
    compared = [
        (row, figure)
        for row, figure in zip(shown, figures, strict=True)
        if figure.ratio is not None and row.has(ask.claim or {})
    ]
    if not compared and ask.claim is not None:
        return "undecided", "undecided: the case that it is compared with has no number in this run"
    if not compared or (ask.claim is None and (ask.unit != "s" or ask.share_of)):
        return "figure", "; ".join(answers.in_words(figures))
    verdicts = {figure.ratio.conclusion.verdict for _, figure in compared}
    is_along = ask.over and ask.claim
    words = _stretches(ask, compared) if is_along else _most(compared, figures)
    if not words:
        few = question.few_launches(shown)
        most = max((figure.ratio.conclusion for _, figure in compared), key=answers.weight)
        words = f"undecided: {few}" if few else answers.difference(most)
    if ask.claim is None:
        is_known = "undecided" not in verdicts or verdicts & {"faster", "slower"}
        return "figure" if is_known else "undecided", words
    if "faster" in verdicts:
        return "yes" if len(verdicts) == 1 else "partly", words
    return "undecided" if "undecided" in verdicts else "no", words


def _stretches(ask: Compare, compared: Sequence[tuple[Row, Figure]]) -> str:
    """`pinned: the same at 1KiB, up to 4.99x faster from 4KiB to 1GiB`."""
    parts = []
    for verdict, group in groupby(compared, key=lambda pair: pair[1].ratio.conclusion.verdict):
        rows, figures = zip(*group, strict=True)
        most = max(answers.factor(figure.ratio.conclusion) for figure in figures)
        upto = f"{'up to ' * (len(rows) > 1)}{format_factor(most)} {verdict}"
        words = {"same": "the same", "undecided": "undecided"}.get(verdict, upto)
        parts.append(f"{words} {ask.span(ask.over, rows)}")
    return f"{ask.name(compared[0][0], ask.claim or ())}: {', '.join(parts)}"


def _most(compared: Sequence[tuple[Row, Figure]], figures: Sequence[Figure]) -> str:
    """`direct 2.7x faster than moved`, the largest that is faster, else slower; nothing where
    the launches do not tell."""
    by_verdict: dict[str, list[Figure]] = {}
    for _, figure in sorted(compared, key=lambda pair: answers.weight(pair[1].ratio.conclusion)):
        by_verdict.setdefault(figure.ratio.conclusion.verdict, []).append(figure)
    slower = [figure.label for figure in by_verdict.get("slower", ())]
    for verdict in ("faster", "slower"):
        for most in by_verdict.get(verdict, ())[-1:]:
            others = [label for label in slower if label != most.label]
            also = answers.joined(others) if len(others) <= FEW else f"{len(others)} others"
            return f"{most.label} {most.ratio}{f'; {also} slower' if others else ''}"
    if [*by_verdict] == ["same"]:
        return f"the same within 5 %: {answers.joined(figure.label for figure in figures)}"
    return ""


def _enough(ask: Compare, shown: Rows, figures: Sequence[Figure]) -> tuple[State, str]:
    """The fewest than which no more is established to be faster."""
    if few := question.few_launches(shown):
        return "undecided", f"undecided: {few}"
    for best, fewest in enumerate(shown):
        least = _launches(ask, fewest)
        others = {r.case: conclude(_launches(ask, r), least) for r in shown if r is not fewest}
        more = {others[row.case].verdict for row in shown[best + 1 :]}
        if "faster" not in more:
            break
    if others and all(known.verdict == "undecided" for known in others.values()):
        return "undecided", answers.difference(max(others.values(), key=answers.weight))
    slower = answers.joined(
        f"{figure.label} {format_factor(1 / others[row.case].factor)}"
        for row, figure in zip(shown, figures, strict=True)
        if row.case in others and others[row.case].verdict == "slower"
    )
    none = "no difference with more" if "undecided" in more else "more is no faster"
    value = question.in_unit(figures[best].value or 0.0, ask.unit)
    verdict = f"{figures[best].label}: {value}{' a step' * (ask.unit == 's')}"
    verdict += f", and {none}" if more else ""
    return "figure", f"{verdict}; slower: {slower}" if slower else verdict


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
    for chosen in ask.screen_each:
        own = [pair for pair in pairs if pair.row.has(chosen)]
        if not own:
            continue
        row, other, conclusion = max(own, key=lambda pair: answers.weight(pair.conclusion))
        choice, beside = names[row.case], ask.beside_name if ask.beside else names[other.case]
        ends = (beside * is_named, _value(ask, other)), (choice * is_named, _value(ask, row))
        values = base.side_by_side(ends, ask.unit, " -> ")
        what = ask.fill(ask.screen, row.axes, choice=choice)
        if ask.share_of and conclusion.is_different:
            yield ScreenLine(what, values, f"{100 * conclusion.factor:.0f} % of {beside}")
        else:
            learnt = ask.fill(ask.learnt, row.axes, what=what, choice=choice)
            yield ScreenLine(what, values, answers.difference(conclusion), conclusion, learnt)
