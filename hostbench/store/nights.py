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


class NightChange(Struct, frozen=True, kw_only=True):
    """A series that moved that night: as it was measured again where the code moved it, else as the
    night's run has it."""

    case: str
    version: str
    cause: str
    """`hostbench.judge.night.NightCause`."""
    effect: float
    """Relative: 0.1 is 10 % slower."""
    low: float | None = None
    high: float | None = None
    before_s: float | None = None
    after_s: float | None = None

    @property
    def direction(self) -> Literal["slower", "faster"]:
        return "slower" if self.effect > 0 else "faster"


class Night(Struct, frozen=True, kw_only=True):
    """One night of one machine. Unknown keys are passed over."""

    run_id: Name
    machine: Name
    commit: str | None
    started_at: str
    changes: tuple[NightChange, ...] = ()
    events: tuple[str, ...] = ()
    """Of `hostbench changes`: the confirmed steps that this night was the first to name."""

    @property
    def is_disturbed(self) -> bool:
        """Passing facts made it slower: the next nights are not held against this one."""
        return any(own.cause == "disturbed" and own.effect > 0 for own in self.changes)


def write(results: Path, night: Night) -> None:
    """Keep a night."""
    path = results / night.machine / FOLDER / f"{night.run_id}{SUFFIX}"
    if not path.exists():
        write_atomic(path, packed(to_builtins(night)))


def of_machine(results: Path, machine: str, warn: Warn) -> list[Night]:
    """The oldest first. What cannot be read is a warning that names the file."""
    nights = []
    for path in sorted((results / machine / FOLDER).glob(f"*{SUFFIX}")):
        try:
            nights.append(convert(load_json(unpack(read_stored(path, results))), Night))
        except (*DAMAGE, OSError) as error:
            warn(damaged(path, error))
    return sorted(nights, key=lambda night: night.started_at)
