"""The parent's side: start the fork server, run launches, hold deadlines, survive crashes."""

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import hostbench
from hostbench.core.case import Case
from hostbench.core.errors import BrokenError
from hostbench.core.processes import children, describe_exit, kill_group, kill_strays
from hostbench.runner.boot import BOOT, environment

_SERVE = BOOT + "from hostbench.runner.server import main; main()"
_START_DEADLINE_S = 120.0
_TICK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One fresh worker's work: the cases of one family, in the order they are measured."""

    family: str
    number: int
    cases: tuple[Case, ...]
    settings: dict[str, Any]
    device: str | None
    """A device that stands in for the one each case names (`simulated`); None: as named."""
    observe: bool = False
    """Gather evidence (`hostbench.measure.evidence`) instead of timing."""
    deadline_s: float
    """A case that takes longer is killed and failed; the rest goes on in a new worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one case came to in one launch."""

    case: Case
    position: int
    started_at: float
    """Seconds since the epoch."""
    status: str
    reason: str | None
    seconds: float | None
    measurement: dict[str, Any]
    traceback: str | None


class Launcher:
    """Owns the fork server. Use as a context manager; it leaves no process behind.

    Raises BrokenError when the server cannot start (torch missing, or another copy of hostbench
    than the caller's answers).
    """

    def __init__(
        self,
        tick: Callable[[], None] = lambda: None,
        started: Callable[[Case], None] = lambda _: None,
        root: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`tick` is called about once a second while a worker is busy, `started` per case. `root`
        holds the `hostbench` that is measured; without it, the caller's own is. `variables` join
        the environment of the workers."""
        self._tick = tick
        self._started = started
        self._variables = dict(variables or {})
        self._root = root or Path(hostbench.__file__).parent.parent
        self._bystanders = children()
        self._log = tempfile.TemporaryFile()
        self._server: subprocess.Popen[bytes] | None = None
        self._pipe = _Pipe()
        self.worker: int | None = None

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()
        kill_strays(keep=self._bystanders)
        self._log.close()

    def run(self, launch: Launch) -> Iterator[Outcome]:
        """Run a launch; yields each case's outcome as it comes. Every case yields exactly once."""
        self._bystanders = children() - self._server_pids()  # another launcher's server too
        left = list(launch.cases)
        done = 0
        while left:
            before = len(left)
            for outcome in self._attempt(launch, left, done):
                left.remove(outcome.case)
                done += 1
                yield outcome
            kill_strays(keep=self._bystanders | self._server_pids())
            if len(left) == before:
                raise BrokenError(f"the worker ended before its first case: {self._tail()}")

    def _attempt(self, launch: Launch, cases: Sequence[Case], done: int) -> Iterator[Outcome]:
        """One worker, until it has walked the cases or ended otherwise."""
        self._request(launch, cases)
        current: tuple[Case, float] | None = None
        deadline = time.monotonic() + launch.deadline_s
        late = False
        while True:
            message = self._next(deadline)
            if message is None and late:  # killed a deadline ago and still there: leave it behind
                self._abandon()
                if current is not None:
                    yield _lost(current, done, "hung, and cannot be killed")
                return
            if message is None:
                late = True
                deadline = time.monotonic() + launch.deadline_s
                self._kill_worker()
                continue
            event = message["event"]
            if event == "worker":
                self.worker = message["pid"]
            elif event == "start":
                current = (_case(message["case"]), message["at"])
                self._started(current[0])
                deadline = time.monotonic() + launch.deadline_s
            elif event == "case":
                assert current is not None
                yield _outcome(message, current, done)
                done, current = done + 1, None
            elif event == "exit":
                self.worker = None
                if current is not None:
                    why = (
                        f"missed its deadline of {launch.deadline_s:g} s"
                        if late
                        else f"the worker process was lost: {describe_exit(message['status'])}"
                    )
                    yield _lost(current, done, why)
                return

    def _request(self, launch: Launch, cases: Sequence[Case]) -> None:
        if self._server is None or self._server.poll() is not None:
            self._start()
        assert self._server is not None and self._server.stdin is not None
        request = {
            "family": launch.family,
            "number": launch.number,
            "settings": launch.settings,
            "device": launch.device,
            "deadline_s": launch.deadline_s,
            "observe": launch.observe,
            "cases": [{"workload": case.workload, "axes": case.values} for case in cases],
        }
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()

    def _start(self) -> None:
        self._stop()
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE, str(self._root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment() | self._variables,
        )
        assert self._server.stdout is not None
        self._pipe = _Pipe(self._server.stdout.fileno())
        message = self._next(time.monotonic() + _START_DEADLINE_S)
        if message is None or message.get("event") != "ready":
            raise BrokenError(f"the fork server did not start: {self._tail()}")
        wanted = self._root / "hostbench" / "__init__.py"
        if not Path(message["hostbench"]).samefile(wanted):
            raise BrokenError(
                f"the worker imported {message['hostbench']}, it was to measure {wanted}; "
                "uninstall one of the two"
            )

    def _next(self, deadline: float) -> dict[str, Any] | None:
        """The next message; None at the deadline. A server that is gone reads as an exit."""
        while True:
            wait = min(_TICK_S, deadline - time.monotonic())
            if wait <= 0:
                return None
            line = self._pipe.line(wait)
            if line is not None:
                return self._ended() if line == b"" else _message(line)
            self._tick()

    def _ended(self) -> dict[str, Any]:
        assert self._server is not None
        code = self._server.wait()
        self._kill_worker()
        return {"event": "exit", "status": -code if code < 0 else code << 8}

    def _kill_worker(self) -> None:
        if self.worker is not None:
            kill_group(self.worker)
        elif self._server is not None:
            self._server.kill()

    def _abandon(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._server.wait()
        self._server = self.worker = None

    def _stop(self) -> None:
        if self._server is None:
            return
        if self.worker is not None:
            kill_group(self.worker)
            self.worker = None
        self._server.kill()
        self._server.wait()
        for stream in (self._server.stdin, self._server.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        self._server = None

    def _server_pids(self) -> set[int]:
        return {self._server.pid} if self._server is not None else set()

    def _tail(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class _Pipe:
    """Lines from a file descriptor with a timeout."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = fd
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        if fd is not None:
            self._selector.register(fd, selectors.EVENT_READ)

    def line(self, timeout_s: float) -> bytes | None:
        """One line with its newline, b"" at the end of the pipe, None when the time is over."""
        end = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if not self._selector.select(max(0.0, end - time.monotonic())):
                return None
            assert self._fd is not None
            chunk = os.read(self._fd, 1 << 16)
            if not chunk:
                return b""
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"


def _message(line: bytes) -> dict[str, Any]:
    """One message. A worker killed while it wrote leaves half of one before the server's."""
    half, exit_event, rest = line.rpartition(b'{"event": "exit"')
    return dict(json.loads(exit_event + rest if half and exit_event else line))


def _case(raw: dict[str, Any]) -> Case:
    return Case.of(raw["workload"], raw["axes"])


def _outcome(message: dict[str, Any], current: tuple[Case, float], position: int) -> Outcome:
    case, started_at = current
    return Outcome(
        case=case,
        position=position,
        started_at=started_at,
        status=message["status"],
        reason=message.get("reason"),
        seconds=message.get("seconds"),
        measurement=message.get("measurement", {}),
        traceback=message.get("traceback"),
    )


def _lost(current: tuple[Case, float], position: int, reason: str) -> Outcome:
    message = {"status": "failed", "reason": reason}
    return _outcome(message, current, position)
