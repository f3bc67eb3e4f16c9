"""The one reader of Chrome traces, as torch's profiler (Kineto) writes them: plain or gzip."""

import contextlib
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import open_stored
from hostbench.core.units import MIB
from hostbench.device.activity import COLLECTIVE, COMPUTE, Activity

_MAX_BYTES = 2048 * MIB
"""Of a file, and of what it unpacks to."""
_BARE = re.compile(
    rb'((?<!\\)"\s*:\s*)(?!(?:true|false|null)\b)[-+]?[A-Za-z][\w/]+(?=\s*[,}])', re.ASCII
)
"""A value that is no JSON, which profilers do write: `nan`, `inf`, `N/A` (kineto #105, #131)."""
_MEMCPY = re.compile(r"(?:Memcpy |Copy)(H|D|P)\w*?[tT]o(D|H|P)\w*(?: \((\w+) -> (\w+)\))?")
"""`Memcpy HtoD (Pageable -> Device)`, and ROCm's `CopyHostToDevice`."""
DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of what a device did."""
_QUERY = re.compile("Query|Captur|GetLastError|GetDevice")
"""Calls that neither enqueue nor wait."""
_SPIN = "spin_kernel"
"""In the name of the kernel behind `torch.cuda._sleep` (aten/src/ATen/cuda/Sleep.cu)."""

Int = Annotated[int, msgspec.Meta(ge=-(10**18), le=10**18)]
Microseconds = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]


class EventArgs(msgspec.Struct, gc=False):
    """Of `args`, what is read here."""

    device: Int | None = None
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

    @property
    def start_s(self) -> float:
        return (self.ts or 0.0) / 1e6

    @property
    def end_s(self) -> float:
        return self.start_s + (self.dur or 0.0) / 1e6


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


_DECODER = msgspec.json.Decoder(ChromeTrace)


def read_chrome(path: Path) -> ChromeTrace:
    """One file. Raises UsageError where it cannot be opened, DataError for what is no trace, and
    for one that is damaged or cut off."""
    try:
        with open_stored(path) as file:
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            source: Any = gzip.GzipFile(fileobj=file) if is_packed else file
            data = source.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES // MIB}MiB: record fewer steps")
        return decode(data)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not a trace of PyTorch's profiler, or damaged ({error}): write it again "
            "with profile.export_chrome_trace(FILE)"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def decode(data: bytes) -> ChromeTrace:
    """The content of a file. Raises ValueError for what is no JSON, or lists no events."""
    with contextlib.suppress(ValueError):
        return _DECODER.decode(data)
    # bare words, line breaks in names, events of another shape
    text = _BARE.sub(rb"\1null", data).decode(errors="replace")
    document = msgspec.convert(json.loads(text, strict=False), dict[str, Any])
    rows, events = msgspec.convert(document.get("traceEvents"), list[Any]), list[TraceEvent]()
    for row in rows:
        with contextlib.suppress(msgspec.ValidationError):
            events.append(msgspec.convert(row, TraceEvent, strict=False))
    if rows and not events:
        raise ValueError("it lists no events")
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
    return kernel.lower().startswith(("nccl", "rccl"))


def is_delay(event: TraceEvent) -> bool:
    """A kernel that only waits."""
    return event.cat == "kernel" and _SPIN in str(event.name)


def activities(events: Iterable[TraceEvent]) -> Iterator[Activity]:
    """What devices did, but for waiting."""
    for event in events:
        if event.ph != "X" or event.cat not in DEVICE_WORK or is_delay(event):
            continue
        name, args = str(event.name), event.args or EventArgs()
        what, nbytes = COLLECTIVE if is_collective(name) else COMPUTE, 0
        if event.cat == "gpu_memcpy":
            what, nbytes = copy_way(name), args.nbytes or 0
        yield Activity(what=what, start_s=event.start_s, end_s=event.end_s, nbytes=nbytes)


def count_waits(events: Iterable[TraceEvent], within: str) -> int:
    """How often the host waited for a device in the annotation of that name: in calls that
    synchronize, and in copies from and to pageable memory. One that blocks is a copy and the
    synchronize of its stream behind it: one wait."""
    rows = [event for event in events if event.ph == "X"]
    span = next(e for e in rows if (e.cat, e.name) == ("user_annotation", within))
    begin_ns, end_ns = round(1e9 * span.start_s), round(1e9 * span.end_s)
    pageable = {
        event.args.correlation
        for event in rows
        if event.cat == "gpu_memcpy" and event.args and copy_way(str(event.name))[4:] == "pageable"
    }
    num, is_behind_copy = 0, False
    for call in sorted(rows, key=lambda event: event.start_s):
        is_within = begin_ns <= round(1e9 * call.start_s) < end_ns
        if call.cat != "cuda_runtime" or not is_within or _QUERY.search(str(call.name)):
            continue
        name = str(call.name)
        num += "Synchronize" in name and not (is_behind_copy and "Stream" in name)
        is_behind_copy = (call.args or EventArgs()).correlation in pageable
        num += is_behind_copy
    return num
