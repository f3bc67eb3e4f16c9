"""curve: a rate or a time over a size: latency and bandwidth, limits, where two lines cross."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.core.errors import UsageError
from hostbench.core.latency import Crossover, Fit, Times, crossover, fit
from hostbench.core.units import GB
from hostbench.families import declared
from hostbench.judge.compare import MIN_EFFECT
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report.answer import (
    Answer,
    Chart,
    Figure,
    Point,
    Ratio,
    Rule,
    ScreenLine,
    State,
    difference,
    joined,
)
from hostbench.report.kinds.finding import span
from hostbench.report.kinds.question import (
    LOG_TIME,
    RATE,
    Question,
    beside_limit,
    by_size,
    chart,
    choices,
    figure,
    rate_point,
    sizes_axis,
    time_point,
    unseen,
    varying,
    weight,
    without_number,
)
from hostbench.report.rows import Row, Rows, grouped, size_axis, times, valid, where

_STEPS = 60
_CROWDED = "some of the times are oversubscribed"
"""Why times hold no latency: ranks wait for a core as well as for each other."""
_FAR = 2.5
"""A limit further than this factor above the points would squash them: it is only told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Question):
    """With `fits`: latency and bandwidth of the first of these series that has numbers, and of all
    the others. With `crossing` (an axis, a value, another): from which size on the second is
    faster. With neither: the figure at the largest size beside its limit."""

    show: Literal["seconds", "rate"] = "rate"
    fits: tuple[Mapping[str, Any], ...] = ()
    crossing: tuple[str, Any, Any] | None = None

    def check(self) -> None:
        Question.check(self)
        work = declared(self.workload)
        if (self.fits or self.crossing) and work and not any(map(counts_bytes, work.axes)):
            raise UsageError(f"{self.text!r} needs sizes: {work.name} has no axis ...bytes")

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        for axes in self.fits:
            yield from choices(axes)
        if self.crossing:
            yield self.crossing[0], self.crossing[1:]

    def asks(self, group: Rows) -> bool:
        """A line, and where it crosses another, needs sizes."""
        size = size_axis(group)
        several = size is not None and len({row.axes[size] for row in group}) > 1
        return several or not (self.fits or self.crossing)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group) or ""
        state, verdict, figures = self._conclusion(group, size)
        return self.made(
            text,
            state,
            verdict,
            figures=(*figures, *without_number(group, self)),
            notes=tuple(limits_in_words(valid(group))),
            chart=self._chart(group, size) if size else None,
        )

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """Up to four sizes of the first series that has numbers, and where it gets fast."""
        size = size_axis(group) or ""
        series = next((some for axes in self.fits if (some := valid(where(group, **axes)))), [])
        series = sorted(series, key=lambda row: int(row.axes[size]))
        if len(series) < 2:
            return
        last = len(series) - 1
        shown = [series[i] for i in sorted({0, last // 3, 2 * last // 3, last})]
        rates = [int(row.axes[size]) / row.time for row in series]
        fast = next(row for row, rate in zip(series, rates, strict=True) if 2 * rate >= max(rates))
        yield ScreenLine(
            what=self.on_screen(shown[0]),
            figures=by_size(
                (self.word(size, row.axes[size]), int(row.axes[size]) / row.time / GB)
                for row in shown
            ),
            verdict=f"half speed by {self.word(size, fast.axes[size])}",
        )

    def _conclusion(self, group: Rows, size: str) -> tuple[State, str, list[Figure]]:
        if self.crossing is not None:
            return self._crossing(group, size)
        if not self.fits:
            return self._largest(group, size)
        found = list(self._fitted(group, size))
        figures = [figure for name, one in found for figure in _fit_figures(name, one)]
        said = [f"{name}: {fit_in_words(one)}" for name, one in found]
        told = any(one.refused is None for _, one in found)
        return ("figure" if told else "undecided", "; ".join(said) or unseen(group), figures)

    def _fitted(self, group: Rows, size: str) -> Iterator[tuple[str, Fit]]:
        for axes in self.fits:
            series = where(group, **axes)
            if valid(series):
                name = " ".join(self.word(axis, value) for axis, value in axes.items())
                crowded = any(row.is_oversubscribed for row in valid(series))
                yield name, Fit(refused=_CROWDED) if crowded else fit(times(series, size))

    def _largest(self, group: Rows, size: str) -> tuple[State, str, list[Figure]]:
        axes = [axis for axis in varying(group) if axis != size]
        figures = []
        for _, line in grouped(group, axes):
            if not valid(line):
                continue
            row = max(valid(line), key=lambda one: int(one.axes[size]) if size else 0)
            said = [self.name(row, axes), self.word(size, row.axes[size]) if size else ""]
            figures.append(_beside_its_limit(" ".join(filter(None, said)), row))
        return "figure", "; ".join(map(str, figures)), figures

    def _crossing(self, group: Rows, size: str) -> tuple[State, str, list[Figure]]:
        """By the rule at each size; where the line between them lies, from the medians."""
        axis, slow_value, fast_value = self.crossing or ("", "", "")
        slow, fast = (where(group, **{axis: value}) for value in (slow_value, fast_value))
        if not valid(slow) or not valid(fast):
            return "unavailable", unseen(slow if not valid(slow) else fast), []
        name, other_name = self.word(axis, fast_value), self.word(axis, slow_value)
        mine, others = ({int(row.axes[size]): row for row in valid(one)} for one in (fast, slow))
        figures, found = [], {}
        for nbytes in sorted(set(mine) & set(others)):
            row = mine[nbytes]
            found[nbytes] = conclude(row.by_launch, others[nbytes].by_launch)
            ratio = Ratio(to=other_name, conclusion=found[nbytes])
            figures.append(figure(f"{name}, {units.format_bytes(nbytes)}", row, ratio=ratio))
        return *_crossed(found, times(fast, size), times(slow, size), name), figures

    def _chart(self, group: Rows, size: str) -> Chart | None:
        axes = [axis for axis in varying(group) if axis != size]
        mark = rate_point if self.show == "rate" else time_point
        made = (mark(row, float(row.axes[size]), self.name(row, axes)) for row in group)
        points = [one for one in made if one is not None]
        if self.show != "rate":
            return chart("line", sizes_axis(size), LOG_TIME, points)
        top = max((one.y for one in points), default=0.0)
        curve, near_ones = self._curve(group, size), near(valid(group), top)
        return chart("line", sizes_axis(size), RATE, points, rules=near_ones, curve=curve)

    def _curve(self, group: Rows, size: str) -> tuple[Point, ...]:
        """The first line that was fitted."""
        fitted = (found for _, found in self._fitted(group, size) if found.refused is None)
        one = next(fitted, None)
        if one is None:
            return ()
        least, most = one.sizes[0], one.sizes[-1]
        sizes = [least * (most / least) ** (step / _STEPS) for step in range(_STEPS + 1)]
        return tuple(Point(x=n, y=n / one.seconds(n) / GB, series="fit") for n in sizes)


def _beside_its_limit(label: str, row: Row) -> Figure:
    return figure(label, row, rate=True, note=beside_limit(row))


def _fit_figures(name: str, found: Fit) -> list[Figure]:
    if found.refused:
        refused = Figure(label=name, value=None, unit="s", status="refused", reason=found.refused)
        return [refused]
    quality = f"{found.error:.0%} off in all"
    return [
        Figure(label=f"{name}: latency", value=found.latency_s, unit="s", note=quality),
        Figure(label=f"{name}: bandwidth", value=found.bytes_per_s / GB, unit="GB/s"),
        Figure(label=f"{name}: half of it from", value=found.half_rate_bytes, unit="bytes"),
    ]


def fit_in_words(found: Fit) -> str:
    """`latency 12 us, 55.2 GB/s, half of it from 645KiB on (11 sizes, 2% off in all, ...)`."""
    if found.refused:
        return f"latency and bandwidth cannot be said, {found.refused}"
    quality = f"{found.error:.0%} off in all"
    if found.worst >= 0.01:
        quality += f", at most {found.worst:.0%} at {units.format_bytes(found.worst_at)}"
    rate = units.format_rate(found.bytes_per_s / GB)
    half = units.about_bytes(found.half_rate_bytes)
    latency = units.format_seconds(found.latency_s)
    sizes = f"{len(found.sizes)} sizes, {quality}"
    return f"latency {latency}, {rate}, half of it from {half} on ({sizes})"


def _crossed(
    found: Mapping[int, Conclusion], fast: Times, slow: Times, name: str
) -> tuple[State, str]:
    """From which size on `name` is faster, or up to which one, by the sizes that are decided."""
    decided = {n: one for n, one in found.items() if one.verdict != "undecided"}
    if not any(one.is_different for one in decided.values()):
        nowhere = "no size has both numbers"
        if found:
            nowhere = f"{difference(max(found.values(), key=weight))} {span([*found])}"
        return "undecided", nowhere
    # Where both are the same, `name` does not count as faster, whatever its median is.
    held = {
        n: slow[n] if one.is_different else min(slow[n], (1 + MIN_EFFECT) * fast[n])
        for n, one in decided.items()
    }
    known = crossover(held, {n: fast[n] for n in decided})
    unsure = [units.format_bytes(n) for n in found if n not in decided]
    state, verdict = _crossover_in_words(known, name, bool(unsure))
    return state, verdict + (f"; undecided at {joined(unsure)}" if unsure else "")


def _crossover_in_words(known: Crossover, name: str, is_partial: bool) -> tuple[State, str]:
    if known.refused:
        return "undecided", f"no size from which {name} is faster can be said: {known.refused}"
    if known.always is not None:
        state: State = "partly" if is_partial else "yes" if known.always else "no"
        every = "every" if known.always else "no"
        of_them = " that is decided," if is_partial else ""
        return state, f"{name} is faster at {every} size{of_them} {span(known.sizes)}"
    about = units.about_bytes(known.nbytes)
    if is_partial:
        about = f"about {about}"
    where_ = f"only up to {about}" if known.only_below else f"from {about} on"
    return "partly", f"{name} is faster {where_}"


def rules(rows: Rows) -> list[Rule]:
    """The largest limit and the published band of these rows."""
    found = []
    limits = [row for row in rows if row.ceiling_gb_per_s]
    if limits:
        best = max(limits, key=lambda row: row.ceiling_gb_per_s or 0)
        where_ = _from(limits, [row for row in rows if not row.ceiling_gb_per_s])
        label = f"limit{where_}: {best.ceiling}"
        found.append(Rule(label=label, low=best.ceiling_gb_per_s or 0))
    cited = [row for row in rows if row.published_low_gb_per_s and row.published_high_gb_per_s]
    if cited:
        low = min(row.published_low_gb_per_s or 0 for row in cited)
        high = max(row.published_high_gb_per_s or 0 for row in cited)
        found.append(Rule(label=f"published: {cited[0].published}", low=low, high=high))
    return found


def _from(limited: Rows, free: Rows) -> str:
    """From which size on there is a limit, where smaller ones have none."""
    size = size_axis(limited)
    if not free or size is None:
        return ""
    return f" from {units.format_bytes(min(int(row.axes[size]) for row in limited))} on"


def near(rows: Rows, top: float) -> tuple[Rule, ...]:
    """Those that do not squash points of which `top` is the highest."""
    return tuple(rule for rule in rules(rows) if (rule.high or rule.low) <= _FAR * top)


def limits_in_words(rows: Rows) -> Iterator[str]:
    for rule in rules(rows):
        kind, _, what = rule.label.partition(": ")
        rate = f"{units.format_rate(rule.low)}, " if kind.startswith("limit") else ""
        yield f"{kind[:1].upper()}{kind[1:]}: {rate}{what}."
