"""What counts of a trace, as tables of numbers: some 50 bytes for each event that counts."""

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from sys import stdlib_module_names
from sysconfig import get_path

import numpy as np
from numpy.typing import NDArray

from hostbench.core.arrays import Floats
from hostbench.core.units import number_of
from hostbench.idle.intervals import Ints
from hostbench.idle.lines import BORDER, MARK, CodeLine, read_mark
from hostbench.idle.reading import EventArgs, TraceEvent, TraceFile

Events = NDArray[np.void]
"""`rows["start_s"]` is a column of floats, `rows[mask]` some of the rows."""
NONE = -1
"""In a column of numbers: there is none."""
KERNEL, COPY, INSIDE = 0, 1, 2
"""What a device did: a kernel, a copy from or to elsewhere, a memset or a copy inside it."""

STEP = "ProfilerStep#"
_LARGEST = 1e18
"""No clock shows as many microseconds, and no correlation id or size is as large."""
_ROCM_COPY = re.compile(r"Copy(D|H)\w+To(D|H)\w+")
"""`CopyDeviceToHost`, which is CUDA's `Memcpy DtoH`."""
_LOADER = "enumerate(DataLoader)"
_FRAME = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
_PACKAGE = re.compile(r"(^|[/\\])(site|dist)-packages[/\\]")
_NOT_THE_USERS = re.compile(
    rf"(^|{_PACKAGE.pattern})(torch|functorch|torchvision|torchaudio|torchdata)[/\\]"
    r"|(^|[/\\])hostbench[/\\]idle[/\\]|^<(?!ipython-input|stdin)"
)
"""What the profiler writes of a file begins behind the entry of `sys.path`, if that is known."""
_STDLIB = Path(get_path("stdlib"))


class Names:
    """Texts by number, each kept once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def matching(self, pattern: re.Pattern[str]) -> Ints:
        """The numbers of the texts in which it is found."""
        return np.array([n for n, text in enumerate(self.texts) if pattern.search(text)], int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One process's trace: tables of one row an event, in the order of the file. Times are seconds
    from its first event; names, threads and lines are numbers, of texts below."""

    file: str
    rank: int | None
    warnings: tuple[str, ...]
    names: Names
    threads: Names
    lines: tuple[CodeLine, ...]
    work: Events
    """What devices did; `what` is KERNEL, COPY or INSIDE, `correlation` that of its launch."""
    calls: Events
    """The host's calls of CUDA's runtime and driver."""
    ops: Events
    """Operations of torch."""
    frames: Events
    """Python functions that are neither torch's nor Python's own."""
    marks: Events
    """What hostbench writes into a trace beside a wait."""
    steps: Events
    """The annotations ProfilerStep#N, or what lies between two of our own marks."""
    loads: Events
    """Waits for the next batch of a DataLoader."""


_COLUMNS = {
    "work": "start_s end_s what name device stream correlation nbytes",
    "calls": "start_s end_s name thread correlation",
    "ops": "start_s end_s name thread line",
    "frames": "start_s end_s thread line",
    "marks": "start_s thread line",
    "steps": "start_s end_s number",
    "borders": "start_s",
    "loads": "start_s end_s",
}


def _table(kind: str, numbers: Floats) -> Events:
    """Row after row of numbers, with the names of their columns."""
    dtype = np.dtype([(name, float) for name in _COLUMNS[kind].split()])
    return numbers.view(dtype)


class _Reader:
    """Adds up one file."""

    def __init__(self) -> None:
        self.names, self.threads = Names(), Names()
        self.lines: dict[CodeLine, int] = {}
        self.num_left_out = 0
        """Events that would count, with times or numbers that are none, or in two halves."""
        self._base_us: float | None = None
        self._numbers = {kind: array("d") for kind in _COLUMNS}
        self._frame_line = cache(self._line_of_frame)
        self._stack_line = cache(self._line_of_stack)
        self._kinds: dict[str | None, Callable[[TraceEvent, str, float, float], None]] = {
            **dict.fromkeys(("kernel", "Kernel"), partial(self._work, KERNEL)),
            **dict.fromkeys(("gpu_memcpy", "Memcpy"), partial(self._work, COPY)),
            **dict.fromkeys(("gpu_memset", "Memset"), partial(self._work, INSIDE)),
            **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), self._call),
            **dict.fromkeys(("cpu_op", "Operator", "user_annotation"), self._op),
            "python_function": self._frame,
        }

    def take(self, events: Iterable[TraceEvent]) -> None:
        for event in events:
            add = self._kinds.get(event.cat)
            if add is None or event.ph not in ("X", "B"):
                continue
            ts, dur = event.ts, event.dur or 0.0
            if event.ph == "B" or ts is None or not all(map(_is_number, (ts, dur))):
                self.num_left_out += 1
                continue
            if self._base_us is None:
                self._base_us = ts
            start_ns = round((ts - self._base_us) * 1e3)  # so that what touches does so exactly
            end_ns = start_ns + round(max(dur, 0) * 1e3)
            add(event, str(event.name), start_ns / 1e9, end_ns / 1e9)

    def rows(self, kind: str) -> Events:
        return _table(kind, np.array(self._numbers[kind]))

    def steps(self) -> Events:
        borders = np.sort(self._numbers["borders"])
        if len(borders) < 2:
            return self.rows("steps")
        between = [borders[:-1], borders[1:], np.arange(len(borders) - 1.0)]
        return _table("steps", np.stack(between, axis=1).ravel())

    def _add(self, kind: str, *row: float) -> None:
        self._numbers[kind].extend(row)

    def _work(self, what: int, event: TraceEvent, name: str, start_s: float, end_s: float) -> None:
        if what == COPY:
            name = _ROCM_COPY.sub(r"Memcpy \1to\2", name)
            what = INSIDE if "DtoD" in name else COPY
        args = event.args or EventArgs()
        device = args.device if args.device is not None else event.pid
        self._add(
            "work",
            start_s,
            end_s,
            what,
            self.names.number(name),
            device if isinstance(device, int) else 0,
            self.threads.number(f"stream {event.tid if args.stream is None else args.stream}"),
            _number(args.correlation, NONE),
            _number(args.nbytes, 0),
        )

    def _call(self, event: TraceEvent, name: str, start_s: float, end_s: float) -> None:
        correlation = _number((event.args or EventArgs()).correlation, NONE)
        thread = self.threads.number(f"{event.pid}/{event.tid}")
        self._add("calls", start_s, end_s, self.names.number(name), thread, correlation)

    def _op(self, event: TraceEvent, name: str, start_s: float, end_s: float) -> None:
        if name.startswith(STEP):
            number = name.removeprefix(STEP)
            self._add("steps", start_s, end_s, int(number) if number.isdecimal() else NONE)
            return
        if name == BORDER:
            self._add("borders", start_s)
            return
        if name.startswith(_LOADER):
            self._add("loads", start_s, end_s)
        thread = self.threads.number(f"{event.pid}/{event.tid}")
        if name.startswith(MARK):
            line = read_mark(name)
            if line is not None:
                self._add("marks", start_s, thread, self._line(line))
        elif event.cat != "user_annotation":
            stack = event.args.call_stack if event.args else None
            line_number = NONE if stack is None else self._stack_line(stack)
            self._add("ops", start_s, end_s, self.names.number(name), thread, line_number)

    def _frame(self, event: TraceEvent, name: str, start_s: float, end_s: float) -> None:
        line = self._frame_line(name)
        if line != NONE:
            thread = self.threads.number(f"{event.pid}/{event.tid}")
            self._add("frames", start_s, end_s, thread, line)

    def _line(self, line: CodeLine) -> int:
        return self.lines.setdefault(line, len(self.lines))

    def _line_of_frame(self, name: str) -> int:
        """The profiler names a function by the line where it begins."""
        line = _code_line(name, is_exact=False)
        return NONE if line is None else self._line(line)

    def _line_of_stack(self, stack: str) -> int:
        """Older profilers have the calls with an operation: `file(line): function;...`, the
        innermost first. Chosen is the innermost of no installed package, if there is one."""
        lines = [_code_line(call, is_exact=True) for call in stack.split(";")]
        users = [line for line in lines if line is not None]
        own = [line for line in users if not is_installed(line)]
        return self._line((own or users)[0]) if users else NONE


def read_trace(path: Path) -> Trace:
    """One file. Raises UsageError, DataError."""
    file, reader = TraceFile(path), _Reader()
    for events in file.events():
        reader.take(events)
    num_left_out = file.num_left_out + reader.num_left_out
    warning = (
        f"{path.name}: {number_of(num_left_out, 'event')} left out: times or numbers that are "
        "none, or a beginning and an end apart (ph B)"
    )
    return Trace(
        file=path.name,
        rank=file.rank,
        warnings=(warning,) if num_left_out else (),
        names=reader.names,
        threads=reader.threads,
        lines=tuple(reader.lines),
        steps=reader.steps(),
        **{
            kind: reader.rows(kind) for kind in ("work", "calls", "ops", "frames", "marks", "loads")
        },
    )


def is_installed(line: CodeLine) -> bool:
    """Whether it is of a package that somebody else wrote."""
    return _PACKAGE.search(line.file) is not None


def _is_number(value: float) -> bool:
    return -_LARGEST < value < _LARGEST


def _number(value: int | None, other: int) -> int:
    return value if value is not None and _is_number(value) else other


def _code_line(text: str, *, is_exact: bool) -> CodeLine | None:
    """`train.py(12): step`; None for what is torch's, Python's or ours, or no line of Python."""
    match = _FRAME.fullmatch(text.strip())
    if match is None or _NOT_THE_USERS.search(match["file"]) or _is_python_own(match["file"]):
        return None
    return CodeLine(match["file"], int(match["line"]), match["function"], is_exact)


def _is_python_own(file: str) -> bool:
    """A module of the standard library, as the profiler writes it: from `sys.path` on. A folder
    that bears the name of one is the user's: `code/train.py`."""
    if re.search(r"[/\\]lib[/\\]python3\.\d+[/\\](?!site-packages|dist-packages)", file):
        return True
    first, *rest = re.split(r"[/\\]", file)
    if first.removesuffix(".py") not in stdlib_module_names:
        return False
    try:
        return not rest or _STDLIB.joinpath(first, *rest).is_file()
    except (OSError, ValueError):  # a name that no file has
        return False
