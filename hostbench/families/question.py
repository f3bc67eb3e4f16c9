"""What a family asks of its cases, as data: hostbench.report answers it, the dashboard draws it.

A question chooses rows of a run; its kind says what is made of them: Compare, Scaling, Best, Curve,
Finding or Parts.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from hostbench.core import units
from hostbench.core.case import AxisValue, counts_bytes
from hostbench.core.samples import Launches

NOT_ASKED = "this run did not measure it"
ABOVE = 1.005  # of a limit: what prints as more than 100 %
FigureUnit = Literal["s", "GB/s", "items/s", "bytes", "share", "copies", ""]


# ---- what questions choose from -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case of one run. Numbers that are not known are None; those of a failed case are kept,
    to be shown struck out, and count for nothing."""

    family: str
    workload: str
    case: str
    axes: Mapping[str, AxisValue]
    """Without `device`."""
    device: str
    """What ran: `simulated` where it stood in for the case's own."""
    status: str
    reason: str | None = None
    seconds: float | None = None
    ci_low_s: float | None = None
    ci_high_s: float | None = None
    call_s: float | None = None
    nbytes: float | None = None
    gb_per_s: float | None = None
    ceiling_gb_per_s: float | None = None
    encoded_gb_per_s: float | None = None
    published_low_gb_per_s: float | None = None
    published_high_gb_per_s: float | None = None
    peak_memory_bytes: float | None = None
    launches: Launches = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    flags: str | None = None
    ceiling: str | None = None
    link: str | None = None
    published: str | None = None
    published_kind: str | None = None
    machine: str = ""
    run_id: str = ""
    run: str = ""
    """What a page calls the run, which has rows of several."""
    commit: str | None = None
    num_samples: float | None = None
    """The launches; the page Curves has a column of it."""

    @property
    def function(self) -> str:
        """`host_to_device` of `transfer.host_to_device`."""
        return self.workload.partition(".")[2]

    @property
    def is_valid(self) -> bool:
        """Whether its time counts."""
        return self.status == "ok" and self.seconds is not None and self.seconds > 0

    @property
    def is_oversubscribed(self) -> bool:
        """Whether it ran over more ranks than there are cores or GPUs."""
        return "oversubscribed" in (self.flags or "")

    @property
    def is_cached(self) -> bool:
        """Whether it copies what the CPU's cache holds."""
        return "cached" in (self.flags or "")

    @property
    def time(self) -> float:
        """Seconds of a valid row."""
        assert self.seconds is not None
        return self.seconds

    @property
    def by_launch(self) -> Launches:
        """Launch -> seconds of a valid row; its one number where no launches were kept."""
        return self.launches or {0: self.time}

    def number(self, finding: str) -> float | None:
        """A finding that is a number; None where it is another thing, or not known."""
        value = self.findings.get(finding)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if math.isfinite(value) else None

    def has(self, axes: Mapping[str, Any]) -> bool:
        """Whether each of these axes has this value, or one of these values."""
        return all(
            name in self.axes
            and (self.axes[name] in value if isinstance(value, tuple) else self.axes[name] == value)
            for name, value in axes.items()
        )

    def with_axes(self, **more: AxisValue) -> "Row":
        return replace(self, axes={**self.axes, **more})

    def beside_limit(self) -> str:
        """`96% of 57.6 GB/s, PCIe Gen5`; nothing without a limit."""
        if not self.ceiling_gb_per_s or not self.gb_per_s:
            return ""
        share = self.gb_per_s / self.ceiling_gb_per_s
        limit = f"{units.format_rate(self.ceiling_gb_per_s)}, {self.ceiling}"
        if share < ABOVE:
            return f"{share:.0%} of {limit}"
        return f"above {limit}: what is called the limit is none, or not all bytes crossed it"

    def idle(self) -> str:
        """`device idle 39%`: of the time that was measured, by the work that was observed, where it
        was. Observing makes the host slower, and no copy and no compute longer."""
        busy_s = self.number("busy_s")
        if busy_s is None or not self.seconds:
            return ""
        return f"device idle {max(0.0, 1 - busy_s / self.seconds):.0%}"

    def peak(self) -> str:
        """`peak 256MiB`; nothing where it is not known."""
        nbytes = self.number("peak_allocated") or self.peak_memory_bytes
        return f"peak {units.format_bytes(nbytes)}" if nbytes else ""


Rows = Sequence[Row]


def valid(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.is_valid]


def where(rows: Iterable[Row], workload: str | None = None, /, **axes: Any) -> list[Row]:
    """The rows of a workload with these values, or with one of the values of a tuple."""
    return [row for row in rows if workload in (None, row.workload) and row.has(axes)]


def first(rows: Iterable[Row], workload: str | None = None, /, **axes: Any) -> Row | None:
    """The first valid one of them."""
    return next(iter(valid(where(rows, workload, **axes))), None)


# ---- what is said of them -----------------------------------------------------------------------

_FORMATS: dict[FigureUnit, Callable[[float], str]] = {
    "s": units.format_seconds,
    "GB/s": units.format_rate,
    "items/s": "{:,.0f}/s".format,
    "bytes": units.format_bytes,
    "share": "{:.2f}".format,
    "copies": "{:.1f} copies".format,
}


def in_unit(value: float, unit: FigureUnit) -> str:
    """A number in words: `4.82 ms`, `55.4 GB/s`, `16MiB`, `0.93`."""
    return _FORMATS[unit](value)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of an answer: a number, or why there is none."""

    label: str
    value: float | None
    unit: FigureUnit
    _: KW_ONLY
    low: float | None = None
    high: float | None = None
    """99 % interval over launches; None where there are too few."""
    against: str = ""
    """What it is beside the baseline: `1.99x slower (1.75-2.3)`, or `baseline`."""
    beside: str = ""
    """The baseline and its number: `no wait 110 us`."""
    conclusion: Any = None
    """What the two rest on: hostbench.judge's Conclusion."""
    status: str = "ok"
    """ok, skipped, failed, not measured; or of what was measured: refused, where nothing follows
    from it, and undecided, where the launches do not tell."""
    reason: str | None = None
    notes: tuple[str, ...] = ()
    """What else is known of it."""

    def number(self) -> str:
        """`55.4 GB/s`, `0.85 (0.62-0.89)`; the status where there is none."""
        if self.value is None or self.status != "ok":
            return self.status
        text = in_unit(self.value, self.unit)
        has_interval = self.unit == "share" and self.low is not None and self.high is not None
        return f"{text} ({self.low:.2f}-{self.high:.2f})" if has_interval else text


# ---- the kinds of questions ---------------------------------------------------------------------

Beside = Callable[[Row], tuple[str, str, Mapping[str, AxisValue]]]
"""Row -> name, workload and axes of a case beside it; axes that the workload lacks count for
nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about one workload's cases."""

    text: str
    """`{axis}` in it is replaced by the words for the value of an axis in `each`."""
    workload: str
    """`family.function`."""
    also: tuple[str, ...] = ()
    """Further workloads that are asked the same, as values of an axis `workload` with words."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Only the cases with these values, or with one of the values of a tuple."""
    each: tuple[str, ...] = ()
    """One answer for every value of these axes."""
    words: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)
    """Axis -> value -> how a reader calls it, in place of the family's `WORDS`."""
    devices: tuple[str, ...] = ()
    """Only runs on these devices; empty: every one."""
    select: Callable[[Rows], Rows] | None = None
    """Further choosing, also of rows that get an axis from elsewhere."""
    screen: str = ""
    """What the first screen calls it, filled as the text is; empty: only the full report has it."""

    def word(self, axis: str, value: AxisValue) -> str:
        """`pinned`, `async`, `16MiB`, `4 ranks`: one choice in words."""
        known = self.words.get(axis, {}).get(value)
        return known if known is not None else axis_word(axis, value)

    def order(self, axis: str, value: AxisValue) -> list[tuple[float, str]]:
        """A key to sort choices by: as their words are listed, else 2 before 16."""
        known = [*self.words.get(axis, ())]
        parts = [str(known.index(value))] if value in known else re.split(r"(\d+)", str(value))
        return [(float(part), "") if part.isdecimal() else (0.0, part) for part in parts]

    def name(self, row: Row, axes: Iterable[str]) -> str:
        """The choices of a row on these axes."""
        named = (self.word(axis, row.axes[axis]) for axis in axes if axis in row.axes)
        return " ".join(filter(None, named))

    def fill(self, template: str, axes: Mapping[str, AxisValue]) -> str:
        """`{axis}` in a text replaced by the words for its value."""
        words = {axis: self.word(axis, value) for axis, value in axes.items()}
        return template.format(**words)

    def span(self, axis: str, rows: Rows) -> str:
        """`from 1KiB to 1GiB`, or `at 1GiB`: of rows in the order of their numbers on the axis."""
        low, high = (self.word(axis, row.axes[axis]) for row in (rows[0], rows[-1]))
        return f"at {low}" if low == high else f"from {low} to {high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Question):
    """The choices at the largest size at which there is something to compare, each beside the
    baseline: the workload's own, or what `beside` says of each case.

    Asked where the cases differ on the axes of its claim, and of a baseline of its own. With a
    `claim` the answer is yes where cases with these values are established to be faster than
    the same with the baseline's. With `over`, an axis of numbers, the figures go along it, each
    beside the fewest, or with a claim beside the other one at the same number.
    """

    unit: FigureUnit = "s"
    """`s`; or `GB/s` or `items/s` for a rate."""
    work: Callable[[Row], float | None] | None = None
    """How much of something a step does, where that is not the same in all: the items or bytes of
    a rate, or the part of what the other one does. The time of so much is compared, and what is
    slower has a share of the baseline's speed."""
    baseline: Mapping[str, AxisValue] | None = None
    """In place of the workload's; `{}`: each stands for itself."""
    beside: Beside | None = None
    claim: Mapping[str, AxisValue] | None = None
    over: str = ""
    note: Callable[[Row], str] = lambda row: ""
    """What else is said of a figure."""
    screen_each: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    """Axis -> values that have a line each on the first screen; else it is the case that differs
    most."""
    is_habit: bool = True
    """Whether the summary on top of the first screen may name a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Compare):
    """The figure at each number of workers, ranks or items, each beside the fewest, and which
    number is enough."""

    over: str = "num_ranks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Best(Question):
    """What to choose on each of these axes: of cases that differ on it alone the first value than
    which none is faster."""

    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Question):
    """Latency and bandwidth of each of these series that has numbers."""

    fits: str | tuple[Mapping[str, Any], ...]
    """An axis: a line for each value; or the values of each line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Question):
    """Whether cases show a finding: all, some or none; and numbers of each."""

    finding: str | Callable[[Row], bool | None] = ""
    """Its name, or whether a case shows it; without one the figures are the answer."""
    figures: Callable[[Row, Rows], Iterable[Figure]] | None = None
    """What is said of each case that has a number, which may need the family's other rows; their
    labels come after the case's choices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Question):
    """Ways to do the whole (values of `axis`) against `serial` and the ideal."""

    axis: str
    serial: str | Callable[..., float]
    """A loop that was measured, or its seconds from those of each of the parts."""
    ways: tuple[str, ...]
    parts: tuple[str, ...]
    ideal: Callable[..., float]
    """Seconds of the whole at best, from those of each of the parts."""
    controls: tuple[str, ...] = ()
    """Ways that cannot hide anything: shown without an efficiency, and never called best."""

    @property
    def loops(self) -> tuple[str, ...]:
        """All that is measured of the axis, in the order in which it is shown."""
        serial = (self.serial,) if isinstance(self.serial, str) else ()
        return (*serial, *self.controls, *self.ways, *self.parts)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that a picture can show of each case."""

    name: str
    unit: FigureUnit
    value: Callable[[Row], float | None]
    _: KW_ONLY
    title: str = ""
    """Of its axis, where that is not its name."""
    better: Literal["lower", "higher", ""] = "higher"
    share_of: Mapping[str, AxisValue] = field(default_factory=dict)
    """Shown is its share of that of the same case with these values."""

    def of(self, rows: Rows) -> Callable[[Row], float | None]:
        """How it is worked out of each of these rows."""
        if not self.share_of:
            return self.value

        def whole(row: Row) -> tuple[object, ...]:
            axes = {**row.axes, **self.share_of}
            return row.machine, row.run_id, row.workload, frozenset(axes.items())

        wholes = {whole(row): self.value(row) for row in rows if row.has(self.share_of)}

        def share(row: Row) -> float | None:
            part, all_of_it = self.value(row), wholes.get(whole(row))
            return part / all_of_it if part and all_of_it else None

        return share


RATE = Measure("GB/s", "GB/s", lambda row: row.gb_per_s)
TIME = Measure("time", "s", lambda row: row.seconds, better="lower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(Question):
    """A question as curves over machines and runs; `words` may be shorter than a sentence's."""

    choice: str
    """What page Curves calls it."""
    x: tuple[str, ...] = ("nbytes",)
    measures: tuple[Measure, ...] = (RATE, TIME)
    usual: Mapping[str, tuple[AxisValue, ...]] = field(default_factory=dict)
    """Axis -> the values that are drawn unless others are chosen, those first that a small picture
    shows alone; but of schedules it shows all."""
    has_card: bool = False
    """Whether the first page shows it."""


def same(name: str, workload: str, **changed: AxisValue) -> Beside:
    """The case of a workload with the same choices but for these."""
    return lambda row: (name, workload, {**row.axes, **changed})


def axis_name(axis: str) -> str:
    """`size`, `batch bytes`, `ranks`."""
    return "size" if axis == "nbytes" else axis.removeprefix("num_").replace("_", " ")


def axis_word(axis: str, value: AxisValue) -> str:
    """The words for a choice that nobody has given better ones."""
    if isinstance(value, bool):
        return axis if value else f"no {axis}"
    if counts_bytes(axis) and isinstance(value, int):
        return units.format_bytes(value)
    text = str(value)
    if axis.startswith("num_"):
        what = axis_name(axis)
        return f"{text} {what.removesuffix('s') if value == 1 else what}"
    if axis == "workload":
        text = text.partition(".")[2] or text
        return text if "." in text else text.replace("_", " ")
    try:
        float(text)
    except ValueError:
        return text.replace("_", " ")
    return f"{axis_name(axis)} {text}"
