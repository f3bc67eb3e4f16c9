"""The rows of one run as plain records: what questions choose from."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from hostbench.core.case import AxisValue, counts_bytes, read_case

if TYPE_CHECKING:  # a project's workloads come with its questions, and no worker needs pandas
    import pandas as pd


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
    low_s: float | None = None
    high_s: float | None = None
    call_s: float | None = None
    nbytes: float | None = None
    gb_per_s: float | None = None
    ceiling_gb_per_s: float | None = None
    encoded_gb_per_s: float | None = None
    published_low_gb_per_s: float | None = None
    published_high_gb_per_s: float | None = None
    peak_memory_bytes: float | None = None
    launches: Mapping[int, float] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    flags: str | None = None
    ceiling: str | None = None
    link: str | None = None
    published: str | None = None
    published_kind: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether its time counts."""
        return self.status == "ok" and self.seconds is not None and self.seconds > 0

    @property
    def is_oversubscribed(self) -> bool:
        """Whether it ran over more ranks than there are cores or GPUs."""
        return "oversubscribed" in (self.flags or "")

    @property
    def time(self) -> float:
        """Seconds of a valid row."""
        assert self.seconds is not None
        return self.seconds

    @property
    def by_launch(self) -> Mapping[int, float]:
        """Launch -> seconds of a valid row; its one number where no launches were kept."""
        return self.launches or {0: self.time}

    def has(self, axes: Mapping[str, Any]) -> bool:
        """Whether each of these axes has this value, or one of these values."""
        return all(
            name in self.axes
            and (self.axes[name] in value if isinstance(value, tuple) else self.axes[name] == value)
            for name, value in axes.items()
        )

    def with_axes(self, **more: AxisValue) -> "Row":
        return replace(self, axes={**self.axes, **more})

    def of(self, workload: str) -> "Row":
        """The same among the cases of another workload."""
        return replace(self, workload=workload)


Rows = Sequence[Row]


_COLUMNS = {"low_s": "ci_low_s", "high_s": "ci_high_s"}
"""Field -> column of the tidy frame, where they are called differently."""


def rows_of(frame: "pd.DataFrame") -> list[Row]:
    """The rows of the tidy frame whose case can be read."""
    return [row for cells in frame.to_dict("records") if (row := _row(cells)) is not None]


def _row(cells: Mapping[Hashable, Any]) -> Row | None:
    case = read_case(str(cells["case"]))
    if case is None:
        return None
    plain: dict[str, Any] = {name: read(cells.get(column)) for name, column, read in _PLAIN}
    return Row(
        **plain,
        family=case.family,
        workload=case.workload,
        case=str(cells["case"]),
        axes={name: value for name, value in case.axes if name != "device"},
        device=_text(cells.get("device")) or str(case.values.get("device")),
        status=str(cells["status"]),
        launches=_mapping(cells.get("launches")),
        findings=_mapping(cells.get("findings")),
    )


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _mapping(value: Any) -> dict[Any, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


_KINDS: Mapping[Any, Callable[[Any], Any]] = {float | None: _number, str | None: _text}
"""Type of a field that is one cell -> its reader."""
_PLAIN = [
    (one.name, _COLUMNS.get(one.name, one.name), _KINDS[one.type])
    for one in fields(Row)
    if one.type in _KINDS
]
"""Field, column, reader: looked up once, for a run has thousands of rows."""


def valid(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.is_valid]


def where(rows: Iterable[Row], workload: str | None = None, /, **axes: Any) -> list[Row]:
    """The rows of a workload with these values, or with one of the values of a tuple."""
    return [row for row in rows if workload in (None, row.workload) and row.has(axes)]


def first(rows: Iterable[Row], workload: str | None = None, /, **axes: Any) -> Row | None:
    """The first valid one of them."""
    return next(iter(valid(where(rows, workload, **axes))), None)


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


def times(rows: Iterable[Row], axis: str) -> dict[int, float]:
    """Value of the axis -> seconds of the valid rows."""
    return {int(row.axes[axis]): row.time for row in valid(rows)}


def distinct(rows: Iterable[Row], pick: Callable[[Row], Any]) -> list[Any]:
    """What rows say, each once, in the order in which it comes; None is nothing."""
    return [one for one in dict.fromkeys(map(pick, rows)) if one is not None]


def size_axis(rows: Iterable[Row]) -> str | None:
    """The axis that counts bytes, if there is one."""
    names = (name for row in rows for name in row.axes)
    return next(filter(counts_bytes, names), None)
