"""The one reader of Chrome traces, as torch's profiler (Kineto) writes them: plain or gzip."""

import contextlib
import gzip
import json
import re
import zlib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import open_stored
from hostbench.core.units import MIB

_MAX_BYTES = 2048 * MIB
"""Of a file, and of what it unpacks to."""
_BARE = re.compile(
    rb'((?<!\\)"\s*:\s*)(?!(?:true|false|null)\b)[-+]?[A-Za-z][\w/]+(?=\s*[,}])', re.ASCII
)
"""A value that is no JSON, which profilers do write: `nan`, `inf`, `N/A`."""
_MEMCPY = re.compile(r"(?:Memcpy |Copy)(H|D|P)\w*?[tT]o(D|H|P)\w*(?: \((\w+) -> (\w+)\))?")
"""`Memcpy HtoD (Pageable -> Device)`, and ROCm's `CopyHostToDevice`."""
_COLLECTIVE = re.compile("nccl|rccl", re.IGNORECASE)

Int = Annotated[int, msgspec.Meta(ge=-(10**18), le=10**18)]
Microseconds = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]


class EventArgs(msgspec.Struct, gc=False):
    """Of `args`, what is read here."""

    device: Int | None = None
    stream: Int | str | None = None
    correlation: Int | None = None
    nbytes: Int | None = msgspec.field(name="bytes", default=None)


class TraceEvent(msgspec.Struct, gc=False):
    """One event of a Chrome trace."""

    ph: str
    cat: str | None = None
    name: str | int | float | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Microseconds | None = None
    dur: Microseconds | None = None
    args: EventArgs | None = None


class ChromeTrace(msgspec.Struct):
    """A trace as it was read."""

    events: list[TraceEvent] = msgspec.field(name="traceEvents")
    info: Any = msgspec.field(name="distributedInfo", default=None)
    num_left_out: int = 0
    """Events of another shape, or with a number that is none."""

    @property
    def rank(self) -> int | None:
        rank = self.info.get("rank") if isinstance(self.info, dict) else None
        return rank if isinstance(rank, int) else None


_DECODER = msgspec.json.Decoder(ChromeTrace | list[TraceEvent])


def read_chrome(path: Path) -> ChromeTrace:
    """One file. Raises UsageError where it cannot be opened, DataError for what is no trace, and
    for one that is damaged or cut off."""
    try:
        with open_stored(path) as file:
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            source: Any = gzip.GzipFile(fileobj=file) if is_packed else file
            data = source.read(_MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if len(data) > _MAX_BYTES:
        raise DataError(f"{path} is larger than {_MAX_BYTES // MIB}MiB: record fewer steps")
    try:
        trace = decode(data)
    except (ValueError, RecursionError) as error:
        if b'"ph"' in data:
            raise _damaged(path, error) from error
        trace = ChromeTrace(events=[], num_left_out=1)
    if not trace.events and trace.num_left_out:
        raise DataError(
            f"{path} is no trace of PyTorch's profiler: it lists no events; write one with "
            "profile.export_chrome_trace(FILE)"
        )
    return trace


def decode(data: bytes) -> ChromeTrace:
    """The content of a file. Raises ValueError for what is no JSON, or lists nothing."""
    try:
        trace = _DECODER.decode(data)
        return ChromeTrace(events=trace) if isinstance(trace, list) else trace
    except ValueError:  # bare words, line breaks in names, events of another shape
        text = _BARE.sub(rb"\1null", data).decode(errors="replace")
    document = json.JSONDecoder(strict=False).decode(text)
    if not isinstance(document, dict):
        document = {"traceEvents": document}
    rows, events = document.get("traceEvents"), list[TraceEvent]()
    if not isinstance(rows, list):
        raise ValueError("it has no list traceEvents")
    for row in rows:
        with contextlib.suppress(msgspec.ValidationError):
            events.append(msgspec.convert(row, TraceEvent, strict=False))
    info = document.get("distributedInfo")
    return ChromeTrace(events=events, info=info, num_left_out=len(rows) - len(events))


def copy_way(name: str) -> str:
    """`Memcpy HtoD (Pageable -> Device)` is `H2D pageable`, and `H2D` where the trace does not tell
    the kind of memory; what is not known keeps its name."""
    match = _MEMCPY.match(name)
    if match is None:
        return name
    way = f"{match[1]}2{match[2]}"
    host = {"H2D": match[3], "D2H": match[4]}.get(way)
    return f"{way} {host.lower()}" if host in ("Pageable", "Pinned") else way


def is_collective(kernel: str) -> bool:
    """By its name: such a kernel moves data between GPUs, and computes little."""
    return _COLLECTIVE.match(kernel) is not None


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path} is damaged or cut off ({error}): record or export it once more")
