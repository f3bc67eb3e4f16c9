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

import hostbench
from hostbench.core.errors import UsageError
from hostbench.core.processes import become_subreaper, children, kill_strays, with_descendants
from hostbench.idle.recording import VARIABLE, RecordedProcess, RecordSettings

_LOOK_EVERY_S = 0.2
_TO_END_S = 30.0
"""For a script that was told to end."""
_ENTRY_POINT = "[torch.backends]\nhostbench_idle = hostbench_idle_start:start\n"
"""torch calls it at the end of its import (TORCH_DEVICE_BACKEND_AUTOLOAD)."""
_START = """
import sys, traceback

def start():
    sys.path.insert(0, {root!r})
    try:
        from hostbench.idle.recording import install
        install()
    except Exception:
        traceback.print_exc()
    finally:
        sys.path.remove({root!r})
"""
"""The script's environment need not have hostbench, nor what it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A command that has ended."""

    exit_code: int
    """0 where it was ended once all of it was recorded."""
    processes: tuple[RecordedProcess, ...]
    """Those that ended by themselves."""

    @property
    def traces(self) -> list[Path]:
        return [Path(process.trace) for process in self.processes if process.trace]


@contextmanager
def recorded(
    command: Sequence[str],
    *,
    keep: Path | None = None,
    stop: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Iterator[RecordedRun]:
    """Run a command to its end; its traces are there as long as this is open, or stay in `keep`.

    `settings` are fields of RecordSettings. `stop` ends it once all is recorded, `quiet` has what
    it prints go to standard error. Raises UsageError where it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        notes, inject = Path(folder, "notes"), Path(folder, "inject")
        traces = keep.resolve() if keep is not None else Path(folder, "traces")
        try:
            traces.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {keep}: {error.strerror or error}") from None
        notes.mkdir()
        _write_plugin(inject)
        given = RecordSettings(notes=str(notes), traces=str(traces), **settings)
        paths = [str(inject), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = os.environ | {
            VARIABLE: json.dumps(given._asdict()),
            "PYTHONPATH": os.pathsep.join(paths),
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
        }
        output = sys.stderr if quiet else None
        code = _run(command, env, output, lambda: stop and _all_recorded(notes))
        yield RecordedRun(
            exit_code=128 - code if code < 0 else code,
            processes=tuple(process for process in processes_of(notes) if process.is_done),
        )


def _write_plugin(folder: Path) -> None:
    """An installed package with an entry point, as far as Python can see."""
    package = folder / "hostbench_idle-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Name: hostbench_idle\nVersion: 1\n")
    (package / "entry_points.txt").write_text(_ENTRY_POINT)
    root = Path(hostbench.__file__).parent.parent
    (folder / "hostbench_idle_start.py").write_text(_START.format(root=str(root)))


def _run(
    command: Sequence[str], env: dict[str, str], stdout: Any, is_enough: Callable[[], bool]
) -> int:
    """The exit code; 0 where it was ended because it `is_enough`. A terminal sends Ctrl-C to the
    command, too, which may write what it has; SIGTERM, as of a CI job that is cancelled, is passed
    on. One that is ignored stays so. Raises UsageError where it cannot be started."""
    terminated: list[int] = []
    handlers = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGINT, lambda *_: None),
            (signal.SIGTERM, lambda number, _: terminated.append(number)),
        )
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    become_subreaper()  # what loses its parent is ours, and is found
    bystanders, was_stopped = children(), False
    try:
        try:
            child = subprocess.Popen(command, env=env, stdout=stdout)
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror or error}") from None
        while child.poll() is None and not terminated and not was_stopped:
            time.sleep(_LOOK_EVERY_S)
            was_stopped = child.poll() is None and is_enough()
        if terminated or was_stopped:
            _end(child, bystanders)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 0 if was_stopped else child.returncode


def _end(child: subprocess.Popen[bytes], bystanders: set[int]) -> None:
    """Nothing of it runs afterwards."""
    for pid in with_descendants(children() - bystanders):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_TO_END_S)
    child.kill()
    child.wait()
    kill_strays(bystanders)


def processes_of(notes: Path) -> Iterator[RecordedProcess]:
    for path in sorted(notes.glob("*.json")):
        yield RecordedProcess(**json.loads(path.read_text()))


def _all_recorded(notes: Path) -> bool:
    processes = list(processes_of(notes))
    return bool(processes) and all(process.is_done for process in processes)
