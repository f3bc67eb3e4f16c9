"""Series and changes as JSON lines, so that any program can have any series judged."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hostbench.core.errors import UsageError
from hostbench.judge.change import Change, Judgement, Options
from hostbench.judge.detector import judge, log_seconds
from hostbench.judge.levels import Floats
from hostbench.judge.machine import judge_machine

NUMBERS = {int, float, type(None)}
MACHINE = "machine:"
"""What the ids of the machines' own events begin with."""
EXAMPLE = '{"id": "copy@box", "values": [0.0021, 0.0022, null], "group": "box"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One series as it came in."""

    id: str
    values: Floats
    """Logarithms of seconds, NaN where missing."""
    group: str | None
    breaks: tuple[int, ...]


def read(lines: Iterable[bytes], name: str) -> tuple[list[Line], list[str]]:
    """Every series of a file in UTF-8, and what is wrong with the other lines, which are named.

    An empty line is skipped, a key that is not ours ignored.
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
        read = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where} is not UTF-8 text from byte {error.start + 1} on; write it as UTF-8"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON ({error}); write it like {EXAMPLE}") from None
    if not isinstance(read, dict) or "id" not in read or "values" not in read:
        raise UsageError(f"{where} is no object with id and values; write it like {EXAMPLE}")
    if not isinstance(read["id"], str) or not isinstance(read.get("group"), str | None):
        raise UsageError(f"{where}: id and group are text; write it like {EXAMPLE}")
    if read["id"].startswith(MACHINE):
        raise UsageError(
            f"{where}: id {read['id']!r} begins with {MACHINE}, as those of the machines' own "
            "events do; name the series otherwise"
        )
    return Line(
        id=read["id"],
        values=_values(read["values"], where),
        group=read.get("group"),
        breaks=_breaks(read.get("breaks", []), where),
    )


def _values(values: Any, where: str) -> Floats:
    if not isinstance(values, list):
        raise UsageError(f"{where}: values is not a list; write it like {EXAMPLE}")
    try:
        seconds = np.array(values, dtype=np.float64) if set(map(type, values)) <= NUMBERS else None
    except OverflowError:
        seconds = None
    if seconds is None or ((seconds <= 0) | np.isinf(seconds)).any():
        place, value = next((i, v) for i, v in enumerate(values) if not _is_seconds(v))
        raise UsageError(
            f"{where}: value {place} is {json.dumps(value)[:40]}; each is seconds above 0 and "
            f"at most {sys.float_info.max:.3g}, or null where there is none"
        )
    return log_seconds(seconds)


def _is_seconds(value: Any) -> bool:
    """Or a missing point."""
    if value is None or value != value:
        return True
    return type(value) in NUMBERS and 0 < value <= sys.float_info.max


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
            machines.append((MACHINE + group, machine.common))
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
