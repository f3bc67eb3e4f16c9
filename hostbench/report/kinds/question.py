"""What all kinds of questions share: choosing rows, naming them, saying why there is no number."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostbench.core import units
from hostbench.core.case import AxisValue, counts_bytes
from hostbench.core.errors import UsageError
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.families import declared
from hostbench.report.answer import Answer, Figure, ScreenLine, State, in_unit
from hostbench.report.kinds.marks import ABOVE
from hostbench.report.rows import Row, Rows, grouped, size_axis, valid, varying, where

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
    also: tuple[str, ...] = ()
    """Further workloads that are asked the same, as values of an axis `workload`, whose words say
    their names."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Only the cases with these values, or with one of the values of a tuple."""
    each: tuple[str, ...] = ()
    """One answer for every value of these axes."""
    varies: str = ""
    """Asked only where the cases of an answer differ on this axis."""
    words: Words = field(default_factory=dict)
    """In place of the family's own `WORDS`, which go for all of its questions."""
    devices: tuple[str, ...] = ()
    """Only runs on these devices; empty: every one."""
    select: Callable[[Rows], Rows] | None = None
    """Further choosing, also of rows that get an axis from elsewhere."""
    screen: str = ""
    """What the first screen calls it, filled as the text is; empty: only the full report has it."""

    def check(self) -> None:
        """Raises UsageError where a name is none of the workloads'."""
        names = (self.workload, *self.also)
        for workload in names:
            work = declared(workload)
            if work is None:
                raise UsageError(f"{self.text!r} asks about {workload!r}, which is no workload")
            known = {
                **work.axes,
                **({"workload": (self.workload, *self.also)} if self.also else {}),
            }
            for axis, values in () if self.select else self.chosen():  # which may give more axes
                if axis not in known:
                    axes = ", ".join(known)
                    raise UsageError(f"{self.text!r} names the axis {axis!r}; there are: {axes}")
                for value in values if isinstance(values, tuple) else (values,):
                    if value not in known[axis]:
                        there = ", ".join(map(str, known[axis]))
                        raise UsageError(f"{self.text!r}: {axis} is never {value!r}, it is {there}")

    def chosen(self) -> Iterator[tuple[str, Any]]:
        """The axes that the question names, each with the value or values that it names on it."""
        yield from self.where.items()
        yield from ((axis, ()) for axis in (*self.each, self.varies) if axis)

    def answers(self, rows: Rows) -> Iterator[Answer]:
        """One answer for each group of the run's cases; none where the run holds no such case.
        `rows` are those of the whole family."""
        names, selected = (self.workload, *self.also), self.select(rows) if self.select else rows
        mine = [
            row.with_axes(workload=row.workload) if self.also else row
            for row in selected
            if row.workload in names and (not self.devices or row.device in self.devices)
        ]
        for values, group in grouped(where(mine, **self.where), self.each):
            text = self.text.format(**{axis: self.word(axis, n) for axis, n in values.items()})
            if self.asks(group):
                is_measured = bool(valid(group))
                yield (self.answer if is_measured else self.unavailable)(text, group, rows)

    def asks(self, group: Rows) -> bool:
        """Whether the cases of a group are enough for the question to make sense: a quick run holds
        one size, and no curve."""
        return not self.varies or self.varies in varying(group)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        """The answer from the cases of one group, at least one of which has a valid number."""
        raise NotImplementedError

    def made(
        self,
        text: str,
        state: State,
        verdict: str,
        figures: Iterable[Figure] = (),
        *,
        lost: Rows = (),
        lines: Iterable[ScreenLine] = (),
        **more: Any,
    ) -> Answer:
        """Of `lost` a figure says why each row has no number, where it has none."""
        return Answer(
            family=self.workload.partition(".")[0],
            workload=self.workload,
            question=text,
            verdict=verdict,
            state=state,
            figures=(*figures, *self._without_number(lost)),
            lines=tuple(lines) if self.screen else (),
            **more,
        )

    def unavailable(self, text: str, group: Rows, rows: Rows = ()) -> Answer:
        """No case has a valid number: the reasons, each once."""
        return self.made(text, "unavailable", unseen(group), lost=group)

    def _without_number(self, rows: Rows) -> Iterator[Figure]:
        """A figure for each row without a valid number; those of one reason are one."""
        alike: dict[tuple[str, str | None], list[Row]] = {}
        for row in rows:
            if not row.is_valid:
                is_odd = row.status == "ok"
                why = (
                    ("refused", "its time is not positive") if is_odd else (row.status, row.reason)
                )
                alike.setdefault(why, []).append(row)
        axes = varying(rows)
        for (status, reason), some in alike.items():
            label = self.name(some[0], axes) or some[0].function
            label = f"{len(some)} cases" if len(some) > 1 else label
            yield Figure(label, None, "s", status=status, reason=reason)

    def word(self, axis: str, value: AxisValue) -> str:
        """`pinned`, `async`, `16MiB`, `4 ranks`: one choice in words."""
        known = self.words.get(axis, {}).get(value)
        return known if known is not None else axis_word(axis, value)

    def name(self, row: Row, axes: Iterable[str]) -> str:
        """The choices of a row on these axes."""
        values = {axis: row.axes[axis] for axis in axes if axis in row.axes}
        return " ".join(filter(None, (self.word(axis, value) for axis, value in values.items())))

    def span(self, axis: str, rows: Rows) -> str:
        """`from 1KiB to 1GiB`, or `at 1GiB`: of rows in the order of their numbers on the axis."""
        word = axis_word if counts_bytes(axis) else self.word
        first, last = (word(axis, row.axes[axis]) for row in (rows[0], rows[-1]))
        return f"at {first}" if first == last else f"from {first} to {last}"

    def words_of(self, row: Row) -> dict[str, str]:
        """Axis -> the words for the choice of a row."""
        return {axis: self.word(axis, value) for axis, value in row.axes.items()}

    def on_screen(self, row: Row, **more: str) -> str:
        """What the first screen calls the question, asked of this row."""
        return self.screen.format(**self.words_of(row), **more)

    def at(self, here: Rows, axes: Sequence[str] = ()) -> tuple[str, ...]:
        """`At 64MiB, async.`: the size and the further choices that all these rows share."""
        size = size_axis(here)
        shared = [axis for axis in axes if axis != size and axis in here[0].axes]
        named = [size, *shared] if size and here[0].axes[size] else shared  # a barrier has no size
        words = [self.word(axis, here[0].axes[axis]) for axis in named]
        return (f"At {', '.join(words)}.",) if words else ()


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
    parts = []
    for status in ("failed", "not measured", "skipped"):  # what another run may show comes first
        reasons = dict.fromkeys(row.reason for row in rows if row.status == status)
        if reasons:
            parts.append(f"{status}: {'; '.join(filter(None, reasons)) or 'without a reason'}")
    return "; ".join(parts) or f"not measured: {NOT_ASKED}"


def few_launches(rows: Rows) -> str:
    """What so few launches tell, and which command measures more; nothing where they are enough."""
    few = min((len(row.launches) for row in valid(rows)), default=0)
    if few >= MIN_LAUNCHES:
        return ""
    tell = f"{few} launches decide nothing" if few > 1 else "1 launch decides nothing"
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


def peak(row: Row) -> str:
    """`peak 256MiB`; nothing where it is not known."""
    nbytes = row.peak_memory_bytes
    return f"peak {units.format_bytes(int(nbytes))}" if nbytes else ""


def side_by_side(figures: Iterable[tuple[str, Figure]], between: str = ", ") -> str:
    """`sync 10.3, async 10.9 GB/s`: names and values, a unit that all share once."""
    split = []
    for name, figure in figures:
        value, _, unit = in_unit(figure.value or 0.0, figure.unit).replace(",", "").partition(" ")
        split.append((f"{name}:" if name.isdigit() else name, value, unit))
    shared = {unit for *_, unit in split}
    last = f" {''.join(shared)}" if len(shared) == 1 else ""
    own = ((name, value, "" if last else unit) for name, value, unit in split)
    return f"{between.join(' '.join(filter(None, part)) for part in own)}{last}".rstrip()


def figure(label: str, row: Row, **more: Any) -> Figure:
    """The time of a valid row."""
    own = label or row.function
    return Figure(own, row.time, "s", low=row.ci_low_s, high=row.ci_high_s, **more)
