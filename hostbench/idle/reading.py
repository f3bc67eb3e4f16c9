"""The events of a trace file, a few thousand at a time: plain or gzip, of any length.

A piece of the file is cut where one event ends and the next begins. That the cut is right is
proved by decoding: `[` + piece + `]` is JSON only if the piece is a row of whole values.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import open_stored
from hostbench.core.units import MIB

_PIECE_BYTES = 4 * MIB
_LONGEST_BYTES = 64 * MIB
"""Of one event, and of what stands before the first."""
_TRIES = 16
"""Places at which a piece is tried to be cut, from its end."""

_START = re.compile(rb'"traceEvents"\s*:\s*\[|^\s*\[')
_PLACE = re.compile(r"\(byte (\d+)\)")

Loose = int | float | str | None
"""What writers of traces put in place of a number."""


class EventArgs(msgspec.Struct, gc=False):
    """Of `args`, what is read here."""

    device: Loose = None
    stream: Loose = None
    correlation: Loose = None
    nbytes: Loose = msgspec.field(name="bytes", default=None)
    call_stack: Loose = msgspec.field(name="Call stack", default=None)


class TraceEvent(msgspec.Struct, gc=False):
    """One event of a Chrome trace; times are microseconds."""

    ph: str | None = None
    cat: str | None = None
    name: Loose = None
    pid: Loose = None
    tid: Loose = None
    ts: Loose = None
    dur: Loose = None
    args: EventArgs | None = None


class _Rest(msgspec.Struct):
    """The end of a file, behind a start that is put before it."""

    traceEvents: list[TraceEvent]
    distributedInfo: Any = None


_EVENTS = msgspec.json.Decoder(list[TraceEvent])
_REST = msgspec.json.Decoder(_Rest)


class TraceFile:
    """One file. `rank` and `warnings` are complete once `events` has come to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rank: int | None = None
        self.num_bytes = 0
        self.warnings: list[str] = []

    def events(self) -> Iterator[list[TraceEvent]]:
        """What can be read; where the file is damaged or ends too early, a warning tells so.

        Raises UsageError for what cannot be opened, DataError for what is no trace.
        """
        try:
            with open_stored(self.path) as file:
                is_packed = file.read(2) == b"\x1f\x8b"
                file.seek(0)
                unpacked: Any = gzip.GzipFile(fileobj=file) if is_packed else file
                yield from self._pieces(unpacked)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot read {self.path}: {why}") from error

    def _pieces(self, file: BinaryIO) -> Iterator[list[TraceEvent]]:
        buffer, is_whole = self._head(file)
        while not is_whole:
            more = self._read(file)
            is_whole = not more or bool(self.warnings)
            buffer += more
            cut = None if is_whole else _cut(buffer)
            if cut is not None:
                events, used = cut
                buffer = buffer[used:]
                yield events
            elif len(buffer) > _LONGEST_BYTES:
                break
        yield self._end(buffer)

    def _read(self, file: BinaryIO) -> bytes:
        """The next piece; of a packed file that is damaged what came out before the damage."""
        data = bytearray()
        try:
            while len(data) < _PIECE_BYTES:
                more = file.read1(_PIECE_BYTES - len(data))  # type: ignore[attr-defined]
                if not more:
                    break
                data += more
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.warnings.append(
                f"{self.path.name}: the packed file is damaged or cut off ({error})"
            )
        self.num_bytes += len(data)
        return bytes(data)

    def _head(self, file: BinaryIO) -> tuple[bytes, bool]:
        """What follows the start of the list of events, and whether that is all of the file."""
        buffer, is_whole = b"", False
        while not is_whole and len(buffer) <= _LONGEST_BYTES:
            more = self._read(file)
            is_whole = not more
            buffer += more
            start = _START.search(buffer)
            if start is not None:
                self._facts(buffer[: start.end()])
                return buffer[start.end() :], is_whole
        raise DataError(
            f"{self.path} is no trace of PyTorch's profiler: it has no list traceEvents; write one "
            "with profile.export_chrome_trace(FILE)"
        )

    def _facts(self, head: bytes) -> None:
        try:
            facts = msgspec.json.decode(head + (b"]" if head.strip() == b"[" else b"]}"))
        except msgspec.DecodeError:
            return  # facts that nobody needs: only the rank is looked for, as a help
        self._take_rank(facts.get("distributedInfo") if isinstance(facts, dict) else None)

    def _take_rank(self, info: object) -> None:
        rank = info.get("rank") if isinstance(info, dict) else None
        if isinstance(rank, int):
            self.rank = rank

    def _end(self, buffer: bytes) -> list[TraceEvent]:
        """The last events, and what stands behind them."""
        for opened, closed in ((b'{"traceEvents":[', b""), (b'{"traceEvents":[', b"}")):
            try:
                rest = _REST.decode(opened + buffer + closed)
            except msgspec.ValidationError as error:
                raise DataError(f"{self.path} is no trace of PyTorch's profiler: {error}") from None
            except msgspec.DecodeError as error:
                place = _PLACE.search(str(error))
                where = int(place[1]) - len(opened) if place else len(buffer)
                continue
            self._take_rank(rest.distributedInfo)
            return rest.traceEvents
        return self._salvaged(buffer, where)

    def _salvaged(self, buffer: bytes, where: int) -> list[TraceEvent]:
        """What stands before the damage."""
        where = min(max(where, 0), len(buffer))
        events: list[TraceEvent] = []
        is_closed = buffer[:where].rstrip().endswith(b"]")
        cut = _closed(buffer, where) if is_closed else _cut(buffer[:where])
        if cut is not None:
            events = cut[0]
        if not is_closed:
            at = self.num_bytes - len(buffer) + where
            self.warnings.append(
                f"{self.path.name}: it is cut off or damaged at byte {at:,}; what stands before "
                "that was read"
            )
        return events


def _closed(buffer: bytes, where: int) -> tuple[list[TraceEvent], int] | None:
    """The events before the `]` that ends their list, whatever follows."""
    try:
        return _EVENTS.decode(b"[" + buffer[:where].rstrip()), where
    except msgspec.DecodeError:
        return None


def _cut(buffer: bytes) -> tuple[list[TraceEvent], int] | None:
    """As many whole events as there are, and how many bytes they take with the comma behind them;
    None where no cut is found. Raises DataError for values that are no events."""
    end = len(buffer)
    for _ in range(_TRIES):
        end = _last_border(buffer, end)
        if end < 0:
            return None
        try:
            return _EVENTS.decode(b"[" + buffer[:end] + b"]"), buffer.index(b",", end) + 1
        except msgspec.ValidationError as error:
            raise DataError(f"no trace of PyTorch's profiler: {error}") from None
        except msgspec.DecodeError:
            continue
    return None


def _last_border(buffer: bytes, end: int) -> int:
    """Where before `end` the last `}` stands that a comma and a `{` follow: the place behind it;
    -1 where there is none."""
    while (start := buffer.rfind(b"{", 0, end)) >= 0:
        before = buffer[max(0, start - 64) : start].rstrip()
        if before.endswith(b",") and before[:-1].rstrip().endswith(b"}"):
            return max(0, start - 64) + len(before[:-1].rstrip())
        end = start
    return -1
