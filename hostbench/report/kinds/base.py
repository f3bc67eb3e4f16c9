"""What all kinds of questions share: rows by their axes, a figure, an answer with the reasons of
what has no number, and the limits of rates."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from hostbench.core import units
from hostbench.core.case import AxisValue, counts_bytes
from hostbench.families import question
from hostbench.families.question import (
    Figure,
    FigureUnit,
    Question,
    Row,
    Rows,
    in_unit,
    valid,
    where,
)
from hostbench.judge.conclude import Conclusion
from hostbench.report.answer import Answer, ScreenLine, State, difference


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


def size_axis(rows: Iterable[Row]) -> str | None:
    """The axis that counts bytes, if there is one."""
    names = (name for row in rows for name in row.axes)
    return next(filter(counts_bytes, names), None)


def ordered(rows: Iterable[Row], axis: str | None) -> list[Row]:
    """The valid rows, the smallest on this axis of numbers first; as they come without one."""
    known = valid(rows)
    return sorted(known, key=lambda row: int(row.axes[axis])) if axis else known


def at_size(rows: Rows, *is_enough: Callable[[Rows], bool | Rows]) -> Rows:
    """The rows of the largest size that are enough, by the first of these that any is; else all."""
    if axis := size_axis(rows):
        sizes = sorted({int(row.axes[axis]) for row in rows}, reverse=True)
        groups = [where(rows, **{axis: size}) for size in sizes]
        for test in is_enough:
            if enough := [group for group in groups if test(group)]:
                return enough[0]
    return rows


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
    axes = varying(lost)
    lacking = list[Figure]()
    for (status, reason), some in alike.items():
        label = ask.name(some[0], axes) or some[0].function
        label = f"{len(some)} cases" if len(some) > 1 else label
        lacking.append(Figure(label, None, "s", status=status, reason=reason))
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
    """No case has a valid number: the reasons, each once."""
    return made(ask, "unavailable", unseen(group), lost=group)


def unseen(rows: Rows) -> str:
    """Why there is no number: the reasons that were recorded, each once."""
    parts = []
    for status in ("failed", "not measured", "skipped"):  # what another run may show comes first
        reasons = dict.fromkeys(row.reason for row in rows if row.status == status)
        if reasons:
            parts.append(f"{status}: {'; '.join(filter(None, reasons)) or 'without a reason'}")
    return "; ".join(parts) or f"not measured: {question.NOT_ASKED}"


def shared(ask: Question, here: Rows, axes: Sequence[str] = ()) -> str:
    """`At 64MiB, async.`: the size and the further choices that all these rows share."""
    size = size_axis(here)
    named = [axis for axis in axes if axis != size and axis in here[0].axes]
    if size and here[0].axes[size]:  # a barrier has no size
        named = [size, *named]
    words = [ask.word(axis, here[0].axes[axis]) for axis in named]
    return f"At {', '.join(words)}." if words else ""


def side_by_side(
    values: Iterable[tuple[str, float | None]], unit: question.FigureUnit, between: str = ", "
) -> str:
    """`sync 10.3, async 10.9 GB/s`: names and values, a unit that all share once."""
    split = []
    for name, value in values:
        number, _, of = in_unit(value or 0.0, unit).replace(",", "").partition(" ")
        split.append((f"{name}:" if name.isdigit() else name, number, of))
    of_all = {of for *_, of in split}
    last = f" {''.join(of_all)}" if len(of_all) == 1 else ""
    words = (" ".join(filter(None, (name, n, "" if last else of))) for name, n, of in split)
    return f"{between.join(words)}{last}".rstrip()


def figure(
    label: str,
    row: Row,
    conclusion: Conclusion | None = None,
    *,
    rate: tuple[float, FigureUnit] | None = None,
    against: str = "",
    notes: Iterable[str] = (),
) -> Figure:
    """The time of a valid row, or its rate, and what the launches say of it beside the baseline."""
    more: dict[str, Any] = {"low": row.ci_low_s, "high": row.ci_high_s}
    value, unit = rate or (row.time, "s")
    return Figure(
        label or row.function,
        value,
        unit,
        against=against or (difference(conclusion) if conclusion else ""),
        conclusion=conclusion,
        note="; ".join(filter(None, notes)),
        **({} if rate else more),
    )


def limits(
    rows: Rows, rate: Callable[[Row], float | None] = lambda row: row.gb_per_s
) -> tuple[tuple[str, float] | None, list[str]]:
    """The largest limit of these rows, unless a rate exceeds it, as (what it is, GB/s); in words
    that and what is published. Of the bytes that `rate` counts, not always the stored ones."""
    largest, words, limited = None, list[str](), list[tuple[float, float, Row]]()
    for row in rows:
        number = rate(row) or 0.0
        times = number / row.gb_per_s if row.gb_per_s else 1.0
        if row.ceiling_gb_per_s and times:
            limited.append((row.ceiling_gb_per_s * times, number, row))
    if limited:
        limit, _, best = max(limited, key=itemgetter(0))
        size, since = size_axis([best]), ""
        if size and len(limited) < len(rows):  # small copies may stay in a cache
            smallest = min(int(row.axes[size]) for *_, row in limited)
            since = f" from {units.format_bytes(smallest)} on"
        if max(number for _, number, _ in limited) < question.ABOVE * limit:
            largest = f"limit{since}: {best.ceiling}", limit
            words.append(f"Limit{since}: {units.format_rate(limit)}, {best.ceiling}.")
    if published := next((row.published for row in rows if row.published), ""):
        words.append(f"Published: {published}.")
    return largest, words
