"""What all kinds of questions share: choosing rows, naming them, saying why there is no number."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hostbench.core import units
from hostbench.core.case import AxisValue, counts_bytes
from hostbench.core.errors import UsageError
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.families import declared
from hostbench.judge.conclude import Conclusion
from hostbench.report.answer import Answer, Axis, Chart, Figure, Point, ScreenLine, State, in_unit
from hostbench.report.rows import Row, Rows, distinct, grouped, size_axis, valid, where

NOT_ASKED = "this run did not measure it"

ABOVE = 1.005
"""Of a limit: what prints as more than 100 %."""

Words = Mapping[str, Mapping[Any, str]]
"""Axis -> value -> how a reader calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about one workload's cases. A family's own kind overrides `answer`."""

    text: str
    """`{axis}` in it is replaced by the words for the value of an axis in `each`."""
    workload: str
    """`family.function`."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Only the cases with these values, or with one of the values of a tuple."""
    each: tuple[str, ...] = ()
    """One answer for every value of these axes."""
    words: Words = field(default_factory=dict)
    """In place of the family's own `WORDS`, which go for all of its questions."""
    devices: tuple[str, ...] = ()
    """Only runs on these devices; empty: every one."""
    select: Callable[[Rows], Rows] | None = None
    """Further choosing, also of rows that get an axis from elsewhere."""
    screen: str = ""
    """What the first screen calls it, filled as the text is; empty: only the full report has it."""
    short: Words = field(default_factory=dict)
    """In place of the words, where the first screen has little room."""

    def check(self) -> None:
        """Raises UsageError where a name is none of the workload's."""
        work = declared(self.workload)
        if work is None:
            raise UsageError(f"{self.text!r} asks about {self.workload!r}, which is no workload")
        if self.select is not None:
            return  # which may give the rows further axes
        for axis, values in self.names():
            known = work.axes.get(axis)
            if known is None:
                axes = ", ".join(work.axes)
                raise UsageError(f"{self.text!r} names the axis {axis!r}; there are: {axes}")
            for value in values:
                if value not in known:
                    there = ", ".join(map(str, known))
                    raise UsageError(f"{self.text!r}: {axis} is never {value!r}, it is {there}")

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        """The axes that the question names, each with the values that it names on it."""
        yield from choices(self.where)
        yield from ((axis, ()) for axis in self.each)

    def answers(self, rows: Rows) -> Iterator[Answer]:
        """One answer for each group of the run's cases; none where the run holds no such case.
        `rows` are those of the whole family."""
        chosen = self.select(rows) if self.select else rows
        yield from self.of_rows(where(chosen, self.workload, **self.where), rows)

    def of_rows(self, chosen: Rows, rows: Rows) -> Iterator[Answer]:
        mine = [row for row in chosen if not self.devices or row.device in self.devices]
        for values, group in grouped(mine, self.each):
            said = {axis: self.word(axis, value) for axis, value in values.items()}
            text = self.text.format(**said)
            if not self.asks(group):
                continue
            if valid(group):
                lines = tuple(self.lines(group, rows)) if self.screen else ()
                yield replace(self.answer(text, group, rows), lines=lines)
            else:
                yield self.unavailable(text, group)

    def of_any(self) -> str:
        """The text for all values of `each`: `What does starting 1 worker or 4 workers cost?`"""
        return self.text.format(**{axis: self._any(axis) for axis in self.each})

    def _any(self, axis: str) -> str:
        work = declared(self.workload)
        known = work.axes.get(axis, ()) if work else ()
        values = dict(choices(self.where)).get(axis, known)
        return " or ".join(self.word(axis, value) for value in values) or axis_title(axis)

    def is_text(self, workload: str, text: str) -> bool:
        """Whether an answer with this text, about this workload, is one to this question."""
        parts = (re.escape(part) for part in re.split(r"{\w+}", self.text))
        return workload == self.workload and re.fullmatch(".*".join(parts), text) is not None

    def asks(self, group: Rows) -> bool:
        """Whether the cases of a group are enough for the question to make sense: a quick run holds
        one size, and no curve."""
        return True

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        """The answer from the cases of one group, at least one of which has a valid number."""
        raise NotImplementedError

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """Of the first screen, from the same rows as the answer."""
        return iter(())

    def on_screen(self, row: Row, **more: str) -> str:
        """`screen` with the words for the choices of a row."""
        return self.screen.format(**self.words_of(row), **more)

    def words_of(self, row: Row) -> dict[str, str]:
        """Axis -> the words for the choice of a row."""
        return {axis: self.word(axis, value) for axis, value in row.axes.items()}

    def unavailable(self, text: str, group: Rows) -> Answer:
        """No case has a valid number: the reasons, each once."""
        return self.made(text, "unavailable", unseen(group), figures=without_number(group, self))

    def made(self, text: str, state: State, verdict: str, **more: Any) -> Answer:
        return Answer(
            family=self.workload.partition(".")[0],
            workload=self.workload,
            question=text,
            verdict=verdict,
            state=state,
            **more,
        )

    def word(self, axis: str, value: AxisValue) -> str:
        """`pinned`, `async`, `16MiB`, `4 ranks`: one choice in words."""
        known = self.words.get(axis, {}).get(value)
        return known if known is not None else axis_word(axis, value)

    def at(self, here: Rows, axes: Sequence[str]) -> tuple[str, ...]:
        """`At 64MiB, async.`: the size and the further choices that all these rows share."""
        size = size_axis(here)
        shared = [axis for axis in axes if axis != size and axis in here[0].axes]
        words = [self.word(axis, here[0].axes[axis]) for axis in ([size] if size else []) + shared]
        return (f"At {', '.join(words)}.",) if words else ()

    def name(self, row: Row, axes: Sequence[str], words: Words | None = None) -> str:
        """The choices of a row on these axes; some in `words` of the caller's."""
        known = words or {}
        said = (
            known.get(axis, {}).get(row.axes[axis]) or self.word(axis, row.axes[axis])
            for axis in axes
        )
        return " ".join(filter(None, said))


def choices(chosen: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Each axis with the value, or with the values of the tuple, that is chosen on it."""
    for axis, asked in chosen.items():
        yield axis, asked if isinstance(asked, tuple) else (asked,)


def axis_word(axis: str, value: AxisValue) -> str:
    """The words for a choice that nobody has given better ones."""
    if isinstance(value, bool):
        return axis if value else f"no {axis}"
    if counts_bytes(axis) and isinstance(value, int):
        return units.format_bytes(value)
    if axis.startswith("num_"):
        what = axis.removeprefix("num_").replace("_", " ")
        return f"{value} {what.removesuffix('s') if value == 1 else what}"
    return str(value).replace("_", " ")


def axis_title(axis: str) -> str:
    """`bytes`, `batch bytes`, `ranks`: an axis as a chart calls it."""
    return axis.removeprefix("num_").replace("nbytes", "bytes").replace("_", " ")


def varying(rows: Rows) -> tuple[str, ...]:
    """The axes on which rows differ, in the order of the declaration."""
    names = dict.fromkeys(name for row in rows for name in row.axes)
    return tuple(n for n in names if len({row.axes.get(n) for row in rows}) > 1)


def at_size(rows: Rows, *, together: int = 1) -> list[Row]:
    """The rows of the largest size at which at least `together` rows have a valid number, else at
    which one has."""
    axis = size_axis(rows)
    if axis is None:
        return list(rows)
    counted = Counter(row.axes[axis] for row in valid(rows))
    enough = [size for size, num in counted.items() if num >= together] or counted
    return where(rows, **{axis: max(enough, key=int)}) if enough else list(rows)


def unseen(rows: Rows) -> str:
    """Why there is no number: the reasons that were recorded, each once."""
    said = []
    for status in ("failed", "not measured", "skipped"):  # what another run may show comes first
        mine = [row for row in rows if row.status == status]
        reasons = "; ".join(distinct(mine, lambda row: row.reason)) or "without a reason"
        said += [f"{status}: {reasons}"] if mine else []
    return "; ".join(said) or f"not measured: {NOT_ASKED}"


def without_number(rows: Rows, question: Question) -> tuple[Figure, ...]:
    """A figure for each row without a valid number; those of one reason are one."""
    found: dict[tuple[str, str | None], list[Row]] = {}
    for row in rows:
        if not row.is_valid:
            found.setdefault(why(row), []).append(row)
    axes = varying(rows)
    figures = []
    for (status, reason), same in found.items():
        name = question.name(same[0], axes) or same[0].workload.partition(".")[2]
        label = f"{len(same)} cases" if len(same) > 1 else name
        figures.append(Figure(label=label, value=None, unit="s", status=status, reason=reason))
    return tuple(figures)


def few_launches(rows: Rows) -> str:
    """What so few launches tell, and which command measures more; nothing where they are enough."""
    here = valid(rows)
    few = min((len(row.launches) for row in here), default=0)
    if few >= MIN_LAUNCHES:
        return ""
    tell = f"{few} launches tell only large differences" if few > 1 else "1 launch decides nothing"
    more = f"{MIN_LAUNCHES} tell more: hostbench run --launches {MIN_LAUNCHES}"
    return f"{tell if few else 'no launches are stored'}; {more}"


def beside_limit(row: Row) -> str:
    """`96% of 57.6 GB/s, PCIe Gen5`; nothing without a limit."""
    if not row.ceiling_gb_per_s or not row.gb_per_s:
        return ""
    share = row.gb_per_s / row.ceiling_gb_per_s
    limit = f"{units.format_rate(row.ceiling_gb_per_s)}, {row.ceiling}"
    if share < ABOVE:
        return f"{share:.0%} of {limit}"
    return f"above {limit}: what is called the limit is none, or not all bytes crossed it"


def why(row: Row) -> tuple[str, str | None]:
    """Status and reason of a row without a valid number."""
    if row.status == "ok":
        return "refused", "its time is not positive"
    return row.status, row.reason


def figure(label: str, row: Row, *, rate: bool = False, **more: Any) -> Figure:
    """The number of a row: its rate where that is wanted and known, else its time."""
    name = label or row.workload.partition(".")[2]
    if rate and row.gb_per_s is not None:
        return Figure(label=name, value=row.gb_per_s, unit="GB/s", **more)
    return Figure(label=name, value=row.time, unit="s", low=row.low_s, high=row.high_s, **more)


def weight(conclusion: Conclusion) -> tuple[bool, float, float]:
    """What a line names first: the largest difference that is established, else the comparison
    that leaves most possible."""
    factor = max(conclusion.factor, 1 / conclusion.factor)
    return conclusion.is_different, 0.0 if conclusion.is_different else conclusion.possible, factor


def by_size(rates: Iterable[tuple[str, float]]) -> str:
    """`4KiB 0.09, 64KiB 1.4, 1MiB 16 GB/s`: (size, GB/s) in the two digits that a curve needs."""
    return ", ".join(f"{size} {rate:.2g}" for size, rate in rates) + " GB/s"


def side_by_side(figures: Iterable[Figure], between: str = ", ") -> str:
    """`sync 10.3, async 10.9 GB/s`: names and values, a unit that all share once."""
    named = [
        (
            f"{one.label}:" if one.label.isdigit() else one.label,
            in_unit(one.value or 0.0, one.unit).replace(",", "").partition(" "),
        )
        for one in figures
    ]
    is_shared = len({unit for _, (_, _, unit) in named}) == 1
    words = [
        f"{name} {value} {'' if is_shared else unit}".strip() for name, (value, _, unit) in named
    ]
    return between.join(words) + (f" {named[0][1][2]}".rstrip() if is_shared else "")


LANES = Axis(title="")
RATE = Axis(title="GB/s", unit="GB/s", better="higher")
TIME = Axis(title="seconds per step", unit="s", better="lower")
LOG_TIME = replace(TIME, is_log=True)


def sizes_axis(axis: str) -> Axis:
    return Axis(title=axis_title(axis), unit="bytes", is_log=True)


def chart(
    mark: Literal["line", "bar"], x: Axis, y: Axis, points: Iterable[Point | None], **more: Any
) -> Chart | None:
    """None where there is nothing to draw."""
    kept = tuple(one for one in points if one is not None)
    return Chart(mark=mark, x=x, y=y, points=kept, **more) if kept else None


def time_point(row: Row, x: float | str, series: str = "") -> Point | None:
    """A mark in seconds, where there is a number, valid or not."""
    if row.seconds is None:
        return None
    said = f"{row.case}: {units.format_seconds(row.seconds)}"
    return Point(
        x=x,
        y=row.seconds,
        series=series,
        low=row.low_s,
        high=row.high_s,
        status=row.status,
        text=f"{said}; {row.flags}" if row.flags else said,
    )


def rate_point(
    row: Row, x: float | str, series: str = "", rate: float | None = None
) -> Point | None:
    """A mark in GB/s, of another rate than the row's own where one is given."""
    rate = row.gb_per_s if rate is None else rate
    if rate is None or row.seconds is None:
        return None
    moved = rate * row.seconds
    return Point(
        x=x,
        y=rate,
        series=series,
        low=None if row.high_s is None else moved / row.high_s,
        high=None if row.low_s is None else moved / row.low_s,
        status=row.status,
        text=f"{row.case}: {units.format_rate(rate)}",
    )
