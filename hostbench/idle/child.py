"""A user's command with a recorder in each Python process of it, and what these wrote."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hostbench.core.errors import UsageError
from hostbench.core.processes import become_subreaper, children, kill_strays, with_descendants
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
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {keep}: {error.strerror or error}") from None
        given = json.dumps(settings(str(folder))._asdict())
        paths = [str(_INJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, VARIABLE: given, "PYTHONPATH": os.pathsep.join(paths)}
        with _Signals() as signals:
            try:
                running = _Running(command, env, sys.stderr if quiet else None, signals)
            except OSError as error:
                raise UsageError(f"cannot run {command[0]}: {error.strerror or error}") from None
            was_stopped = running.wait(folder, stop)
        code = running.child.returncode
        yield RecordedRun(
            exit_code=128 - code if code < 0 else code,
            was_stopped=was_stopped,
            processes=tuple(processes_of(folder)),
        )


class _Signals:
    """Ctrl-C and SIGTERM, as of a CI job that is cancelled, are for the command, which may write
    what it has. One that is ignored stays so."""

    def __init__(self) -> None:
        self._got: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, lambda got, _: self._got.append(got))
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def take(self) -> list[int]:
        got, self._got = self._got, []
        return got


class _Running:
    """A command that runs, and all that it has started."""

    def __init__(
        self, command: Sequence[str], env: dict[str, str], stdout: Any, signals: _Signals
    ) -> None:
        become_subreaper()  # what loses its parent is ours, and is found
        self._bystanders, self._signals = children(), signals
        self.child = subprocess.Popen(command, env=env, stdout=stdout)

    def wait(self, folder: Path, stop: bool) -> bool:
        """Until it has ended; whether we ended it."""
        while self.child.poll() is None:
            time.sleep(_LOOK_EVERY_S)
            if got := self._signals.take():
                self._end(got[0])
                return False
            if stop and self.child.poll() is None and _all_recorded(folder):
                self._end(signal.SIGTERM)
                return True
        return False

    def _end(self, number: int) -> None:
        """Nothing of it runs afterwards."""
        ends_s = time.monotonic() + _TO_END_S
        self._pass_on(number)
        while self._is_left() and time.monotonic() < ends_s:
            time.sleep(_LOOK_EVERY_S / 10)
            for again in self._signals.take():
                self._pass_on(again)
        self.child.kill()
        self.child.wait()
        kill_strays(self._bystanders)

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGINT and _is_in_foreground():
            return  # the terminal has sent it to all of them
        for pid in with_descendants(children() - self._bystanders):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _is_left(self) -> bool:
        for pid in children() - self._bystanders - {self.child.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return self.child.poll() is None or bool(children() - self._bystanders)


def _is_in_foreground() -> bool:
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


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
