"""Series and changes as JSON lines, so that any program can have any series judged."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hostbench.errors import UsageError
from hostbench.judge.change import Change, Judgement, Options
from hostbench.judge.detector import judge, log_seconds
from hostbench.judge.levels import Floats
from hostbench.judge.machine import judge_machine

NUMBERS = {int, float, type(None)}
EXAMPLE = '{"id": "copy@box", "values": [0.0021, 0.0022, null], "group": "box"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series as it came in."""

    id: str
    values: Floats
    """Logarithms of seconds, NaN where missing."""
    group: str | None
    breaks: tuple[int, ...]


def read(lines: Iterable[str], name: str) -> list[Line]:
    """Every series of a file. An empty line is skipped, a key that is not ours ignored.

    Raises UsageError, which names the line.
    """
    found: dict[str, int] = {}
    series = []
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        line = _line(text, f"{name}, line {number}")
        if line.id in found:
            raise UsageError(
                f"{name}, line {number}: id {line.id!r} was on line {found[line.id]} already; "
                "give each series an id of its own"
            )
        found[line.id] = number
        series.append(line)
    return series


def _line(text: str, where: str) -> Line:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON ({error}); write it like {EXAMPLE}") from None
    if not isinstance(data, dict) or "id" not in data or "values" not in data:
        raise UsageError(f"{where} is no object with id and values; write it like {EXAMPLE}")
    if not isinstance(data["id"], str) or not isinstance(data.get("group"), str | None):
        raise UsageError(f"{where}: id and group are text; write it like {EXAMPLE}")
    return Line(
        id=data["id"],
        values=_values(data["values"], where),
        group=data.get("group"),
        breaks=_breaks(data.get("breaks", []), where),
    )


def _values(values: Any, where: str) -> Floats:
    if not isinstance(values, list):
        raise UsageError(f"{where}: values is not a list; write it like {EXAMPLE}")
    try:
        seconds = np.array(values, dtype=np.float64) if set(map(type, values)) <= NUMBERS else None
    except OverflowError:
        raise UsageError(f"{where}: a value is larger than any number of seconds") from None
    if seconds is None or (seconds <= 0).any():
        place, value = next((i, v) for i, v in enumerate(values) if not _is_seconds(v))
        raise UsageError(
            f"{where}: value {place} is {json.dumps(value)[:40]}; "
            "each is seconds above 0, or null where there is none"
        )
    return log_seconds(seconds)


def _is_seconds(value: Any) -> bool:
    return value is None or (type(value) in NUMBERS and not value <= 0)


def _breaks(breaks: Any, where: str) -> tuple[int, ...]:
    if not isinstance(breaks, list) or any(type(b) is not int or b < 0 for b in breaks):
        raise UsageError(f"{where}: breaks is a list of places in values, as in [120, 143]")
    return tuple(breaks)


def judge_lines(series: Sequence[Line], options: Options) -> Iterator[tuple[str, Judgement]]:
    """Id and judgement of every series in its order, and then of each machine `machine:GROUP`.

    Series without a group are judged alone.
    """
    groups: dict[str, list[int]] = {}
    alone: list[int] = []
    for i, line in enumerate(series):
        (alone if line.group is None else groups.setdefault(line.group, [])).append(i)
    judged = dict(zip(alone, _judge(series, alone, options), strict=True))
    machines = []
    for group, members in groups.items():
        machine = judge_machine(
            [series[i].values for i in members], options, [series[i].breaks for i in members]
        )
        judged.update(zip(members, machine.own, strict=True))
        if machine.common is not None:
            machines.append((f"machine:{group}", machine.common))
    yield from ((line.id, judged[i]) for i, line in enumerate(series))
    yield from machines


def _judge(series: Sequence[Line], numbers: Sequence[int], options: Options) -> list[Judgement]:
    return judge([series[i].values for i in numbers], options, [series[i].breaks for i in numbers])


def written(id: str, change: Change) -> str:
    """One change as a line. `kind` and `until` are there only where it is not a plain step."""
    data: dict[str, Any] = {
        "id": id,
        "index": change.index,
        "effect": round(change.effect, 6),
        "state": change.state,
    }
    if change.kind != "step":
        data["kind"] = change.kind
    if change.until is not None:
        data["until"] = change.until
    return json.dumps(data)
