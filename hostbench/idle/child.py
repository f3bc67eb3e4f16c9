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
from typing import Any

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
        return [process.trace for process in self.processes if process.trace is not None]


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
        output = sys.stderr if quiet else None
        code, was_stopped = _run(command, env, output, lambda: stop and _all_recorded(folder))
        yield RecordedRun(
            exit_code=128 - code if code < 0 else code,
            was_stopped=was_stopped,
            processes=tuple(processes_of(folder)),
        )


def _run(
    command: Sequence[str], env: dict[str, str], stdout: Any, is_enough: Callable[[], bool]
) -> tuple[int, bool]:
    """The exit code, and whether it was ended because it `is_enough`. Ctrl-C and SIGTERM, as of a
    CI job that is cancelled, are for the command, which may write what it has; one that is ignored
    stays so. Raises UsageError where it cannot be started."""
    got: list[int] = []
    handlers = {
        number: signal.signal(number, lambda got_number, _: got.append(got_number))
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    become_subreaper()  # what loses its parent is ours, and is found
    bystanders, was_stopped = children(), False
    try:
        try:
            child = subprocess.Popen(command, env=env, stdout=stdout)
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror or error}") from None
        while child.poll() is None and not got and not was_stopped:
            time.sleep(_LOOK_EVERY_S)
            was_stopped = not got and child.poll() is None and is_enough()
        if got or was_stopped:
            got[:] = got or [signal.SIGTERM]
            _end(child, bystanders, got)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return child.returncode, was_stopped


def _end(child: subprocess.Popen[bytes], bystanders: set[int], signals: list[int]) -> None:
    """Pass on these signals and those that come; nothing of it runs afterwards."""
    ends_s = time.monotonic() + _TO_END_S
    while True:
        while signals:
            _pass_on(signals.pop(0), bystanders)
        for pid in children() - bystanders - {child.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        is_left = child.poll() is None or bool(children() - bystanders)
        if not is_left or time.monotonic() > ends_s:
            break
        time.sleep(_LOOK_EVERY_S / 10)
    child.kill()
    child.wait()
    kill_strays(bystanders)


def _pass_on(number: int, bystanders: set[int]) -> None:
    if number == signal.SIGINT and _is_in_foreground():
        return  # the terminal has sent it to all of them
    for pid in with_descendants(children() - bystanders):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


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
