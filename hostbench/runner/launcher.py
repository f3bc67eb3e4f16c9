"""The parent's side: start the fork server, run launches, hold deadlines, survive crashes."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import convert
from msgspec.structs import replace

import hostbench
from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, DeviceLost
from hostbench.core.processes import children, describe_exit, kill_group, kill_strays
from hostbench.core.records import (
    CaseRecord,
    Done,
    Exited,
    Launch,
    Message,
    Process,
    Started,
    encoded,
)

BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop()); "
    "from hostbench.asv_guard import drop_editable_finder; drop_editable_finder(); "
)
"""Code for `python -P -c`, which starts on the hostbench of one folder, the last argument, whatever
else is installed or on the path."""
_SERVE = BOOT + "from hostbench.runner.server import main; main()"
_START_DEADLINE_S = 120.0
_KILLED_S = 10.0
"""How long a killed worker may take to give back its device and end: then it is left behind."""
_TICK_S = 1.0


def environment() -> dict[str, str]:
    """This process's, without what would put another hostbench on the path."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class Launcher:
    """Owns the fork server. Use as a context manager; it leaves no process behind. Raises
    BrokenError when the server cannot start, is another hostbench, or cannot import torch."""

    def __init__(
        self,
        tick: Callable[[], None] = lambda: None,
        root: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`tick` is called about once a second while a worker is busy. `root` holds the `hostbench`
        that is measured; without it, the caller's own is. `variables` join the environment of the
        workers; an empty one leaves it."""
        self._tick = tick
        self._variables = dict(variables or {})
        self._root = root or Path(hostbench.__file__).parent.parent
        self._bystanders = children()
        self._of_variables: dict[tuple[tuple[str, str], ...], Launcher] = {}
        self._log = tempfile.TemporaryFile()
        self._server: subprocess.Popen[bytes] | None = None
        self._poll = select.poll()
        self._buffer = b""
        self.worker: int | None = None

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._of_variables.values():
            other.__exit__()
        self._stop()
        kill_strays(keep=self._bystanders)  # what a server that was killed has left behind
        self._log.close()

    def run(self, launch: Launch) -> Iterator[CaseRecord]:
        """Run a launch; yields each case's record as it comes. Every case yields exactly once, and
        its evidence, where that is gathered after its timing.

        Raises DeviceLost where the device does not start: a worker for each case that is left would
        only wait for it again. A launch with variables has a fork server that was started with
        them, for torch reads some as it is loaded. Where the device refuses those, its cases fail.
        """
        key = tuple(sorted(launch.variables.items()))
        if key and key not in self._of_variables:
            joined = {**self._variables, **launch.variables}
            self._of_variables[key] = Launcher(self._tick, self._root, joined)
        yield from (self._of_variables[key] if key else self)._run(launch)

    def _run(self, launch: Launch) -> Iterator[CaseRecord]:
        left = list(launch.cases)
        while left:
            before = len(left)
            for record in self._attempt(launch, left):
                if record.launch == launch.number:  # else it is the evidence of a timed one
                    left.remove(record.case)
                yield record
            if len(left) == before:
                raise BrokenError(f"the worker ended before its first case: {self._tail()}")

    def _attempt(self, launch: Launch, cases: Sequence[Case]) -> Iterator[CaseRecord]:
        """One worker, until it has walked the cases or ended otherwise."""
        if self._server is None or self._server.poll() is not None:
            self._start()
        assert self._server is not None and self._server.stdin is not None
        self._server.stdin.write(encoded(replace(launch, cases=tuple(cases))))
        self._server.stdin.flush()
        self.worker = self._expect("could not import torch").pid
        begun: Started | None = None
        missed = ""
        deadline = time.monotonic() + launch.deadline_s
        while True:
            message = self._next(deadline)
            if isinstance(message, Started):
                if begun is None:
                    deadline = time.monotonic() + launch.deadline_s
                begun = message
            elif isinstance(message, Done):
                begun = None
                yield message.record
            elif message is None and not missed:
                missed = f"missed its deadline of {launch.deadline_s:g} s"
                deadline = time.monotonic() + min(_KILLED_S, launch.deadline_s)
                self._kill_worker()
            else:
                if isinstance(message, Exited):
                    self.worker = None
                    ended = describe_exit(message.status)
                    why = missed or f"the worker process was lost: {ended}"
                else:  # killed, and still there: leave it behind
                    self._stop()
                    why = f"{missed}, and its process cannot be killed"
                if begun is not None:
                    yield _lost(begun, why, is_fatal=not launch.variables)
                return

    def _start(self) -> None:
        self._stop()
        variables = environment() | self._variables
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE, str(self._root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={name: variables[name] for name in variables if self._variables.get(name) != ""},
        )
        assert self._server.stdout is not None
        self._poll, self._buffer = select.poll(), b""
        self._poll.register(self._server.stdout, select.POLLIN)
        imported = self._expect("did not start").hostbench
        wanted = self._root / "hostbench" / "__init__.py"
        if not Path(imported).samefile(wanted):
            raise BrokenError(f"{imported} is imported, not {wanted}: uninstall one of the two")

    def _expect(self, otherwise: str) -> Process:
        """The server's next message. Raises BrokenError where there is none in time."""
        message = self._next(time.monotonic() + _START_DEADLINE_S)
        if isinstance(message, Process):
            return message
        why = f"not within {_START_DEADLINE_S:g} s"
        if isinstance(message, Exited):
            why = describe_exit(message.status)
        raise BrokenError(
            f"the measuring process {otherwise} ({why}): {self._tail()}; "
            "`hostbench doctor` says what may help"
        )

    def _next(self, deadline: float) -> Message | None:
        """The next message; None at the deadline. A server that is gone reads as an exit. Raises
        BrokenError for what no worker of this hostbench says."""
        assert self._server is not None and self._server.stdout is not None
        while b"\n" not in self._buffer:
            wait_s = min(_TICK_S, deadline - time.monotonic())
            if wait_s <= 0:
                return None
            if not self._poll.poll(wait_s * 1e3):
                self._tick()
            elif chunk := os.read(self._server.stdout.fileno(), 1 << 16):
                self._buffer += chunk
            else:
                code = self._server.wait()
                self._kill_worker()
                return Exited(status=-code if code < 0 else code << 8)
        line, _, self._buffer = self._buffer.partition(b"\n")
        half, is_exit, rest = line.rpartition(b'{"event": "exit"')  # a killed worker may leave half
        try:
            message: Message = convert(json.loads(is_exit + rest if half else line), Message)
            return message
        except ValueError as error:
            raise BrokenError(
                f"the workers in {self._root} talk otherwise than this hostbench ({error})"
            ) from error

    def _kill_worker(self) -> None:
        if self.worker is not None:
            kill_group(self.worker)
        elif self._server is not None:
            self._server.kill()

    def _stop(self) -> None:
        if self._server is None:
            return
        if self.worker is not None:
            kill_group(self.worker)
            self.worker = None
        with contextlib.suppress(BrokenPipeError), self._server:  # closes its pipes, and waits
            self._server.kill()
        self._server = None

    def _tail(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it printed nothing"


def _lost(begun: Started, why: str, *, is_fatal: bool) -> CaseRecord:
    """The record of a case whose worker is gone. Raises DeviceLost where it was the device, and
    that is fatal: not so of a setting that the device refuses."""
    if begun.opening:
        look = "; look at nvidia-smi and `dmesg`" if begun.opening == "cuda" else ""
        why = f"device {begun.opening} does not start: {why}{look}"
    if is_fatal and (begun.lost or begun.opening):
        raise DeviceLost(begun.lost or why)
    return replace(begun.record, reason=begun.lost or why)
