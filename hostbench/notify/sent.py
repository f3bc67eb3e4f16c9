"""What was sent, and what could not be: small files beside the results that merge between machines.

`results/notified/<UTC time>-<4 hex digits>.txt`, one for each night, with a line for each change:

slower 1a2b3c4d...,20261121T120805Z-1a2b3c4d-9f3e transfer.host_to_device[nbytes=16MiB]@box
waiting {"series": ..., "since": ..., ...}

The first was sent; its second word is where it began, and the other points that it may have begun
at. The second was not: the machine's next nights try again, until a line says that it was.
"""

import datetime
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from msgspec import ValidationError, convert

from hostbench.core.clock import now, stamp
from hostbench.core.errors import Warn
from hostbench.core.files import read_stored, write_atomic
from hostbench.core.units import one_line
from hostbench.notify.change import ConfirmedChange
from hostbench.store.union import SENT, SENT_SUFFIX

TRIED_FOR = datetime.timedelta(days=14)
"""What could not be sent for so long is old news."""
_LINE = re.compile(r"(slower|faster) (\S+) (\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentChange:
    """One that was sent."""

    direction: str
    points: tuple[str, ...]
    """Where it began, first; the others it may have begun at."""
    series: str
    """In one line."""

    def is_of(self, change: ConfirmedChange) -> bool:
        """A change keeps its name when the history goes on, but for where it began."""
        if (self.series, self.direction) != (one_line(change.series), change.direction):
            return False
        return change.since in self.points or self.points[0] in change.near


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What all files say."""

    sent: list[SentChange] = field(default_factory=list)
    waiting: list[ConfirmedChange] = field(default_factory=list)

    def has_sent(self, change: ConfirmedChange) -> bool:
        return any(one.is_of(change) for one in self.sent)


def read(results: Path, warn: Warn) -> Noted:
    """Of every machine; what cannot be read is a warning."""
    found = Noted()
    since = stamp((datetime.datetime.fromisoformat(now()) - TRIED_FOR).isoformat())
    for path in sorted((results / SENT).glob(f"*{SENT_SUFFIX}")):
        name = f"{SENT}/{path.name}"
        try:
            lines = read_stored(path, results).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            warn(f"{name} cannot be read ({error}): what it holds may be sent again; delete it")
            continue
        for number, line in enumerate(lines, start=1):
            if not _take(line, found, is_tried=path.name >= since):
                warn(f"{name}, line {number} is damaged: that change may be sent again; delete it")
    return found


def _take(line: str, found: Noted, is_tried: bool) -> bool:
    """Whether the line is whole."""
    word, _, rest = line.partition(" ")
    if word == "waiting":
        try:
            change = convert(json.loads(rest), ConfirmedChange)
        except (ValueError, ValidationError, RecursionError):
            return False
        found.waiting.extend([change] if is_tried else [])
    elif match := _LINE.fullmatch(line):
        direction, points, series = match.groups()
        found.sent.append(
            SentChange(direction=direction, points=tuple(points.split(",")), series=series)
        )
    else:
        return not line.strip() or line.startswith("#")
    return True


def new_file(results: Path) -> Path:
    """Where what is sent now is noted."""
    return results / SENT / f"{stamp()}-{secrets.token_hex(2)}{SENT_SUFFIX}"


def write(
    path: Path, changes: Iterable[ConfirmedChange], waiting: Iterable[ConfirmedChange] = ()
) -> None:
    """All that was sent, or could not be, since the file was begun."""
    lines = ["# sent by hostbench; without this file it is sent again", *map(_line, changes)]
    lines += (f"waiting {json.dumps(_plain(change))}" for change in waiting)
    write_atomic(path, "\n".join(lines).encode() + b"\n")


def _line(change: ConfirmedChange) -> str:
    points = ",".join((change.since, *sorted(change.near - {change.since})))
    return f"{change.direction} {points} {one_line(change.series)}"


def _plain(change: ConfirmedChange) -> dict[str, object]:
    return {**asdict(change), "near": sorted(change.near)}
