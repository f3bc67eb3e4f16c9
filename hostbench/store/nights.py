"""What each night concluded, kept as `results/<machine>/nights/<run_id>.json.gz`: so that the next
one knows what is known already, and which nights were disturbed. Never overwritten."""

from pathlib import Path
from typing import Literal

from msgspec import Struct, convert, to_builtins

from hostbench.core.errors import Warn
from hostbench.core.files import damaged, load_json, read_stored, unpack, write_atomic
from hostbench.core.records import DAMAGE, Name
from hostbench.store.archive import packed

FOLDER = "nights"
SUFFIX = ".json.gz"
NightCause = Literal["code", "environment", "disturbed", "unexplained", "not measured again"]
"""What moved a series. `code`: interleaved with the code before, the difference is there.
`environment`: not the code, and a fact that lasts has changed (torch, a driver). `disturbed`: not
the code, and a passing fact moved (throttled, other programs). `unexplained`: none of these, or too
close to call."""
CONFIRMED: tuple[NightCause, ...] = ("code", "environment")


class NightChange(Struct, frozen=True, kw_only=True):
    """A series that moved that night."""

    case: str
    version: str
    cause: str
    """A NightCause."""
    effect: float
    """Relative: 0.1 is 10 % slower."""


class Night(Struct, frozen=True, kw_only=True):
    """One night of one machine. Unknown keys are passed over."""

    run_id: Name
    machine: Name
    commit: str | None
    started_at: str
    changes: tuple[NightChange, ...] = ()
    events: tuple[str, ...] = ()
    """Of `hostbench changes`: the confirmed steps that this night was the first to name."""
    again: tuple[Name, ...] = ()
    """Runs in which it measured again what had moved."""

    @property
    def disturbed_runs(self) -> tuple[str, ...]:
        """Its runs, where passing facts made it slower: nothing is held against these."""
        is_disturbed = any(
            change.cause == "disturbed" and change.effect > 0 for change in self.changes
        )
        return (self.run_id, *self.again) if is_disturbed else ()

    @property
    def is_open(self) -> bool:
        """Series moved and none was measured again: the next night tells why, held against those
        before this one."""
        causes = {change.cause for change in self.changes}
        return causes == {"not measured again"}

    def confirmed(self) -> list[NightChange]:
        return [change for change in self.changes if change.cause in CONFIRMED]

    @property
    def named(self) -> set[str]:
        """Id and first commit, or run, of each step that it has named; a machine's own with any."""
        ids = {f"{change.case}@{self.machine}" for change in self.confirmed()}
        ids |= {f"machine:{self.machine}"} if ids else set()
        return {f"{id} {at}" for id in ids for at in (self.commit, self.run_id)}.union(self.events)


def write(results: Path, night: Night) -> None:
    """Keep a night."""
    path = results / night.machine / FOLDER / f"{night.run_id}{SUFFIX}"
    if not path.exists():
        write_atomic(path, packed(to_builtins(night)))


def of_machine(results: Path, machine: str, warn: Warn = lambda text: None) -> list[Night]:
    """The oldest first. What cannot be read is a warning that names the file."""
    nights = []
    for path in sorted((results / machine / FOLDER).glob(f"*{SUFFIX}")):
        try:
            nights.append(convert(load_json(unpack(read_stored(path, results))), Night))
        except (*DAMAGE, OSError) as error:
            warn(damaged(path, error))
    return sorted(nights, key=lambda night: night.started_at)
