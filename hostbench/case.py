"""A case: one workload with one choice on every axis, and the syntax that names it everywhere.

`family.workload[axis=value,...]`, for example
`transfer.host_to_device[device=cpu,nbytes=65536,memory=pageable,blocking=True]`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hostbench import units
from hostbench.errors import UsageError

AxisValue = str | int | bool

_NAME = re.compile(r"^(?P<workload>[a-z0-9_]+(\.[a-z0-9_]+)?)(\[(?P<axes>[^\[\]]*)\])?$")


@dataclass(frozen=True, slots=True)
class Case:
    """One choice on every axis of one workload. `axes` keeps the order of the declaration."""

    workload: str
    axes: tuple[tuple[str, AxisValue], ...]

    @classmethod
    def of(cls, workload: str, axes: Mapping[str, AxisValue]) -> "Case":
        return cls(workload, tuple(axes.items()))

    @property
    def family(self) -> str:
        return self.workload.partition(".")[0]

    @property
    def values(self) -> dict[str, AxisValue]:
        return dict(self.axes)

    def __str__(self) -> str:
        inner = ",".join(f"{name}={value}" for name, value in self.axes)
        return f"{self.workload}[{inner}]"


@dataclass(frozen=True, slots=True)
class Selector:
    """What a person typed for `--case`: a family or a workload, with some or all of its axes."""

    text: str
    workload: str
    axes: tuple[tuple[str, str], ...]

    def selects(self, case: Case) -> bool:
        if self.workload not in (case.workload, case.family):
            return False
        values = case.values
        return all(name in values and _same(values[name], text) for name, text in self.axes)


def parse_selector(text: str) -> Selector:
    """Read `family`, `family.workload` or `family.workload[axis=value,...]`.

    Raises UsageError for anything else.
    """
    match = _NAME.match(text.strip())
    if match is None:
        raise UsageError(
            f"cannot read case {text!r}: write family.workload[axis=value,...], "
            "as `hostbench list` prints it"
        )
    pairs = []
    for part in filter(None, (match["axes"] or "").split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"cannot read axis {part!r} of case {text!r}: write axis=value")
        pairs.append((name.strip(), value.strip()))
    return Selector(text, match["workload"], tuple(pairs))


def _same(value: AxisValue, text: str) -> bool:
    if str(value).lower() == text.lower():
        return True
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return units.parse_bytes(text) == value
        except ValueError:
            return False
    return False
