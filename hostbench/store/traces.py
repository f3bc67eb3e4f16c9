"""Traces of cases, kept as `results/<machine>/traces/<UTC>-<workload>-<4 hex digits>.json.gz`.

A file is a Chrome trace as `hostbench.timeline` writes it, so that Perfetto opens it as it lies.
"""

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from hostbench.core.case import read_case
from hostbench.core.clock import stamp
from hostbench.core.errors import DataError, Warn
from hostbench.core.files import read_stored, unpack, write_atomic
from hostbench.core.lanes import Lane
from hostbench.core.records import DAMAGE, Name
from hostbench.store.archive import packed
from hostbench.timeline import chrome_trace, read_trace

FOLDER = "traces"
SUFFIX = ".json.gz"
PICTURE = ".svg"
"""Beside it, drawn when it was made; nobody reads it back."""
_FAMILY = re.compile(r"^\d{8}T\d{6}Z-(?P<family>\w+)\.")


class TraceAbout(Struct, frozen=True, kw_only=True):
    """What is known of a trace beside its lanes. Unknown keys are passed over."""

    case: str
    machine: Name
    hardware: str
    """`AMD EPYC, cpu device, no GPU`."""
    device: str
    started_at: str
    hostbench: str
    torch: str | None = None
    num_steps: int
    """That the reading has."""
    median_s: float | None = None
    """Seconds per step of the readings before the one that is seen: their median."""
    wrong: str | None = None
    """Why the case failed, if it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """One reading of a case."""

    about: TraceAbout
    lanes: tuple[Lane, ...]

    def document(self) -> dict[str, Any]:
        """The Chrome trace."""
        return chrome_trace(self.lanes, to_builtins(self.about))


def new_path(results: Path, about: TraceAbout) -> Path:
    """Where a new trace is kept."""
    name = f"{stamp(about.started_at)}-{about.case.partition('[')[0]}-{secrets.token_hex(2)}"
    return results / about.machine / FOLDER / f"{name}{SUFFIX}"


def write(path: Path, trace: StoredTrace) -> None:
    write_atomic(path, packed(trace.document()))


def read(path: Path) -> StoredTrace:
    """Raises DataError that names the file when it is damaged."""
    try:
        document = json.loads(unpack(read_stored(path, path.parents[2])))
        lanes, about = read_trace(document)
        found = StoredTrace(about=convert(about, TraceAbout), lanes=lanes)
    except (OSError, *DAMAGE) as error:
        said = f"{type(error).__name__}: {error}"
        raise DataError(f"{path} is no trace of a case: {said:.200}; delete it") from error
    if read_case(found.about.case) is None:
        raise DataError(f"{path} is of no case: {found.about.case!r:.80}; delete it")
    return found


def of_family(results: Path, machine: str, family: str, warn: Warn) -> list[StoredTrace]:
    """The newest trace of each case on a machine, the newest first."""
    newest: dict[str, StoredTrace] = {}
    for path in _files(results / machine / FOLDER, family):
        try:
            trace = read(path)
        except DataError as error:
            warn(str(error))
            continue
        newest.setdefault(trace.about.case, trace)
    return list(newest.values())


def _files(folder: Path, family: str) -> Iterator[Path]:
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        match = _FAMILY.match(path.name)
        if match and match["family"] == family:
            yield path
