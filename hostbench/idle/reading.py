"""The events of a trace file, a few thousand at a time: plain or gzip, of any length.

A piece of the file is cut where one event ends and the next begins. That the cut is right is
proved by decoding: `[` + piece + `]` is JSON only if the piece is a row of whole values.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import open_stored
from hostbench.core.units import MIB

_PIECE_BYTES = 4 * MIB
_LONGEST_BYTES = 16 * MIB
"""Of one event, and of what stands before the first and behind the last."""
_NUM_CUTS = 16
"""Places at which a piece is tried to be cut, from its end: those before lie inside an event."""
_START = re.compile(rb'"traceEvents"\s*:\s*\[|^\s*\[')
_BARE = re.compile(
    rb'((?<!\\)"\s*:\s*)(?!(?:true|false|null)\b)[-+]?[A-Za-z][\w/]+(?=\s*[,}])', re.ASCII
)
"""A value that is no JSON, which profilers do write: `nan`, `inf`, `N/A`."""
_LENIENT = json.JSONDecoder(strict=False)
"""It reads a line break in a name, which `msgspec` does not."""


class EventArgs(msgspec.Struct, gc=False):
    """Of `args`, what is read here."""

    device: int | None = None
    stream: int | str | None = None
    correlation: int | None = None
    nbytes: int | None = msgspec.field(name="bytes", default=None)
    call_stack: str | None = msgspec.field(name="Call stack", default=None)


class TraceEvent(msgspec.Struct, gc=False):
    """One event of a Chrome trace; times are microseconds."""

    ph: str
    cat: str | None = None
    name: str | int | float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float | None = None
    dur: float | None = None
    args: EventArgs | None = None


class _Document(msgspec.Struct):
    distributedInfo: Any = None
    traceEvents: list[TraceEvent] = []


_EVENTS = msgspec.json.Decoder(list[TraceEvent])
_DOCUMENT = msgspec.json.Decoder(_Document)


class TraceFile:
    """One file. `rank` and `num_left_out` are complete once `events` has come to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rank: int | None = None
        self.num_left_out = 0
        """Events of another shape, or with a number that is none."""
        self._num_read = self._num_bytes = 0

    def events(self) -> Iterator[list[TraceEvent]]:
        """All events. Raises UsageError for a file that cannot be opened, DataError for what is no
        trace, and for one that is damaged or cut off."""
        try:
            with open_stored(self.path) as file:
                is_packed = file.read(2) == b"\x1f\x8b"
                file.seek(0)
                yield from self._pieces(gzip.GzipFile(fileobj=file) if is_packed else file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._damaged(str(error)) from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot read {self.path}: {why}") from error

    def _pieces(self, file: Any) -> Iterator[list[TraceEvent]]:
        buffer = self._head(file)
        while piece := file.read(_PIECE_BYTES):
            buffer += piece
            self._num_bytes += len(piece)
            events, buffer = self._cut(buffer)
            if len(buffer) > _LONGEST_BYTES:
                raise self._damaged(f"no event ends in {_LONGEST_BYTES // MIB}MiB")
            self._num_read += len(events)
            yield events
        yield self._end(buffer)

    def _head(self, file: Any) -> bytes:
        """What was read beyond the start of the list of events."""
        buffer = b""
        while (start := _START.search(buffer)) is None:
            piece = file.read(_PIECE_BYTES)
            if not piece or len(buffer) > _LONGEST_BYTES:
                raise self._no_trace("it has no list traceEvents")
            buffer += piece
        self._num_bytes = len(buffer)
        with suppress(ValueError):  # what stands there is a help, and needed by nobody
            closing = b"]" if buffer[: start.end()].strip() == b"[" else b"]}"
            self._take_rank(_DOCUMENT.decode(buffer[: start.end()] + closing).distributedInfo)
        return buffer[start.end() :]

    def _cut(self, buffer: bytes) -> tuple[list[TraceEvent], bytes]:
        """As many whole events as there are, and what follows the comma behind them."""
        end = len(buffer)
        for _ in range(_NUM_CUTS):
            end = _last_border(buffer, end)
            if end < 0:
                break
            try:
                events = _EVENTS.decode(b"[" + buffer[:end] + b"]")
            except ValueError as error:
                if "truncated" in str(error):
                    continue  # that place is inside an event
                try:
                    events = self._lenient(b"[" + buffer[:end] + b"]")
                except ValueError:  # what follows the list of events has begun
                    break
            return events, buffer[buffer.index(b",", end) + 1 :]
        return [], buffer

    def _end(self, buffer: bytes) -> list[TraceEvent]:
        """The last events, and what stands behind them: `]` and, unless the file is a bare list,
        more of the object."""
        why = ""
        for closing in (b"", b"}"):
            text = b'{"traceEvents":[' + buffer + closing
            try:
                document = _DOCUMENT.decode(text)
            except ValueError as error:
                why = why or str(error)
            else:
                self._take_rank(document.distributedInfo)
                return document.traceEvents
            with suppress(ValueError):
                events = self._lenient(text)
                if not events and not self._num_read and self.num_left_out:
                    raise self._no_trace("it lists no events")
                return events
        if not self._num_read and b'"ph"' not in buffer:
            raise self._no_trace("it lists no events")
        raise self._damaged(why)

    def _lenient(self, text: bytes) -> list[TraceEvent]:
        """Of a list or an object that `msgspec` refuses. Raises ValueError for what is no JSON."""
        document = _LENIENT.decode(_BARE.sub(rb"\1null", text).decode(errors="replace"))
        if isinstance(document, dict):
            self._take_rank(document.get("distributedInfo"))
            document = document["traceEvents"]
        events = []
        for row in document:
            try:
                events.append(msgspec.convert(row, TraceEvent, strict=False))
            except msgspec.ValidationError:
                self.num_left_out += 1
        return events

    def _take_rank(self, info: Any) -> None:
        rank = info.get("rank") if isinstance(info, dict) else None
        if isinstance(rank, int):
            self.rank = rank

    def _no_trace(self, why: str) -> DataError:
        return DataError(
            f"{self.path} is no trace of PyTorch's profiler: {why}; write one with "
            "profile.export_chrome_trace(FILE)"
        )

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self.path} is damaged or cut off ({why}), {self._num_bytes:,} bytes were read: "
            "record or export it once more"
        )


def _last_border(buffer: bytes, end: int) -> int:
    """Where before `end` the last `}` stands that a comma and a `{` follow: the place behind it;
    -1 where there is none."""
    while (start := buffer.rfind(b"{", 0, end)) >= 0:
        before = buffer[max(0, start - 64) : start].rstrip()
        if before.endswith(b",") and before[:-1].rstrip().endswith(b"}"):
            return max(0, start - 64) + len(before[:-1].rstrip())
        end = start
    return -1
