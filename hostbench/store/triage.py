"""Triage: what people have said about events, so that the CLI, the nightly and the dashboard agree.

`results/triage/*.txt` holds one entry a file, a line for each of its fields:

series: transfer.host_to_device[nbytes=16MiB]@1x-nvidia-h200
since: 1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d
direction: slower
state: accepted
effect: +4.1%
owner: ana
until: 2027-01-31
note: the checksum is worth it

`series` is a series, a pattern of them in the one case syntax, or `machine:NAME`; `since` is the
first bad commit (7 digits do) or a run id; `effect` is how large it was: one that is clearly larger
has outgrown the entry. The last four lines may be left out. A file an entry merges in git by
itself: branches that add different entries never touch one file, two that say different things of
one event conflict in it. docs/results.md has the reasons.
"""

import datetime
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hostbench.core.case import parse_series
from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored, write_atomic

FOLDER = "triage"
SUFFIX = ".txt"
STATES = ("accepted", "expected", "noise", "investigating")
DIRECTIONS = ("slower", "faster")
_NEEDED = ("series", "since", "direction", "state")
_FIELDS = (*_NEEDED, "effect", "owner", "until", "note")
OUTGROWN, AT_LEAST = 1.5, 0.02
"""An event is clearly larger that is this many times what the entry says, and by so much."""
_EFFECT = re.compile(r"([+-]?\d{1,9}(?:\.\d{1,9})?) ?%")
_SINCE = re.compile(r"[0-9a-f]{7,64}|\d{8}T\d{6}Z-[0-9a-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventName:
    """What an entry names. All but its effect stays the same when the history goes on."""

    id: str
    """`case@machine`, or `machine:NAME`."""
    commit: str
    """The first bad commit; the first run's id where its commit had been measured before."""
    direction: str
    """`slower` or `faster`."""
    effect: float
    """Relative change of the seconds, as known now."""
    near: frozenset[str] = frozenset()
    """Commits and runs that the step may have begun with as well: an entry that names one of them
    names this event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One judgement of a person."""

    series: str
    since: str
    direction: str
    state: str
    effect: float | None = None
    """Relative change when it was said; None: of any size."""
    owner: str | None = None
    until: datetime.date | None = None
    """The last day on which it counts; None: for good."""
    note: str | None = None

    def is_expired(self, today: datetime.date) -> bool:
        return self.until is not None and today > self.until

    def lapsed(self, event: EventName, today: datetime.date) -> str:
        """Why it no longer counts for an event: `expired`, `outgrown`; empty where it does."""
        if self.is_expired(today):
            return "expired"
        if self.effect is None:
            return ""
        now, said = abs(event.effect), abs(self.effect)
        return "outgrown" if now > max(OUTGROWN * said, said + AT_LEAST) else ""

    def is_about(self, event: EventName) -> bool:
        begun = any(_same_point(self.since, point) for point in (event.commit, *event.near))
        if self.direction != event.direction or not begun:
            return False
        return self.series == event.id or _selects(self.series, event.id)


@dataclass(slots=True, kw_only=True)
class Triage:
    """The folder as read."""

    entries: dict[Path, Entry] = field(default_factory=dict)
    """Those that can be read."""
    warnings: list[tuple[Path, str]] = field(default_factory=list)
    """What is wrong with a file, with the lines, and how to mend it."""


def entry_for(entries: Iterable[Entry], event: EventName, today: datetime.date) -> Entry | None:
    """The entry for an event: one that counts before one that has lapsed, then the one that names
    it most closely."""

    def closeness(one: Entry) -> tuple[bool, bool, int, bool]:
        counts, exact = not one.lapsed(event, today), _same_point(one.since, event.commit)
        return counts, one.series == event.id, len(one.series), exact

    return max((one for one in entries if one.is_about(event)), key=closeness, default=None)


def read(results: Path) -> Triage:
    """Every entry below a results folder, in the order of the files' names."""
    found = Triage()
    for path in sorted((results / FOLDER).glob(f"*{SUFFIX}")):
        try:
            text = read_stored(path, results).decode()
        except (OSError, UnicodeDecodeError) as error:
            found.warnings.append((path, f"it cannot be read ({error})"))
            continue
        faults: list[str] = []
        entry = _parse(text, faults)
        if faults:
            more = f" (and {len(faults) - 3} more)" if faults[3:] else ""
            found.warnings.append((path, "; ".join(faults[:3]) + more))
        if entry is not None:
            found.entries[path] = entry
    return found


def put(results: Path, entry: Entry) -> list[Path]:
    """Write an entry, in place of each for the same event. Lines that say something else, a comment
    or a damaged line, stay. Raises UsageError for a value that cannot be kept."""
    values = _values(entry)
    for name, value in values.items():
        why = _refused(name, value)
        if why:
            raise UsageError(f"{name} {value!r:.80} {why}")
    paths, named = _there(results, entry), results / FOLDER / _file_name(entry)
    if not paths and named.exists():
        raise UsageError(f"{named} holds another entry: rename it, for its name is this entry's")
    paths = paths or [named]
    for path in paths:
        old = read_stored(path).decode(errors="surrogateescape") if path.exists() else ""
        lines = [line for line in old.splitlines() if _key(line) not in _FIELDS]
        lines += [f"{name}: {value}" for name, value in values.items()]
        write_atomic(path, "\n".join(lines).encode(errors="surrogateescape") + b"\n")
    return paths


def clear(results: Path, entry: Entry) -> list[Path]:
    """Delete every entry for the event of this one. Raises UsageError where there is none."""
    paths = _there(results, entry)
    if not paths:
        raise UsageError(
            f"no triage entry for {entry.series} {entry.direction} since {entry.since}; "
            "`hostbench triage` lists them"
        )
    for path in paths:
        path.unlink()
    return paths


def _parse(text: str, wrong: list[str]) -> Entry | None:
    """What is wrong with it, and whether it counts all the same."""
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, value = _key(line), line.partition(":")[2].strip()
        if name not in _FIELDS:
            why = f"is no `field: value` with one of {', '.join(_FIELDS)}"
        elif name in values:
            why = f"says {name} again, and neither counts: keep one"
            values[name] = ""
        else:
            why = _refused(name, value)
            values[name] = "" if why else value
        if why:
            wrong.append(f"line {number}: {line!r:.80} {why}")
    missing = [name for name in _NEEDED if not values.get(name)]
    if missing:
        wrong.insert(0, f"it has no {' and no '.join(missing)}, so it does not count")
        return None
    until, effect = values.pop("until", None), values.pop("effect", None)
    kept = {name: value or None for name, value in values.items()}
    return Entry(
        **kept,  # type: ignore[arg-type]
        until=datetime.date.fromisoformat(until) if until else None,
        effect=round(float(effect.rstrip(" %")) / 100, 12) if effect else None,
    )


def _key(line: str) -> str:
    return line.partition(":")[0].strip()


def _refused(name: str, value: str) -> str:
    """Why a field cannot have this value; empty where it can."""
    if not value or not value.isprintable() or value != value.strip():
        return "is not one line of plain text"
    if name == "state" and value not in STATES:
        return f"is no state: write one of {', '.join(STATES)}"
    if name == "direction" and value not in DIRECTIONS:
        return f"is no direction: write {' or '.join(DIRECTIONS)}"
    if name == "since" and not _SINCE.fullmatch(value):
        return "is no commit (7 hexadecimal digits or more) and no run id"
    if name == "effect" and not _EFFECT.fullmatch(value):
        return "is no percentage: write it as +4.1%"
    if name == "until" and not _is_date(value):
        return "is no date: write it as 2027-01-31"
    return ""


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _values(entry: Entry) -> dict[str, str]:
    found = {name: getattr(entry, name) for name in _FIELDS}
    if entry.effect is not None:
        found["effect"] = f"{entry.effect:+.1%}"
    return {name: str(value) for name, value in found.items() if value is not None}


def _selects(pattern: str, series: str) -> bool:
    try:
        return parse_series(pattern).selects(series)
    except UsageError:  # `machine:NAME`, another project's benchmark: only as it is written
        return False


def _same_point(one: str, other: str) -> bool:
    """The same run, or the same commit, of which one may be abbreviated."""
    if "T" in one + other:
        return one == other
    return min(len(one), len(other)) >= 7 and (one.startswith(other) or other.startswith(one))


def _is_same(one: Entry, other: Entry) -> bool:
    """Whether two entries are about the same event or events."""
    return (one.series, one.direction) == (other.series, other.direction) and _same_point(
        one.since, other.since
    )


def _there(results: Path, entry: Entry) -> list[Path]:
    """The files that speak of the same event, whether they agree or not; one that has its name and
    cannot be read is taken for such."""
    entries, named = read(results).entries, results / FOLDER / _file_name(entry)
    found = [path for path, other in entries.items() if _is_same(entry, other)]
    return [*found, named] if named.exists() and named not in entries else found


def _file_name(entry: Entry) -> str:
    """Says what it is about and is the same on every branch: two that disagree conflict."""
    about = f"{entry.series}\n{entry.since}\n{entry.direction}"
    words = re.sub(r"[^A-Za-z0-9.]+", "-", entry.series).strip("-.")[:60]
    digest = hashlib.sha256(about.encode()).hexdigest()[:8]
    return f"{words}-{entry.since[:8]}-{entry.direction}-{digest}{SUFFIX}"
