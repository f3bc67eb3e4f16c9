"""Triage: what people have said about steps to slower, for the CLI, the nightly and the dashboard.

`results/triage/` holds one entry a file, a JSON object with the fields of Entry. The files end in
`.txt`, because asv takes every `.json` below the results for its own. A file an entry merges in git
by itself: branches that add different entries never touch one file, two that say different things
of one event conflict in it.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, convert, to_builtins

from hostbench.core.errors import Warn
from hostbench.core.files import load_json, read_stored, write_atomic
from hostbench.core.records import DAMAGE
from hostbench.store import TRIAGE_STATES

FOLDER = "triage"
SUFFIX = ".txt"
EntryState = Annotated[str, Meta(pattern=rf"^({'|'.join(TRIAGE_STATES)})\Z")]
OneLine = Annotated[
    str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]{1,2000}\Z")
]
"""One line of plain text."""
FIRST_BAD = r"^([0-9a-f]{40}|[0-9a-f]{64}|\d{8}T\d{6}Z-[0-9a-z-]+|asv-[^/\s]+)\Z"
FirstBad = Annotated[str, Meta(pattern=FIRST_BAD)]
"""A whole commit, or a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One judgement of a person. A file's other keys are passed over."""

    series: OneLine
    """The event's id."""
    since: FirstBad
    """The first bad commit; the first run's id where its commit had been measured before."""
    state: EntryState
    note: OneLine | None = None

    @property
    def file_name(self) -> str:
        """Says what it is about and is the same on every branch: two that disagree conflict."""
        words = re.sub(r"[^A-Za-z0-9.]+", "-", self.series).strip("-.")[:60]
        digest = hashlib.sha256(f"{self.series}\n{self.since}".encode()).hexdigest()[:8]
        return f"{words}-{self.since[:8]}-{digest}{SUFFIX}"


def read(results: Path, warn: Warn = lambda text: None) -> dict[Path, Entry]:
    """Every entry below a results folder, in the order of the files' names. One that does not count
    is a warning that names its file."""
    entries = {}
    for path in sorted((results / FOLDER).glob(f"*{SUFFIX}")):
        try:
            entries[path] = convert(load_json(read_stored(path, results)), Entry)
        except (OSError, *DAMAGE) as error:
            warn(f"{path}: it does not count ({error!s:.300}): fix or delete it")
    return entries


def put(results: Path, entry: Entry) -> Path:
    """Write an entry, in place of what was said of the same event."""
    content = {name: value for name, value in to_builtins(entry).items() if value is not None}
    path = results / FOLDER / entry.file_name
    write_atomic(path, json.dumps(content, indent=2).encode() + b"\n")
    return path
