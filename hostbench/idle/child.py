"""A user's command with a recorder in each Python process of it, and what these wrote."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hostbench.core.errors import UsageError
from hostbench.idle.recording import BEGUN, DONE, VARIABLE, RecordSettings

_INJECT = Path(__file__).parent / "inject"
_LOOK_EVERY_S = 0.2
_TO_END_S = 30.0
"""For a script that was interrupted, to write its trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProcess:
    """What a process told of itself; `trace` None: it recorded nothing."""

    trace: Path | None
    error: str | None
    """Why it did not, where something went wrong."""
    steps: int
    has_cuda: bool
    free_s: float | None
    """Of a step before recording began, the median; None for fewer than three."""
    recorded_s: float | None
    """Of a step that was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A command that has ended."""

    exit_code: int
    was_stopped: bool
    """By us, once all of it was recorded."""
    processes: tuple[RecordedProcess, ...]

    @property
    def traces(self) -> list[Path]:
        return [each.trace for each in self.processes if each.trace is not None]


@contextmanager
def recorded(
    command: Sequence[str],
    settings: Callable[[str], RecordSettings],
    *,
    keep: Path | None = None,
    stop: bool = False,
    quiet: bool = False,
) -> Iterator[RecordedRun]:
    """Run a command to its end; its traces are there as long as this is open, or stay in `keep`.

    `settings` makes those for a folder. `quiet` has what it prints go to standard error. Raises
    UsageError where it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="hostbench-") as temporary:
        folder = keep.resolve() if keep is not None else Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        given = json.dumps(settings(str(folder))._asdict())
        paths = [str(_INJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, VARIABLE: given, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            child = subprocess.Popen(command, env=env, stdout=sys.stderr if quiet else None)
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror or error}") from None
        was_stopped = _wait(child, folder, stop)
        code = child.returncode
        yield RecordedRun(
            exit_code=128 - code if code < 0 else code,
            was_stopped=was_stopped,
            processes=tuple(processes_of(folder)),
        )


def _wait(child: subprocess.Popen[bytes], folder: Path, stop: bool) -> bool:
    """Until it has ended; whether we ended it. Ctrl-C reaches it too: it may write what it has."""
    try:
        while child.poll() is None:
            time.sleep(_LOOK_EVERY_S)
            if stop and _all_recorded(folder):
                child.terminate()
                child.wait()
                return True
    except KeyboardInterrupt:
        try:
            child.wait(_TO_END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return False


def _all_recorded(folder: Path) -> bool:
    done = {path.stem for path in folder.glob(f"*.{DONE}")}
    begun = {path.stem for path in folder.glob(f"*.{BEGUN}")}
    return bool(begun) and begun <= done


def processes_of(folder: Path) -> Iterator[RecordedProcess]:
    """Of those that ended by themselves; the notes go, the traces stay."""
    for path in sorted(folder.glob(f"*.{DONE}")):
        trace = path.with_suffix(".json")
        about = json.loads(path.read_text())
        yield RecordedProcess(trace=trace if trace.exists() else None, **about)
        path.unlink()
        path.with_suffix(f".{BEGUN}").unlink(missing_ok=True)
