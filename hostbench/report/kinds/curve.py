"""curve: a rate or a time over a size: latency and bandwidth, limits, where two lines cross."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.core.errors import UsageError
from hostbench.core.latency import Crossover, Fit, crossover, fit
from hostbench.core.units import GB
from hostbench.families import declared
from hostbench.judge.conclude import MIN_EFFECT, Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Figure, Point, Ratio, ScreenLine, State, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.finding import span
from hostbench.report.kinds.question import Question, figure
from hostbench.report.rows import Rows, grouped, ordered, size_axis, valid, varying, where

_STEPS = 60
_CROWDED = "some of the times are oversubscribed"
"""Why times hold no latency: ranks wait for a core as well as for each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Question):
    """With `fits`: latency and bandwidth of the first of these series that has numbers, and of all
    the others. With `crossing` (an axis, a value, another): from which size on the second is
    faster. With neither: the figure at the largest size beside its limit."""

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
            yield from questions.choices(axes)
        if self.crossing:
            yield self.crossing[0], self.crossing[1:]

    def asks(self, group: Rows) -> bool:
        """A line, and where it crosses another, needs sizes."""
        needs_sizes = bool(self.fits or self.crossing)
        has_sizes = size_axis(group) in varying(group)
        return Question.asks(self, group) and (has_sizes or not needs_sizes)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group) or ""
        if self.crossing is not None:
            state, verdict, figures = self._crossing(group, size, *self.crossing)
        elif self.fits:
            state, verdict, figures = self._latency(group, size)
        else:
            figures = self._largest(group, size)
            state, verdict = "figure", "; ".join(map(str, figures))
        notes = tuple(marks.limits_in_words(valid(group)))
        chart = self._chart(group, size) if size else None
        return self.made(text, state, verdict, figures, lost=group, notes=notes, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """Up to four sizes of the first series that has numbers, and where it gets fast."""
        size = size_axis(group) or ""
        series = next((some for axes in self.fits if (some := valid(where(group, **axes)))), [])
        rates = [
            (self.word(size, row.axes[size]), int(row.axes[size]) / row.time / GB)
            for row in ordered(series, size)
        ]
        if len(rates) < 2:
            return
        last, top = len(rates) - 1, max(rate for _, rate in rates)
        shown = [rates[i] for i in sorted({0, last // 3, 2 * last // 3, last})]
        fast = next(name for name, rate in rates if 2 * rate >= top)
        what = self.on_screen(ordered(series, size)[0])
        yield ScreenLine(what, questions.rates_by_size(shown), f"half speed by {fast}")

    def _latency(self, group: Rows, size: str) -> tuple[State, str, list[Figure]]:
        lines = self._fitted(group, size)
        figures = [figure for name, line in lines.items() for figure in _fit_figures(name, line)]
        words = [f"{name}: {fit_in_words(line)}" for name, line in lines.items()]
        is_fitted = any(line.refused is None for line in lines.values())
        verdict = "; ".join(words) or questions.unseen(group)
        return "figure" if is_fitted else "undecided", verdict, figures

    def _fitted(self, group: Rows, size: str) -> dict[str, Fit]:
        lines = {}
        for axes in self.fits:
            series = valid(where(group, **axes))
            if series:
                name = " ".join(self.word(axis, value) for axis, value in axes.items())
                crowded = any(row.is_oversubscribed for row in series)
                times = {int(row.axes[size]): row.time for row in series}
                lines[name] = Fit(refused=_CROWDED) if crowded else fit(times)
        return lines

    def _largest(self, group: Rows, size: str) -> list[Figure]:
        axes = [axis for axis in varying(group) if axis != size]
        figures = []
        for _, line in grouped(group, axes):
            for row in ordered(line, size)[-1:]:
                names = [self.name(row, axes), self.name(row, [size] if size else [])]
                label = " ".join(filter(None, names))
                figures.append(figure(label, row, rate=True, note=questions.beside_limit(row)))
        return figures

    def _crossing(
        self, group: Rows, size: str, axis: str, slower: Any, faster: Any
    ) -> tuple[State, str, list[Figure]]:
        """By the rule at each size; where the line between them lies, from the medians."""
        slow, fast = (where(group, **{axis: value}) for value in (slower, faster))
        if not valid(slow) or not valid(fast):
            return "unavailable", questions.unseen(fast if valid(slow) else slow), []
        name, to = self.word(axis, faster), self.word(axis, slower)
        mine, others = ({int(r.axes[size]): r for r in valid(side)} for side in (fast, slow))
        figures, conclusions = [], {}
        for nbytes in sorted(set(mine) & set(others)):
            row, other = mine[nbytes], others[nbytes]
            conclusions[nbytes] = conclude(row.by_launch, other.by_launch)
            ratio = Ratio(to, conclusions[nbytes])
            figures.append(figure(f"{name}, {units.format_bytes(nbytes)}", row, ratio=ratio))
        pairs = {n: (mine[n].time, others[n].time, known) for n, known in conclusions.items()}
        return *_crossed(pairs, name), figures

    def _chart(self, group: Rows, size: str) -> Any:
        axes, x = [axis for axis in varying(group) if axis != size], marks.sizes_axis(size)
        mark = marks.time_point if self.crossing else marks.rate_point
        points = [mark(row, float(row.axes[size]), self.name(row, axes)) for row in group]
        if self.crossing:
            return marks.chart("line", x, marks.LOG_TIME, points)
        rules, line = marks.near_limits(valid(group), points), self._line(group, size)
        return marks.chart("line", x, marks.RATE, points, rules=rules, curve=line)

    def _line(self, group: Rows, size: str) -> tuple[Point, ...]:
        """The first that was fitted."""
        for line in self._fitted(group, size).values():
            if line.refused is None:
                least, most = line.sizes[0], line.sizes[-1]
                sizes = [least * (most / least) ** (step / _STEPS) for step in range(_STEPS + 1)]
                return tuple(Point(x=n, y=n / line.seconds(n) / GB, series="fit") for n in sizes)
        return ()


def _fit_figures(name: str, line: Fit) -> list[Figure]:
    if line.refused:
        return [Figure(name, None, "s", status="refused", reason=line.refused)]
    quality = f"{line.error:.0%} off in all"
    return [
        Figure(f"{name}: latency", line.latency_s, "s", note=quality),
        Figure(f"{name}: bandwidth", line.bytes_per_s / GB, "GB/s"),
        Figure(f"{name}: half of it from", line.half_rate_bytes, "bytes"),
    ]


def fit_in_words(line: Fit) -> str:
    """`latency 12 us, 55.2 GB/s, half of it from 645KiB on (11 sizes, 2% off in all, ...)`."""
    if line.refused:
        return f"latency and bandwidth cannot be said, {line.refused}"
    quality = f"{line.error:.0%} off in all"
    if line.worst >= 0.01:
        quality += f", at most {line.worst:.0%} at {units.format_bytes(line.worst_at)}"
    rate = units.format_rate(line.bytes_per_s / GB)
    half, latency = units.about_bytes(line.half_rate_bytes), units.format_seconds(line.latency_s)
    return (
        f"latency {latency}, {rate}, half of it from {half} on ({len(line.sizes)} sizes, {quality})"
    )


def _crossed(pairs: Mapping[int, tuple[float, float, Conclusion]], name: str) -> tuple[State, str]:
    """From which size on `name` is faster, or up to which one, by the sizes that are decided.
    `pairs`: bytes -> seconds of `name`, seconds of the other, what the launches say of them."""
    conclusions = {nbytes: conclusion for nbytes, (*_, conclusion) in pairs.items()}
    if not any(conclusion.is_different for conclusion in conclusions.values()):
        if not pairs:
            return "undecided", "no size has both numbers"
        largest = max(conclusions.values(), key=answers.weight)
        return "undecided", f"{answers.difference(largest)} {span([*pairs])}"
    fast, slow, unsure = {}, {}, []
    for nbytes, (mine_s, other_s, conclusion) in pairs.items():
        if conclusion.verdict == "undecided":
            unsure.append(units.format_bytes(nbytes))
            continue
        # Where both are the same, `name` does not count as faster, whatever its median is.
        is_same = not conclusion.is_different
        fast[nbytes] = mine_s
        slow[nbytes] = min(other_s, (1 + MIN_EFFECT) * mine_s) if is_same else other_s
    state, verdict = _crossover_in_words(crossover(slow, fast), name, bool(unsure))
    return state, verdict + (f"; undecided at {joined(unsure)}" if unsure else "")


def _crossover_in_words(known: Crossover, name: str, is_partial: bool) -> tuple[State, str]:
    if known.refused:
        return "undecided", f"no size from which {name} is faster can be said: {known.refused}"
    if known.always is not None:
        state: State = "partly" if is_partial else "yes" if known.always else "no"
        every = "every" if known.always else "no"
        of_them = " that is decided," if is_partial else ""
        return state, f"{name} is faster at {every} size{of_them} {span(known.sizes)}"
    about = f"{'about ' if is_partial else ''}{units.about_bytes(known.nbytes)}"
    where_ = f"only up to {about}" if known.only_below else f"from {about} on"
    return "partly", f"{name} is faster {where_}"
