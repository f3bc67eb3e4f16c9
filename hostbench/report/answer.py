"""The answer to one question about one run: figures, and a verdict where it says more; and what all
kinds of questions need to make one."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

from hostbench.core import units
from hostbench.core.case import AxisValue, counts_bytes
from hostbench.families import declared, question
from hostbench.families.question import Figure, FigureUnit, Question, Row, Rows, valid, where
from hostbench.judge.conclude import Conclusion
from hostbench.report.blocks import Block, Column, Item, Subheading, Table

State = Literal["yes", "no", "partly", "figure", "undecided", "unavailable"]

CLOSE = 0.25
"""An undecided comparison that leaves less than this possible is worth its bound; beyond it what
matters is why the launches do not tell."""
BASELINE = "baseline"
LONG = 60
"""Characters of notes that stand in one line."""
_TITLES = {"choice": "choice", "figure": "figure", "against": "verdict", "note": "note"}
"""Of the columns of its figures."""


@dataclass(frozen=True, slots=True)
class ScreenLine:
    """What the first screen says of one question: at most 100 characters in three columns."""

    what: str
    figures: str
    verdict: str
    conclusion: Conclusion | None = None
    """What the verdict rests on, where it names a difference."""
    habit: str = ""
    """How the summary on top calls it, where the difference is established."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One question of the host/device paradigm with what a run says about it."""

    family: str
    workload: str
    """The one that the question is about."""
    question: str
    """Its text, with the choices that this answer is about."""
    state: State
    verdict: str = ""
    """One short sentence, where the figures do not say it themselves."""
    figures: tuple[Figure, ...] = ()
    shared: tuple[str, ...] = ()
    """`64MiB`, `async`: the size and the further choices that all figures share."""
    lines: tuple[ScreenLine, ...] = ()
    """Of the first screen; none for a question that only the full report answers."""

    @property
    def at(self) -> str:
        """`At 64MiB, async.`"""
        return f"At {', '.join(self.shared)}." if self.shared else ""

    def headline(self) -> str:
        """In one line: as the first screen says it, else the verdict."""
        shown = [", ".join(filter(None, (line.figures, line.verdict))) for line in self.lines]
        return next(iter(shown), self.verdict or self.state)

    def blocks(self) -> Iterator[Block]:
        """As pages have it: the question, the verdict, a row for each figure, and of many words one
        for each note."""
        stop = "." * (not self.question.endswith("?") and bool(self.at))
        yield Subheading(f"{self.question}{stop} {self.at}".strip())
        if self.verdict:
            yield Item(f"  {self.verdict}")
        rows = list[dict[str, str]]()
        has_baseline = any(figure.against == BASELINE for figure in self.figures)
        for figure in self.figures:
            beside = "" if has_baseline else figure.beside
            notes = [*filter(None, [beside, figure.reason, *figure.notes])]
            if sum(map(len, figure.notes)) <= LONG:
                notes = ["; ".join(notes)]
            note, *more = notes
            row = {"choice": figure.label, "figure": figure.number(), "against": figure.against}
            rows.append({**row, "note": note})
            rows += ({**dict.fromkeys(row, ""), "note": note} for note in more)
        if rows:
            shown = [key for key in _TITLES if any(row[key] for row in rows)]
            yield Table(tuple(Column((key,), _TITLES[key]) for key in shown), rows, indent=4)


# ---- which rows ---------------------------------------------------------------------------------


def grouped(
    rows: Iterable[Row], axes: Sequence[str]
) -> Iterator[tuple[dict[str, AxisValue], list[Row]]]:
    """Rows with the same values on these axes, in the order in which they come."""
    groups: dict[tuple[AxisValue, ...], list[Row]] = {}
    for row in rows:
        if all(axis in row.axes for axis in axes):
            groups.setdefault(tuple(row.axes[axis] for axis in axes), []).append(row)
    for values, group in groups.items():
        yield dict(zip(axes, values, strict=True)), group


def varying(rows: Rows) -> tuple[str, ...]:
    """The axes on which rows differ, in the order of the declaration."""
    names = dict.fromkeys(name for row in rows for name in row.axes)
    return tuple(n for n in names if len({row.axes.get(n) for row in rows}) > 1)


def named_axes(ask: Question, here: Rows) -> Sequence[str]:
    """The axes on which these rows differ; of a single one those on which others would."""
    work, over = declared(ask.workload), getattr(ask, "over", "")
    chosen = [axis for axis, values in ask.where.items() if isinstance(values, tuple)]
    base = work.base() if work else {}
    declares = [
        axis for axis in base if work and len(work.axes[axis]) > 1 and axis not in ask.where
    ]
    others = [over] if over else ["workload"] if ask.also else chosen or declares
    return varying(here) or [axis for axis in others if axis not in ask.each]


def size_axis(rows: Iterable[Row]) -> str:
    """The axis that counts bytes; empty where none does."""
    names = (name for row in rows for name in row.axes)
    return next(filter(counts_bytes, names), "")


def ordered(rows: Iterable[Row], axis: str) -> list[Row]:
    """The valid rows, the smallest on this axis of numbers first; as they come without one."""
    return sorted(valid(rows), key=lambda row: int(row.axes[axis]) if axis else 0)


def at_size(rows: Rows, *is_enough: Callable[[Rows], bool | Rows]) -> Rows:
    """The rows of the largest size that are enough, by the first of these that any is; else all."""
    if axis := size_axis(rows):
        sizes = sorted({int(row.axes[axis]) for row in rows}, reverse=True)
        groups = [where(rows, **{axis: size}) for size in sizes]
        for test in is_enough:
            if enough := [group for group in groups if test(group)]:
                return enough[0]
    return rows


# ---- what is said of them -----------------------------------------------------------------------


def made(
    ask: Question,
    state: State,
    verdict: str = "",
    figures: Iterable[Figure] = (),
    *,
    lost: Rows = (),
    lines: Iterable[ScreenLine] = (),
    **more: Any,
) -> Answer:
    """Of `lost` a figure says why rows have no number; those of one reason are one."""
    alike: dict[tuple[str, str | None], list[Row]] = {}
    for row in lost:
        if not row.is_valid:
            is_odd = row.status == "ok"
            why = ("refused", "its time is not positive") if is_odd else (row.status, row.reason)
            alike.setdefault(why, []).append(row)
    axes, lacking = varying(lost), list[Figure]()
    for (status, reason), some in alike.items():
        label = f"{len(some)} cases" if len(some) > 1 else ask.name(some[0], axes)
        lacking.append(Figure(label or some[0].function, None, "s", status=status, reason=reason))
    return Answer(
        family=ask.workload.partition(".")[0],
        workload=ask.workload,
        question=ask.text,
        verdict=verdict,
        state=state,
        figures=(*figures, *lacking),
        lines=tuple(lines) if ask.screen else (),
        **more,
    )


def unavailable(ask: Question, group: Rows, rows: Rows = ()) -> Answer:
    """No case has a valid number: the reasons, failures first."""
    answer = made(ask, "unavailable", lost=group)
    why = {f"{figure.status}: {figure.reason or 'without a reason'}" for figure in answer.figures}
    return replace(answer, verdict="; ".join(sorted(why)) or f"not measured: {question.NOT_ASKED}")


def shared(ask: Question, here: Rows, axes: Iterable[str] = ()) -> tuple[str, ...]:
    """`64MiB`, `async`: the size and the further choices that all these rows share."""
    size, known = size_axis(here), here[0].axes
    named = [axis for axis in axes if axis != size and axis in known]
    if known.get(size):  # a barrier has no size
        named = [size, *named]
    return tuple(filter(None, (ask.word(axis, known[axis]) for axis in named)))


def figure_of(
    label: str,
    row: Row,
    conclusion: Conclusion | None = None,
    *,
    rate: tuple[float, FigureUnit] | None = None,
    against: str = "",
    beside: str = "",
    notes: Iterable[str] = (),
) -> Figure:
    """The time of a valid row, or its rate, and what the launches say of it beside the baseline."""
    value, unit = rate or (row.time, "s")
    return Figure(
        label or row.function,
        value,
        unit,
        low=None if rate else row.ci_low_s,
        high=None if rate else row.ci_high_s,
        against=against or (difference(conclusion) if conclusion else ""),
        beside=beside,
        conclusion=conclusion,
        notes=tuple(filter(None, notes)),
    )


def difference(conclusion: Conclusion, is_share: bool = False) -> str:
    """A conclusion in a few words: `2.6x faster (2.1-3.2)`, `same within 3%`, or how large a
    difference may still be, or why the launches do not tell. What is slower may have a share of the
    other's speed instead: `57% of the speed (38%-86%)`."""
    if conclusion.is_different:
        low, high = conclusion.low or math.nan, conclusion.high or math.nan
        if is_share and conclusion.verdict == "slower":
            return f"{conclusion.factor:.0%} of the speed ({low:.0%}-{high:.0%})"
        ends = (low, high) if conclusion.verdict == "faster" else (1 / high, 1 / low)
        between = "-".join(units.format_factor(end)[:-1] for end in ends)
        return f"{units.format_factor(factor(conclusion))} {conclusion.verdict} ({between})"
    if conclusion.verdict == "same":
        return f"same within {_percent(conclusion.possible)}"
    if conclusion.low is None:
        return "undecided: too few launches"
    if conclusion.possible <= CLOSE:
        return f"differs by less than {_percent(conclusion.possible)}"
    spread = conclusion.spread
    vary = f"{spread:.0f}x" if spread > 2 else _percent(spread)  # `20x` reads, `1988%` does not
    return f"undecided: launches vary {vary}"


def _percent(share: float) -> str:
    return f"{math.ceil(100 * share)}%" if math.isfinite(share) else "any factor"


def weight(conclusion: Conclusion) -> tuple[bool, float, float]:
    """The largest difference that is established, else what leaves most possible."""
    is_different = conclusion.is_different
    return is_different, 0.0 if is_different else conclusion.possible, factor(conclusion)


def factor(conclusion: Conclusion) -> float:
    """How many times faster or slower, 1 or more."""
    return max(conclusion.factor, 1 / conclusion.factor)


def joined(texts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = [*texts] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def limits(
    rows: Rows, rate: Callable[[Row], float | None] = lambda row: row.gb_per_s
) -> Iterator[Figure]:
    """The largest limit of these rows, unless a rate exceeds it; the lowest of what is published.
    Of the bytes that `rate` counts, not always the stored ones."""
    limited, published = list[tuple[float, float, Row]](), list[Figure]()
    for row in rows:
        number = rate(row) or 0.0
        times = number / row.gb_per_s if row.gb_per_s else 1.0
        if row.ceiling_gb_per_s and times:
            limited.append((row.ceiling_gb_per_s * times, number, row))
        if row.published and row.published_low_gb_per_s:
            low = row.published_low_gb_per_s * times
            published.append(Figure("published", low, "GB/s", notes=(row.published,)))
    if limited:
        limit, _, best = max(limited, key=itemgetter(0))
        size, since = size_axis([best]), ""
        if size and len(limited) < len(rows):  # small copies may stay in a cache
            smallest = min(int(row.axes[size]) for *_, row in limited)
            since = f" from {units.format_bytes(smallest)} on"
        if max(number for _, number, _ in limited) < question.ABOVE * limit:
            yield Figure(f"limit{since}", limit, "GB/s", notes=(best.ceiling or "",))
    yield from published[:1]
