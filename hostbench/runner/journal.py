"""The journal: the append-only file of one run in progress, a JSON object per line.

The first line is the header, then `facts` and `case` lines, then `finish`. A line is written by one
`write` to a file opened for appending, so a killed run loses at most the case in flight. The writer
holds a lock while it lives: a journal that can be locked is an orphan, or finished, and may be
archived.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from hostbench.core.case import AxisValue, Case
from hostbench.core.errors import DataError, UsageError
from hostbench.core.shapes import check_facts, check_finish, check_header, check_record

FORMAT = 1
SUFFIX = ".journal.jsonl"
DAMAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What reading a line raises that is not, or no longer, what a writer wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What is known of a run before its first case. Times are ISO 8601 in UTC."""

    run_id: str
    """`<UTC start>-<commit8 or nogit>-<4 hex digits>`."""
    machine: str | None
    """None while asv measures by itself: which machine it files under shows only afterwards."""
    commit: str | None
    """40 hex digits; None without git."""
    committed_at: str | None
    scratch: str | None
    """Why the run is never judged nor given to asv (`quick`, `uncommitted changes`, ...)."""
    profile: str
    launches: int
    device: str
    seed: int
    started_at: str
    hostbench: str
    planned: tuple[str, ...] = ()
    """Every case the run means to measure, so that what is missing can be told."""
    resumes: str | None = None
    """run_id of the run whose missing launches this one adds."""
    by: str = "hostbench run"
    """`hostbench run`, `hostbench ab`, or `asv` when asv measured by itself."""
    interleaved_with: str | None = None
    """run_id of the run of another code whose launches took turns with this one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRecord:
    """One case in one launch."""

    case: Case
    version: str
    launch: int
    position: int
    """Place in the launch's random order, from 0."""
    status: str
    """`ok`, `skipped` or `failed`; a case that was not measured has no record."""
    reason: str | None
    started_at: str
    seconds: float | None
    """Median of the launch's end-to-end samples; None unless ok, or failed by a proof."""
    nbytes: int | None = None
    measurement: Mapping[str, Any] = field(default_factory=dict)
    """The three clocks, findings, proofs (`hostbench.measure.measure.as_json`); else empty."""
    expected: Mapping[str, bool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["case"] = {"workload": self.case.workload, "axes": dict(self.case.axes)}
        return {"kind": "case", **values}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "CaseRecord":
        """Raises one of DAMAGE for anything that is no record."""
        check_record(line)
        values = {key: line[key] for key in cls.__dataclass_fields__ if key in line}
        axes: dict[str, AxisValue] = line["case"]["axes"]
        values["case"] = Case.of(line["case"]["workload"], axes)
        return cls(**values)


@dataclass(slots=True, kw_only=True)
class Journal:
    """A journal as read: whole or as far as it got."""

    path: Path
    header: RunHeader
    records: list[CaseRecord] = field(default_factory=list)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`before`, `after` -> facts as JSON."""
    finish: dict[str, Any] | None = None
    """`{"at": ..., "status": "complete" | "interrupted"}`; None when the writer was killed."""
    damaged: list[int] = field(default_factory=list)
    """Numbers of the lines that could not be read (a half-written last line is normal)."""


class JournalWriter:
    """Appends lines; holds the lock. Use as a context manager."""

    def __init__(self, path: Path, header: RunHeader) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{path.name}.new")  # seen only once it is locked and headed
            if path.exists():
                raise FileExistsError(errno.EEXIST, f"{path.name} is there already")
            self._fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise UsageError(
                f"cannot write results to {path.parent}: {error.strerror}; "
                "make it writable or name another folder with --results"
            ) from error
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self._write({"kind": "run", "format": FORMAT, **asdict(header)})
        hidden.rename(path)

    def facts(self, when: str, facts: Mapping[str, Any]) -> None:
        self._write({"kind": "facts", "when": when, "facts": facts})

    def case(self, record: CaseRecord) -> None:
        self._write(record.to_json())

    def finish(self, status: str, at: str, scratch: str | None = None) -> None:
        """`scratch`: why the run turned out to be scratch only while it went on."""
        self._write({"kind": "finish", "status": status, "at": at, "scratch": scratch})
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> "JournalWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        data = json.dumps(line).encode() + b"\n"
        while data:  # a signal may cut a write short
            data = data[os.write(self._fd, data) :]


def is_alive(path: Path) -> bool:
    """Whether some process is still writing this journal. Raises DataError when it is no file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if _is_gone(path, error):
            raise  # somebody else archived it
        raise DataError(f"{path} cannot be read ({error.strerror}); move it away") from error
    return False


def read(path: Path) -> Journal:
    """Read a journal, as far as it can be read. Raises DataError when even its header cannot."""
    try:
        lines = path.read_bytes().split(b"\n")
        header = _header(json.loads(lines[0]))
    except (OSError, *DAMAGE) as error:
        if _is_gone(path, error):
            raise  # archived in between: there is nothing to mend
        raise DataError(
            f"{path} is no readable journal ({error}); move it away to go on without it"
        ) from error
    journal = Journal(path=path, header=header)
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            try:
                _take(journal, json.loads(line))
            except DAMAGE:
                journal.damaged.append(number)
    return journal


def _is_gone(path: Path, error: Exception) -> bool:
    return isinstance(error, FileNotFoundError) and not path.is_symlink()


def find(results: Path) -> Iterator[Path]:
    """Every journal below a results folder, oldest first."""
    yield from sorted(results.rglob(f"*{SUFFIX}"))


def _header(line: Mapping[str, Any]) -> RunHeader:
    if line.get("kind") != "run" or line.get("format") != FORMAT:
        raise ValueError(f"format {line.get('format')!r}, this hostbench reads {FORMAT}")
    check_header(line)
    values = {key: line[key] for key in RunHeader.__dataclass_fields__ if key in line}
    return RunHeader(**{**values, "planned": tuple(line["planned"])})


def _take(journal: Journal, line: Mapping[str, Any]) -> None:
    kind = line["kind"]
    if kind == "case":
        journal.records.append(CaseRecord.from_json(line))
    elif kind == "facts":
        check_facts(line["facts"])
        journal.facts[str(line["when"])] = line["facts"]
    elif kind == "finish":
        check_finish(line)
        journal.finish = {"at": line["at"], "status": line["status"]}
        late = line.get("scratch")
        if late and journal.header.scratch is None:
            journal.header = replace(journal.header, scratch=late)
