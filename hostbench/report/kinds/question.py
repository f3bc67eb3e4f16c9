"""What all kinds of questions share: choosing rows, naming them, saying why there is no number."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.errors import UsageError
from hostbench.families import declared
from hostbench.report.answer import Answer, Chart, Figure, Point, State
from hostbench.report.rows import Row, Rows, distinct, grouped, size_axis, valid, where

NOT_ASKED = "this run did not measure it"

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
    devices: tuple[str, ...] = ()
    """Only runs on these devices; empty: every one."""
    select: Callable[[Rows], Rows] | None = None
    """Further choosing, also of rows that get an axis from elsewhere."""

    def check(self) -> None:
        """Raises UsageError where a name is none of the workload's."""
        work = declared(self.workload)
        if work is None:
            raise UsageError(f"{self.text!r} asks about {self.workload!r}, which is no workload")
        named = {*self.where, *self.each, *(getattr(self, "claim", None) or ())} - {"workload"}
        unknown = sorted(named - {*work.axes})
        if unknown and self.select is None:
            axes = ", ".join(work.axes)
            raise UsageError(f"{self.text!r} names the axis {unknown[0]!r}; there are: {axes}")

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
                yield self.answer(text, group, rows)
            else:
                yield self.unavailable(text, group)

    def asks(self, group: Rows) -> bool:
        """Whether the cases of a group are enough for the question to make sense: a quick run holds
        one size, and no curve."""
        return True

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        """The answer from the cases of one group, at least one of which has a valid number."""
        raise NotImplementedError

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
        """`pinned`, `async`, `16 MiB`, `4 ranks`: one choice in words."""
        known = self.words.get(axis, {}).get(value)
        return known if known is not None else axis_word(axis, value)

    def at(self, here: Rows, axes: Sequence[str]) -> tuple[str, ...]:
        """`At 64 MiB, async.`: the size and the further choices that all these rows share."""
        size = size_axis(here)
        shared = [axis for axis in axes if axis != size and axis in here[0].axes]
        words = [self.word(axis, here[0].axes[axis]) for axis in ([size] if size else []) + shared]
        return (f"At {', '.join(words)}.",) if words else ()

    def name(self, row: Row, axes: Sequence[str]) -> str:
        """The choices of a row on these axes."""
        return " ".join(filter(None, (self.word(axis, row.axes[axis]) for axis in axes)))


def axis_word(axis: str, value: AxisValue) -> str:
    """The words for a choice that nobody has given better ones."""
    if isinstance(value, bool):
        return axis if value else f"no {axis}"
    if axis.endswith("bytes") and isinstance(value, int):
        return units.format_bytes(value)
    if axis.startswith("num_"):
        what = axis.removeprefix("num_").replace("_", " ")
        return f"{value} {what.removesuffix('s') if value == 1 else what}"
    return str(value).replace("_", " ")


def axis_title(axis: str) -> str:
    """`bytes`, `batch bytes`, `ranks`: an axis as a chart calls it."""
    return axis.removeprefix("num_").replace("nbytes", "bytes").replace("_", " ")


def varying(rows: Rows, leave_out: Sequence[str] = ()) -> tuple[str, ...]:
    """The axes on which rows differ, in the order of the declaration."""
    names = dict.fromkeys(name for row in rows for name in row.axes if name not in leave_out)
    return tuple(n for n in names if len({row.axes.get(n) for row in rows}) > 1)


def at_size(rows: Rows, *, smallest: bool = False, together: int = 1) -> list[Row]:
    """The rows of the largest (or smallest) size at which at least `together` rows have a valid
    number, else at which one has."""
    axis = size_axis(rows)
    if axis is None:
        return list(rows)
    counted: dict[AxisValue, int] = {}
    for row in valid(rows):
        counted[row.axes[axis]] = counted.get(row.axes[axis], 0) + 1
    enough = [size for size, num in counted.items() if num >= together] or list(counted)
    if not enough:
        return list(rows)
    size = min(enough, key=int) if smallest else max(enough, key=int)
    return [row for row in rows if row.axes[axis] == size]


def unseen(rows: Rows) -> str:
    """Why there is no number: the reasons that were recorded, each once."""
    said = []
    for status in ("failed", "skipped", "not measured"):
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
    return tuple(
        Figure(
            label=_label(same, axes, question),
            value=None,
            unit="s",
            status=status,
            reason=reason,
        )
        for (status, reason), same in found.items()
    )


def _label(rows: Rows, axes: Sequence[str], question: Question) -> str:
    if len(rows) > 1:
        return f"{len(rows)} cases"
    return question.name(rows[0], axes) or rows[0].workload.partition(".")[2]


def why(row: Row) -> tuple[str, str | None]:
    """Status and reason of a row without a valid number."""
    if row.status == "ok":
        return "refused", "its time is not positive"
    return row.status, row.reason


def point(row: Row, x: float | str, y: float, series: str = "", scale: float = 1.0) -> Point:
    """A mark of a row; `scale` makes seconds of its interval what `y` is in."""
    ends = (row.low_s, row.high_s)
    return Point(
        x=x,
        y=y,
        series=series,
        low=None if ends[0] is None else ends[0] * scale,
        high=None if ends[1] is None else ends[1] * scale,
        status=row.status,
        text=f"{row.case}: {units.format_seconds(row.seconds or 0)}"
        + (f"; {row.flags}" if row.flags else ""),
    )


def as_rate(row: Row, x: float | str, series: str = "") -> Point | None:
    """A mark in GB/s."""
    if row.gb_per_s is None or row.seconds is None:
        return None
    moved = row.gb_per_s * row.seconds
    return Point(
        x=x,
        y=row.gb_per_s,
        series=series,
        low=None if row.high_s is None else moved / row.high_s,
        high=None if row.low_s is None else moved / row.low_s,
        status=row.status,
        text=f"{row.case}: {units.format_rate(row.gb_per_s)}",
    )


def charted(chart: Chart) -> Chart | None:
    """The chart, where it has something to draw."""
    return chart if chart.points else None
