"""A case: one workload with one choice on every axis, and the syntax that names it everywhere.

`family.workload[axis=value,...]`, for example
`transfer.host_to_device[device=cpu,nbytes=65536,memory=pageable,blocking=True]`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct, field

from hostbench.core import units
from hostbench.core.errors import UsageError

AxisValue = str | bool | Annotated[int, Meta(ge=1 - (1 << 63), le=(1 << 63) - 1)]

_BYTES = re.compile(r"bytes=(\d{4,18})(?=[,\]])")
_TYPED = re.compile(r"bytes=(\d+[KMG]iB)(?=[,\]])")
_INT = re.compile(r"-?\d{1,19}", re.ASCII)
_SERIES = re.compile(  # `compare` shows a version other than 1 behind the case
    r"^(?P<workload>[^\[\]@,=]+?)(\[(?P<axes>[^\[\]]*)\])?( version [^@\s]+)?"
    r"(@(?P<machine>[^@\[\]]+))?$"
)


def class_name(workload: str) -> str:
    """What asv calls it: `transfer.host_to_device` -> `HostToDevice`."""
    return "".join(part.capitalize() for part in workload.partition(".")[2].split("_"))


def asv_name(workload: str) -> str:
    """`transfer.host_to_device` -> `transfer.HostToDevice.track_seconds`."""
    return f"{workload.partition('.')[0]}.{class_name(workload)}.track_seconds"


def counts_bytes(axis: str) -> bool:
    """An axis whose name ends in `bytes` holds sizes."""
    return axis.endswith("bytes")


class Case(Struct, frozen=True):
    """One choice on every axis of one workload, in the order of the declaration."""

    workload: str
    values: Mapping[str, AxisValue] = field(name="axes")

    def __hash__(self) -> int:
        return hash((self.workload, frozenset(self.values.items())))

    @property
    def family(self) -> str:
        return self.workload.partition(".")[0]

    def __str__(self) -> str:
        inner = ",".join(f"{name}={value}" for name, value in self.values.items())
        return f"{self.workload}[{inner}]"


@dataclass(frozen=True, slots=True)
class Selector:
    """What a person typed for a case: a family or a workload, with some or all of its axes; for a
    series also its machine, or every one."""

    text: str
    workload: str
    axes: tuple[tuple[str, str], ...]
    machine: str | None = None

    @property
    def family(self) -> str:
        return self.workload.partition(".")[0]

    def selects(self, case: Case) -> bool:
        if self.workload not in (case.workload, case.family):
            return False
        values = case.values
        return all(name in values and is_value(values[name], text) for name, text in self.axes)

    def selects_series(self, series: str) -> bool:
        """`series` is `case@machine` as it is stored, or `case@machine/environment`. One that is no
        case has parameters that are no axes."""
        text, _, group = series.rpartition("@")
        case = read_case(text) or Case(text.partition("[")[0], {})
        return self.machine in (None, group, group.partition("/")[0]) and self.selects(case)


def parse_selector(text: str) -> Selector:
    """Read `family`, `family.workload` or `family.workload[axis=value,...]`. Raises UsageError."""
    selector = parse_series(text)
    if selector.machine is not None:
        raise UsageError(f"cannot read case {text!r}: leave @{selector.machine} out")
    return selector


def parse_series(text: str) -> Selector:
    """Read `family.workload[axis=value,...]@machine`, with any asv benchmark's name as workload.
    Raises UsageError."""
    if match := _SERIES.match(text.strip()):
        parts = [part.partition("=") for part in (match["axes"] or "").split(",") if part]
        if all(equals for _, equals, _ in parts):
            axes = tuple((name.strip(), value.strip()) for name, _, value in parts)
            return Selector(text, match["workload"], axes, match["machine"])
    raise UsageError(
        f"cannot read {text!r}: write family.workload[axis=value,...], as `hostbench list` prints "
        "it, and @machine behind a series"
    )


def read_case(text: str) -> Case | None:
    """The inverse of str(case), for any asv benchmark; None for what is no case."""
    try:
        selector = parse_selector(text)
    except UsageError:
        return None
    values: dict[str, AxisValue] = {}
    for axis, word in selector.axes:
        values[axis] = int(word) if _INT.fullmatch(word) else word
        if word in ("True", "False"):
            values[axis] = word == "True"
    return Case(selector.workload, values)


def as_typed(text: str) -> str:
    """A case or a series in words for people: `nbytes=16MiB`, which is read as well."""
    return _BYTES.sub(lambda match: f"bytes={units.typed_bytes(int(match[1]))}", text)


def typed_value(axis: str, value: AxisValue) -> str:
    """A value of an axis as a person types it: a size with its unit."""
    if counts_bytes(axis) and type(value) is int:
        return units.typed_bytes(value)
    return str(value)


def as_stored(text: str) -> str:
    """The same as cases are stored: `nbytes=16777216`."""
    return _TYPED.sub(lambda match: f"bytes={units.parse_bytes(match[1])}", text)


def is_value(value: AxisValue, text: str) -> bool:
    """Whether a person who typed this text meant the value: `16MiB` is 16777216."""
    if type(value) is not int:
        return str(value).lower() == text.lower()
    try:
        return units.parse_bytes(text) == value
    except ValueError:
        return False


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'transfer'?)`, or nothing where no name is near; to stand after the word."""
    from difflib import get_close_matches  # only a wrong name needs it

    near = get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def why_no_case(selector: Selector, axes: Mapping[str, Mapping[str, Sequence[AxisValue]]]) -> str:
    """Which word of a selector that selects nothing is wrong. `axes` are those of each workload."""
    word = selector.workload
    names = dict.fromkeys([*(name.partition(".")[0] for name in axes), *axes])
    if word not in names:
        return f"no family or workload {word!r}{did_you_mean(word, names)} is among them"
    values_of: dict[str, dict[AxisValue, None]] = {}
    for name in axes:
        for axis, values in axes[name].items() if word in (name, name.partition(".")[0]) else ():
            values_of.setdefault(axis, {}).update(dict.fromkeys(values))
    for axis, text in selector.axes:
        if axis not in values_of:
            meant = did_you_mean(axis, values_of)
            return f"{word} has no axis {axis!r}{meant}; it has {', '.join(values_of)}"
        if not any(is_value(value, text) for value in values_of[axis]):
            known = ", ".join(typed_value(axis, value) for value in values_of[axis])
            return f"{axis} is never {text!r}; it is {known}"
    return "no case has all of these values"
