"""Series and changes as JSON lines, so that any program can have any series judged."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from hostbench.core.arrays import Floats
from hostbench.core.errors import UsageError
from hostbench.core.records import DAMAGE
from hostbench.judge.change import Change, Judgement
from hostbench.judge.detector import judge, log_seconds
from hostbench.judge.machine import judge_machine

MACHINE = "machine:"
"""What the ids of the machines' own events begin with."""
MAX_POINTS = 20_000
"""Of a series."""
EXAMPLE = '{"id": "copy@box", "values": [0.0021, 0.0022, null], "group": "box"}'


class Line(Struct, frozen=True, kw_only=True):
    """One series as it is written; a key that is not ours is ignored."""

    id: str
    values: tuple[float | None, ...]
    """Seconds; None or NaN where a point is missing."""
    group: str | None = None
    """The machine."""
    breaks: tuple[Annotated[int, Meta(ge=0)], ...] = ()
    """The first point after each baseline reset."""

    def __post_init__(self) -> None:
        if self.id.startswith(MACHINE):
            raise ValueError(
                f"id {self.id!r} begins with {MACHINE}, as those of the machines' own events do; "
                "name the series otherwise"
            )
        if len(self.values) > MAX_POINTS:
            raise ValueError(
                f"it has {len(self.values):,} values, of which at most {MAX_POINTS:,} are judged: "
                "leave the oldest out"
            )
        for number, value in enumerate(self.values):
            if value is not None and (value <= 0 or value == math.inf):
                raise ValueError(f"value {number} is {value}, not finite seconds above 0")

    @property
    def logs(self) -> Floats:
        return log_seconds([math.nan if value is None else value for value in self.values])


def read(lines: Iterable[bytes], name: str) -> tuple[list[Line], list[str]]:
    """Every series of a file in UTF-8, and what is wrong with the other lines, which are named.

    An empty line is skipped.
    """
    found: dict[str, int] = {}
    series: list[Line] = []
    wrong: list[str] = []
    for number, data in enumerate(lines, start=1):
        if not data.strip():
            continue
        where = f"{name}, line {number}"
        try:
            line = _line(data, where)
            if line.id in found:
                raise UsageError(
                    f"{where}: id {line.id!r} was on line {found[line.id]} already; "
                    "give each series an id of its own"
                )
        except UsageError as error:
            wrong.append(str(error))
            continue
        found[line.id] = number
        series.append(line)
    return series, wrong


def _line(data: bytes, where: str) -> Line:
    """Raises UsageError, which says where it is."""
    try:
        return convert(json.loads(data.decode("utf-8")), Line)
    except DAMAGE as error:
        raise UsageError(
            f"{where} is not a series in JSON: {error}; write it like {EXAMPLE}"
        ) from None


def judge_lines(series: Sequence[Line]) -> Iterator[tuple[str, Judgement]]:
    """Id and judgement of every series in its order, and then of each machine `machine:GROUP`.

    Series without a group are judged alone.
    """
    groups: dict[str | None, list[int]] = {}
    for i, line in enumerate(series):
        groups.setdefault(line.group, []).append(i)
    judged: dict[int, Judgement] = {}
    machines = []
    for group, members in groups.items():
        rows, resets = ([series[i].logs for i in members], [series[i].breaks for i in members])
        if group is None:
            judged |= zip(members, judge(rows, resets), strict=True)
            continue
        machine = judge_machine(rows, resets)
        judged |= zip(members, machine.own, strict=True)
        if machine.common is not None:
            machines.append((MACHINE + group, machine.common))
    yield from ((line.id, judged[i]) for i, line in enumerate(series))
    yield from machines


def written(id: str, change: Change) -> str:
    """One change as a line. `kind` and `until` are there only where it is not a plain step; of a
    baseline reset there is no effect."""
    data: dict[str, Any] = {
        "id": id,
        "index": change.index,
        "effect": None if change.kind == "break" else round(change.effect, 6),
        "state": change.state,
    }
    if change.kind != "step":
        data["kind"] = change.kind
    if change.until is not None:
        data["until"] = change.until
    return json.dumps(data)
