"""curve: a rate or a time over a size: latency and bandwidth, limits, where two lines cross."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.core.errors import UsageError
from hostbench.core.latency import Fit, crossover, fit
from hostbench.core.units import GB
from hostbench.families import declared
from hostbench.judge.conclude import MIN_EFFECT, Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Chart, Figure, Point, Ratio, ScreenLine, State, joined
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

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from Question.chosen(self)
        yield from (pair for axes in self.fits for pair in axes.items())
        if self.crossing:
            yield self.crossing[0], self.crossing[1:]

    def asks(self, group: Rows) -> bool:
        """A line, and where it crosses another, needs sizes."""
        has_sizes = size_axis(group) in varying(group)
        return Question.asks(self, group) and (has_sizes or not (self.fits or self.crossing))

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group) or ""
        lines = self._fitted(group, size)
        if self.crossing is not None:
            state, verdict, figures = self._crossing(group, size, *self.crossing)
        elif self.fits:
            figures = [shown for name, line in lines.items() for shown in _fit_figures(name, line)]
            words = [f"{name}: {_fit_in_words(line)}" for name, line in lines.items()]
            verdict = "; ".join(words) or questions.unseen(group)
            is_fitted = any(line.refused is None for line in lines.values())
            state = "figure" if is_fitted else "undecided"
        else:
            figures = list(self._largest(group, size))
            state, verdict = "figure", "; ".join(map(str, figures))
        notes = tuple(marks.limits_in_words(valid(group)))
        chart = self._chart(group, size, lines) if size else None
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
        what = self.screen.format(**self.words_of(ordered(series, size)[0]))
        yield ScreenLine(what, questions.rates_by_size(shown), f"half speed by {fast}")

    def _fitted(self, group: Rows, size: str) -> dict[str, Fit]:
        lines = {}
        for axes in self.fits:
            if series := valid(where(group, **axes)):
                name = " ".join(self.word(axis, value) for axis, value in axes.items())
                crowded = any(row.is_oversubscribed for row in series)
                times = {int(row.axes[size]): row.time for row in series}
                lines[name] = Fit(refused=_CROWDED) if crowded else fit(times)
        return lines

    def _largest(self, group: Rows, size: str) -> Iterator[Figure]:
        axes = [axis for axis in varying(group) if axis != size]
        for _, line in grouped(group, axes):
            for row in ordered(line, size)[-1:]:
                label = self.name(row, [*axes, size] if size else axes)
                yield figure(label, row, rate=True, note=questions.beside_limit(row))

    def _crossing(
        self, group: Rows, size: str, axis: str, slower: Any, faster: Any
    ) -> tuple[State, str, list[Figure]]:
        """By the rule at each size; where the line between them lies, from the medians."""
        slow, fast = (where(group, **{axis: value}) for value in (slower, faster))
        if not valid(slow) or not valid(fast):
            return "unavailable", questions.unseen(fast if valid(slow) else slow), []
        name, to = self.word(axis, faster), self.word(axis, slower)
        mine, others = ({int(r.axes[size]): r for r in valid(side)} for side in (fast, slow))
        both = [(n, mine[n], others[n]) for n in sorted(set(mine) & set(others))]
        figures, pairs = [], {}
        for nbytes, row, other in both:
            conclusion = conclude(row.by_launch, other.by_launch)
            pairs[nbytes] = row.time, other.time, conclusion
            label = f"{name}, {units.format_bytes(nbytes)}"
            figures.append(figure(label, row, ratio=Ratio(to, conclusion)))
        return *_crossed(pairs, name), figures

    def _chart(self, group: Rows, size: str, lines: Mapping[str, Fit]) -> Chart | None:
        """With the first line that was fitted."""
        axes, x = [axis for axis in varying(group) if axis != size], marks.axis_of(size)
        y = marks.LOG_TIME if self.crossing else marks.RATE
        points = [
            marks.point(row, row.axes[size], self.name(row, axes), y.unit, row.gb_per_s)
            for row in group
        ]
        if self.crossing:
            return marks.chart("line", x, y, points)
        curve: tuple[Point, ...] = ()
        for line in [line for line in lines.values() if line.refused is None][:1]:
            least, most = line.sizes[0], line.sizes[-1]
            sizes = [least * (most / least) ** (step / _STEPS) for step in range(_STEPS + 1)]
            curve = tuple(Point(x=n, y=n / line.seconds(n) / GB, series="fit") for n in sizes)
        rules = marks.near_limits(valid(group), points)
        return marks.chart("line", x, y, points, rules=rules, curve=curve)


def _fit_figures(name: str, line: Fit) -> list[Figure]:
    if line.refused:
        return [Figure(name, None, "s", status="refused", reason=line.refused)]
    quality = f"fit error {line.error:.0%}"
    return [
        Figure(f"{name}: latency", line.latency_s, "s", note=quality),
        Figure(f"{name}: bandwidth", line.bytes_per_s / GB, "GB/s"),
        Figure(f"{name}: half speed at", line.half_rate_bytes, "bytes"),
    ]


def _fit_in_words(line: Fit) -> str:
    """`latency 12 us, 55.2 GB/s, half speed at 645KiB (11 sizes, fit error 2%, ...)`."""
    if line.refused:
        return f"no fit: {line.refused}"
    quality = f"{len(line.sizes)} sizes, fit error {line.error:.0%}"
    if line.worst >= 0.01:
        quality += f", at most {line.worst:.0%} at {units.format_bytes(line.worst_at)}"
    rate = units.format_rate(line.bytes_per_s / GB)
    half, latency = units.about_bytes(line.half_rate_bytes), units.format_seconds(line.latency_s)
    return f"latency {latency}, {rate}, half speed at {half} ({quality})"


def _crossed(pairs: Mapping[int, tuple[float, float, Conclusion]], name: str) -> tuple[State, str]:
    """From which size on `name` is faster, or up to which one, by the sizes that are decided.
    `pairs`: bytes -> seconds of `name`, seconds of the other, what the launches say of them."""
    conclusions = [conclusion for *_, conclusion in pairs.values()]
    if not pairs:
        return "undecided", "no size has both numbers"
    if not any(conclusion.is_different for conclusion in conclusions):
        largest = max(conclusions, key=answers.weight)
        return "undecided", f"{answers.difference(largest)} {span([*pairs])}"
    unsure = [n for n, (*_, conclusion) in pairs.items() if conclusion.verdict == "undecided"]
    decided = {n: pair for n, pair in pairs.items() if n not in unsure}
    # Where both are the same, `name` does not count as faster, whatever its median is.
    slow = {
        n: other_s if conclusion.is_different else min(other_s, (1 + MIN_EFFECT) * mine_s)
        for n, (mine_s, other_s, conclusion) in decided.items()
    }
    cross = crossover(slow, {n: mine_s for n, (mine_s, *_) in decided.items()})
    state: State = "partly"
    if cross.refused:
        state = "undecided"
        verdict = f"no size from which {name} is faster: {cross.refused}"
    elif cross.always is not None:
        state = "partly" if unsure else "yes" if cross.always else "no"
        every = f"{'every' if cross.always else 'no'} {'decided ' * bool(unsure)}size"
        verdict = f"{name} is faster at {every} {span(cross.sizes)}"
    else:
        about = f"{'about ' * bool(unsure)}{units.about_bytes(cross.nbytes)}"
        ends = f"only up to {about}" if cross.only_below else f"from {about} on"
        verdict = f"{name} is faster {ends}"
    at = joined(map(units.format_bytes, unsure))
    return state, f"{verdict}; undecided at {at}" if unsure else verdict
