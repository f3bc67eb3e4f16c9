"""What was sent: small files beside the results, which merge between machines.

`results/notified/<UTC time>-<4 hex digits>.txt`, one for each night, with a line for each change:

slower 1a2b3c4d...,20261121T120805Z-1a2b3c4d-9f3e transfer.host_to_device[nbytes=16MiB]@box

The second word is where it began, and the other points that it may have begun at.
"""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hostbench.core.clock import stamp
from hostbench.core.errors import Warn
from hostbench.core.files import read_stored, write_atomic
from hostbench.notify.change import ConfirmedChange
from hostbench.store.union import SENT, SENT_SUFFIX

_LINE = re.compile(r"(slower|faster) (\S+) (\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentChange:
    """One that was sent."""

    direction: str
    points: tuple[str, ...]
    """Where it began, first; the others it may have begun at."""
    series: str

    def is_of(self, change: ConfirmedChange) -> bool:
        """A change keeps its name when the history goes on, but for where it began."""
        if (self.series, self.direction) != (change.series, change.direction):
            return False
        return change.since in self.points or self.points[0] in change.near


def read(results: Path, warn: Warn) -> list[SentChange]:
    """Every change that was sent from any machine; what cannot be read is a warning."""
    found = []
    for path in sorted((results / SENT).glob(f"*{SENT_SUFFIX}")):
        name = f"{SENT}/{path.name}"
        try:
            lines = read_stored(path, results).decode().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            warn(f"{name} cannot be read ({error}): what it holds may be sent again; delete it")
            continue
        for number, line in enumerate(lines, start=1):
            match = _LINE.fullmatch(line)
            if match:
                direction, points, series = match.groups()
                found.append(
                    SentChange(direction=direction, points=tuple(points.split(",")), series=series)
                )
            elif line.strip() and not line.startswith("#"):
                warn(f"{name}, line {number} is damaged: that change may be sent again; delete it")
    return found


def new_file(results: Path) -> Path:
    """Where what is sent now is noted."""
    return results / SENT / f"{stamp()}-{secrets.token_hex(2)}{SENT_SUFFIX}"


def write(path: Path, changes: Iterable[ConfirmedChange]) -> None:
    """All that was sent since the file was begun."""
    lines = ["# sent by hostbench; without this file it is sent again"]
    for change in changes:
        points = ",".join((change.since, *sorted(change.near - {change.since})))
        lines.append(f"{change.direction} {points} {change.series}")
    write_atomic(path, "\n".join(lines).encode() + b"\n")
