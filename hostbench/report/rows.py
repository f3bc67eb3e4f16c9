"""The rows of one run as plain records: what questions choose from."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from hostbench.core.case import AxisValue, Case, counts_bytes, read_case

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
    launches: Mapping[int, float] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)
    flags: str | None = None
    ceiling: str | None = None
    link: str | None = None
    published: str | None = None
    published_kind: str | None = None

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
    def time(self) -> float:
        """Seconds of a valid row."""
        assert self.seconds is not None
        return self.seconds

    @property
    def by_launch(self) -> Mapping[int, float]:
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

    def of(self, workload: str) -> "Row":
        """The same among the cases of another workload."""
        return replace(self, workload=workload)


Rows = Sequence[Row]
_CELLS = [cell.name for cell in fields(Row) if cell.name not in ("family", "workload", "axes")]


def rows_of(frame: "pd.DataFrame") -> list[Row]:
    """The rows of the tidy frame whose case can be read."""
    cases = ((cells, read_case(str(cells["case"]))) for cells in frame.to_dict("records"))
    return [_row(cells, case) for cells, case in cases if case is not None]


def _row(cells: Mapping[Hashable, Any], case: Case) -> Row:
    """What the frame does not know, or knows as no finite number, is as Row has it."""
    known = {
        name: cells[name]
        for name in _CELLS
        if cells.get(name) is not None
        and not (isinstance(cells[name], float) and not math.isfinite(cells[name]))
    }
    own = {name: value for name, value in case.axes if name != "device"}
    device = known.pop("device", case.values.get("device"))
    return Row(**known, family=case.family, workload=case.workload, axes=own, device=str(device))


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
