"""The events of a trace file, a few thousand at a time: plain or gzip, of any length.

A piece of the file is cut where one event ends and the next begins. That the cut is right is
proved by decoding: `[` + piece + `]` is JSON only if the piece is a row of whole values. A piece
that is no JSON, or holds an event of another shape, is halved until each half is read or is one
event: that is read leniently, or left out and counted.
"""

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import open_stored
from hostbench.core.units import MIB, number_of

_PIECE_BYTES = 4 * MIB
_LONGEST_BYTES = 16 * MIB
"""Of one event, and of what stands before the first and behind the last."""
_TRIES = 16
"""Places at which a piece is tried to be cut, from its end."""

_START = re.compile(rb'"traceEvents"\s*:\s*\[|^\s*\[')
_BORDER = re.compile(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|cat|name|pid|tid|id|ts|tts|dur|args|s|bp|cname|sf|scope|bind_id)"\s*:)'
)
"""Between two events. No text that is JSON holds it: there a quote stands behind a backslash."""
_LIST_END = re.compile(r'(?<=\})\s*\]\s*(,\s*"|\}?\s*$)')
_BARE = re.compile(
    rb'((?<!\\)"\s*:\s*)(?!(?:true|false|null)\b)([-+]?[A-Za-z][\w/]+)(?=\s*[,}])', re.ASCII
)
"""A value that is no JSON: `nan`, `Infinity`, `N/A`."""
_ENDED = re.compile(r"trailing characters \(byte (\d+)\)")
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')

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


class _Facts(msgspec.Struct):
    """What stands before and behind the events."""

    distributedInfo: Any = None
    baseTimeNanoseconds: Any = None


class _Rest(_Facts, kw_only=True):
    """The end of a file, behind a start that is put before it."""

    traceEvents: list[TraceEvent]


_EVENTS = msgspec.json.Decoder(list[TraceEvent])
_FACTS = msgspec.json.Decoder(_Facts)
_REST = msgspec.json.Decoder(_Rest)
_LENIENT = json.JSONDecoder(strict=False)


class TraceFile:
    """One file. The facts and warnings are complete once `events` has come to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rank: int | None = None
        self.base_ns = 0
        """What the times of the events count from."""
        self.num_bytes = 0
        self.warnings: list[str] = []
        self._is_broken = False
        """The packed file ends here."""
        self._num_read, self._num_unread = 0, 0
        """Events."""
        self._first_unread, self._last_unread = 0, (0, 0)
        """Where in the file: the start of the first, the start and end of the last."""
        self._rest: bytes | None = None
        """Of what was read, from the end of the list of events on, once that was seen."""

    def events(self) -> Iterator[list[TraceEvent]]:
        """What can be read; where the file ends too early, or events cannot be read, warnings tell.

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
            is_whole = not more
            buffer += more
            cut = None if is_whole or self._rest is not None else self._cut(buffer)
            if cut is not None:
                events, buffer = cut
                self._num_read += len(events)
                yield events
            elif len(buffer) > _LONGEST_BYTES:
                break
        yield self._end(buffer)

    def _read(self, file: BinaryIO) -> bytes:
        """The next piece; of a packed file that is damaged what came out before the damage."""
        data = bytearray()
        try:
            while len(data) < _PIECE_BYTES and not self._is_broken:
                more = file.read1(_PIECE_BYTES - len(data))  # type: ignore[attr-defined]
                if not more:
                    break
                data += more
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self._is_broken = True
            self.warnings.append(
                f"{self.path.name}: the packed file is damaged or cut off ({error}); what could be "
                "unpacked was read"
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
        """Nobody needs them: they are a help."""
        with suppress(ValueError):
            self._take(_FACTS.decode(head + (b"]" if head.strip() == b"[" else b"]}")))

    def _take(self, facts: _Facts) -> None:
        info, base_ns = facts.distributedInfo, facts.baseTimeNanoseconds
        rank = info.get("rank") if isinstance(info, dict) else None
        if isinstance(rank, int):
            self.rank = rank
        if isinstance(base_ns, int) and abs(base_ns) < 1 << 63:
            self.base_ns = base_ns

    def _cut(self, buffer: bytes) -> tuple[list[TraceEvent], bytes] | None:
        """As many whole events as there are, and what follows the comma behind them; None where no
        cut is found."""
        end = last = _last_border(buffer, len(buffer))
        for _ in range(_TRIES):
            if end < 0:
                break
            try:
                events = _EVENTS.decode(b"[" + buffer[:end] + b"]")
                return events, buffer[buffer.index(b",", end) + 1 :]
            except ValueError as error:
                why = str(error)
            ended = _ENDED.search(why)
            if ended is not None and b'"ph"' not in buffer[int(ended[1]) :]:
                at = int(ended[1]) - 2  # it counts from 1, and `[` stands before the piece
                self._rest = b"]" + buffer[at:]
                return _EVENTS.decode(b"[" + buffer[:at]), self._rest
            if "truncated" not in why and _BORDER.match(buffer, end - 1):
                return self._mended(buffer, end)
            end = _last_border(buffer, end)  # that one was inside an event
        return self._mended(buffer, last) if 0 <= last and len(buffer) > _LONGEST_BYTES else None

    def _mended(self, buffer: bytes, end: int) -> tuple[list[TraceEvent], bytes]:
        events = self._halved(_without_bare(buffer), 0, end)
        return events, self._rest or buffer[buffer.index(b",", end) + 1 :]

    def _end(self, buffer: bytes) -> list[TraceEvent]:
        """The last events, and what stands behind them."""
        events: list[TraceEvent] = []
        if not self._take_rest(buffer, events):
            events += self._halved(_without_bare(buffer), 0, len(buffer))
            if not self._num_read and not events:
                raise DataError(
                    f"{self.path} is no trace of PyTorch's profiler: it lists no events"
                )
            if self._rest is None:
                self._warn_of_end(len(buffer))
            else:
                self._take_rest(self._rest, [])
        if self._num_unread:
            self.warnings.append(
                f"{self.path.name}: {number_of(self._num_unread, 'event')} left out that cannot be "
                f"read, the first at byte {self._first_unread:,}"
            )
        return events

    def _take_rest(self, buffer: bytes, events: list[TraceEvent]) -> bool:
        """Whether it is JSON; `events` gets those in it."""
        for closed in (b"", b"}"):
            with suppress(ValueError):
                rest = _REST.decode(b'{"traceEvents":[' + buffer + closed)
                self._take(rest)
                events += rest.traceEvents
                return True
        return False

    def _warn_of_end(self, num: int) -> None:
        """The list of events does not end: an event that was begun is none."""
        start, end = self._last_unread
        at = self.num_bytes
        if self._num_unread and end == num:
            self._num_unread -= 1
            at += start - end
        if not self._is_broken:
            self.warnings.append(
                f"{self.path.name}: it is cut off or damaged at byte {at:,}; what stands before "
                "that was read"
            )

    def _halved(self, buffer: bytes, start: int, end: int) -> list[TraceEvent]:
        """What can be read of a part of the buffer."""
        if self._rest is not None:
            return []
        with suppress(ValueError):
            return _EVENTS.decode(b"[" + buffer[start:end] + b"]")
        border = _BORDER.search(buffer, (start + end) // 2, end) or _BORDER.search(
            buffer, start, end
        )
        if border is None:
            return self._one(buffer, start, end)
        first = self._halved(buffer, start, border.start() + 1)
        return first + self._halved(buffer, border.end(), end)

    def _one(self, buffer: bytes, start: int, end: int) -> list[TraceEvent]:
        """An event that is no JSON, or has another shape; of the last what follows it too."""
        start += len(buffer[start:end]) - len(buffer[start:end].lstrip())
        text = buffer[start:end].decode(errors="replace")
        text = _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", text)
        try:
            value, used = _LENIENT.raw_decode(text)
            event, list_end = _lenient(value), _LIST_END.match(text, used)
        except (ValueError, RecursionError):
            event, used, list_end = None, 0, _LIST_END.search(text)
        if list_end and b'"ph"' not in buffer[end:]:
            self._rest = text[list_end.start() :].encode() + buffer[end:]
        if event is None or not (list_end or text[used:].isspace() or len(text) == used):
            at = self.num_bytes - len(buffer) + start
            self._first_unread = self._first_unread if self._num_unread else at
            self._num_unread += 1
            self._last_unread = (start, end)
        return [] if event is None else [event]


def _without_bare(buffer: bytes) -> bytes:
    """Of the same length, so that each event stays where it is."""
    return _BARE.sub(lambda found: found[1] + b'""'.ljust(len(found[2])), buffer)


def _lenient(value: Any) -> TraceEvent | None:
    """What has another shape counts as not there; None: this is no event."""
    if not isinstance(value, dict) or not isinstance(value.get("ph"), str):
        return None
    own, args, cat = _plain(value), value.get("args"), value.get("cat")
    own["args"] = _plain(args) if isinstance(args, dict) else None
    own["cat"] = cat if isinstance(cat, str) else None
    return msgspec.convert(own, TraceEvent)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: each
        for key, each in values.items()
        if isinstance(each, int | float | str) and not isinstance(each, bool)
    }


def _last_border(buffer: bytes, end: int) -> int:
    """Where before `end` the last `}` stands that a comma and a `{` follow: the place behind it;
    -1 where there is none."""
    while (start := buffer.rfind(b"{", 0, end)) >= 0:
        before = buffer[max(0, start - 64) : start].rstrip()
        if before.endswith(b",") and before[:-1].rstrip().endswith(b"}"):
            return max(0, start - 64) + len(before[:-1].rstrip())
        end = start
    return -1
