"""The journal: the append-only file of one run in progress, a JSON object per line.

The first line is the header, then `facts` and `case` lines, then `finish`. A line is written by one
`write` to a file opened for appending, so a killed run loses at most the case in flight. The writer
holds a lock while it lives: a journal that can be locked is an orphan, or finished, and may be
archived.
"""

import errno
import fcntl
import io
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, structs, to_builtins

from hostbench.core.errors import BrokenError, DataError
from hostbench.core.files import cannot_write, open_stored, read_stored
from hostbench.core.records import (
    DAMAGE,
    FORMAT,
    CaseRecord,
    FactGroups,
    FactsLine,
    Finish,
    Run,
    RunHeader,
    encoded,
)

JOURNALS = ".journals"
SUFFIX = ".journal.jsonl"
_LINES: Mapping[str, type[CaseRecord | FactsLine | Finish]] = {
    "case": CaseRecord,
    "facts": FactsLine,
    "finish": Finish,
}
"""Kinds of lines after the header."""


def run_id(commit: str | None) -> str:
    """Of a run that starts now, `20261121T120805Z-1a2b3c4d-9f3e`: UTC, commit, 4 random digits."""
    began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{began}-{commit[:8] if commit else 'nogit'}-{secrets.token_hex(2)}"


def journal_path(results: Path, run: str) -> Path:
    return results / JOURNALS / f"{run}{SUFFIX}"


class JournalWriter:
    """Appends lines; holds the lock. As a context manager an error before a case leaves nothing."""

    def __init__(self, path: Path, header: RunHeader) -> None:
        self.path = path
        self.holds_cases = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{path.name}.new")  # seen only once it is locked and headed
            if path.exists():
                raise FileExistsError(errno.EEXIST, f"{path.name} is there already")
            self._fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise cannot_write(f"results to {path.parent}", error) from error
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            self._write("run", header, format=FORMAT)
        except BrokenError:
            hidden.unlink()
            raise
        hidden.rename(path)

    def facts(self, when: str, facts: Mapping[str, Any]) -> None:
        self._write("facts", FactsLine(when=when, facts=facts))

    def case(self, record: CaseRecord) -> None:
        self._write("case", record)
        self.holds_cases = True

    def finish(self, status: str, at: str, scratch: str | None = None) -> None:
        """`scratch`: why the run turned out to be scratch only while it went on. Raises BrokenError
        where somebody has deleted the journal."""
        self._write("finish", Finish(at=at, status=status, scratch=scratch))
        os.fsync(self._fd)
        if not self.path.exists():
            raise BrokenError(f"{self.path} was deleted while the run went on: nothing is kept")

    def __enter__(self) -> "JournalWriter":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and not self.holds_cases:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)

    def _write(self, kind: str, record: Struct, **more: int) -> None:
        data = encoded({"kind": kind, **more, **to_builtins(record)})
        try:
            while data:  # a signal may cut a write short
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise BrokenError(
                f"cannot write {self.path}: {error.strerror}; make room: the next `hostbench run` "
                "archives what was measured by then"
            ) from error


def is_alive(path: Path) -> bool:
    """Whether some process is still writing this journal. Raises OSError when it is no file."""
    try:
        with open_stored(path, path.parent.parent) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def read(path: Path) -> Run:
    """Read a journal, as far as it can be read. Raises DataError when even its header cannot, and
    FileNotFoundError where it is archived meanwhile."""
    try:
        lines = io.BytesIO(read_stored(path, path.parent.parent))
        first = json.loads(lines.readline())
        if first.get("kind") != "run" or first.get("format") != FORMAT:
            raise ValueError(f"format {first.get('format')!r}, this hostbench reads {FORMAT}")
        header = convert(first, RunHeader)
    except FileNotFoundError:
        raise
    except (OSError, *DAMAGE) as error:
        raise DataError(f"{path} is not a readable journal ({error}); move it away") from error
    records: list[CaseRecord] = []
    facts: dict[str, FactGroups] = {}
    finish = None
    damaged: list[int] = []
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
            kind = _LINES.get(values["kind"])
            record = convert(values, kind) if kind else None  # only a later hostbench knows it
        except DAMAGE:
            damaged.append(number)
            continue
        if isinstance(record, CaseRecord):
            records.append(record)
        elif isinstance(record, FactsLine):
            facts[record.when] = record.facts
        elif isinstance(record, Finish):
            header = structs.replace(header, scratch=header.scratch or record.scratch)
            finish = structs.replace(record, scratch=None)
    return Run(header=header, facts=facts, finish=finish, damaged=damaged, records=tuple(records))


def find(results: Path) -> Iterator[Path]:
    """Every journal of a results folder, oldest first."""
    yield from sorted((results / JOURNALS).glob(f"*{SUFFIX}"))
