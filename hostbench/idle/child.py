"""A user's command with a recorder in each Python process of it, and what these wrote."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import hostbench
from hostbench.core.errors import UsageError
from hostbench.core.processes import become_subreaper, children, kill_strays, with_descendants
from hostbench.idle.recording import VARIABLE, RecordedProcess, RecordSettings

_LOOK_EVERY_S = 0.2
_TO_END_S = 30.0
"""For a script that was told to end."""
_PLUGIN = {
    "hostbench_idle-1.dist-info/METADATA": "Name: hostbench_idle\nVersion: 1\n",
    "hostbench_idle-1.dist-info/entry_points.txt": (
        "[torch.backends]\nhostbench_idle = hostbench_idle_start:start\n"
    ),
    "hostbench_idle_start.py": """
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
""",
}
"""To Python an installed package: torch calls its entry point at the end of its own import
(TORCH_DEVICE_BACKEND_AUTOLOAD). The script's environment need not have hostbench."""


@contextmanager
def recorded(
    command: Sequence[str], *, keep: Path | None = None, quiet: bool = False, **settings: Any
) -> Iterator[tuple[int, list[RecordedProcess]]]:
    """Run a command to its end: its exit code, and those of its processes that ended by themselves.
    Their traces are there as long as this is open, or stay in `keep`.
    `settings` are fields of RecordSettings. `quiet` has what it prints go to standard error. Raises
    UsageError where it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        notes, inject = Path(folder, "notes"), Path(folder, "inject")
        traces = keep.resolve() if keep is not None else Path(folder, "traces")
        try:
            traces.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {keep}: {error.strerror or error}") from None
        notes.mkdir()
        for name, text in _PLUGIN.items():
            path = inject / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(root=str(Path(hostbench.__file__).parent.parent)))
        given = RecordSettings(notes=str(notes), traces=str(traces), **settings)
        paths = [str(inject), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = os.environ | {
            VARIABLE: json.dumps(given._asdict()),
            "PYTHONPATH": os.pathsep.join(paths),
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "1",
            # From 5 down torch's profiler prints a line as it starts and one as it stops.
            "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "6"),
        }
        code = _run(command, env, sys.stderr if quiet else None)
        yield 128 - code if code < 0 else code, list(processes_of(notes))


def _run(command: Sequence[str], env: dict[str, str], stdout: Any) -> int:
    """The exit code. A terminal sends Ctrl-C to the command, too, which may write what it has;
    SIGTERM, as of a CI job that is cancelled, is passed on. One that is ignored stays so. Raises
    UsageError where the command cannot be started."""
    received: list[int] = []
    become_subreaper()  # what loses its parent is ours, and is found
    bystanders = children()
    with ExitStack() as stack:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before = signal.signal(number, lambda number, _: received.append(number))
                stack.callback(signal.signal, number, before)
        try:
            child = subprocess.Popen(command, env=env, stdout=stdout)
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror or error}") from None
        while child.poll() is None and signal.SIGTERM not in received:
            time.sleep(_LOOK_EVERY_S)
        if signal.SIGTERM in received:
            for pid in with_descendants(children() - bystanders):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(_TO_END_S)
            child.kill()
            child.wait()
            kill_strays(bystanders)
    return child.returncode


def processes_of(notes: Path) -> Iterator[RecordedProcess]:
    """What each process has written of itself."""
    for path in sorted(notes.glob("*.json")):
        yield RecordedProcess(**json.loads(path.read_text()))
