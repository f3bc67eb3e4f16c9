"""Processes on Linux: who dies with whom, what each does and has sent. Pure stdlib, no rights."""

import contextlib
import ctypes
import hashlib
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

from hostbench.core.errors import NothingMeasured

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_BYTES_SENT = 200
"""Offset of tcpi_bytes_sent in Linux's struct tcp_info, and after it of tcpi_bytes_retrans; both
since 4.19."""


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when its parent dies; die now if it already did.
    SIGKILL cannot be outlived; another signal leaves time to clean up. It is tied to the parent's
    thread that made this process: start children from one that lives as long as the parent."""
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os._exit(1)


def die_with_torchrun(number: signal.Signals) -> None:
    """Its store dies with it, for which every rank would wait for minutes. It starts them from a
    thread that lives as long as it does; of other launchers nobody knows that."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        die_with_parent(number)


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that `kill_strays` can see them."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Terminated(KeyboardInterrupt):
    """Not KeyboardInterrupt itself: after one in code that is made from text, as dataclasses does,
    `python -m` ends by SIGINT whatever exit code it is given."""


@contextlib.contextmanager
def terminate_as_interrupt() -> Iterator[None]:
    """A CI job that is cancelled sends SIGTERM: keep what was measured, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def only_one(what: str) -> Iterator[None]:
    """Hold the lock of that name, for two would measure each other, whoever's processes they are.
    The kernel gives it up with the process, so that none is ever left behind. Containers with a
    network of their own do not see each other's. Raises NothingMeasured."""
    address = f"\0hostbench-{hashlib.sha256(what.encode()).hexdigest()[:32]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(address)
        except OSError as error:
            raise NothingMeasured(
                f"another nightly measures {what}: let it end, or end it; this one has measured "
                "nothing"
            ) from error
        yield


def children(pid: int | None = None) -> set[int]:
    """Process ids of the children of a process, else of this one; adopted ones included."""
    pids: set[int] = set()
    with contextlib.suppress(OSError):  # the process may end meanwhile, or one of its threads
        for task in Path(f"/proc/{pid or 'self'}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                pids.update(map(int, task.read_text().split()))
    return pids


def with_descendants(pids: set[int]) -> list[int]:
    """These, their children and so on, parents first."""
    family = sorted(pids)
    for pid in family:  # grows meanwhile
        family += sorted(children(pid) - set(family))
    return family


def kill_strays(keep: set[int]) -> None:
    """Kill and reap every child of this subreaper that is not in `keep`, and what those leave
    behind. Gives up after a second: a process stuck in a driver dies when that lets it go."""
    for _ in range(200):
        strays = children() - keep
        if not strays:
            break
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                done, _ = os.waitpid(pid, os.WNOHANG)
                if not done:
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def kill_group(pid: int) -> None:
    """SIGKILL the process group that `pid` leads, and `pid` itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger holds the process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def describe_exit(status: int) -> str:
    """A wait status in words: `killed by SIGSEGV`, `exit code 3`."""
    if not os.WIFSIGNALED(status):
        return f"exit code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    if number == signal.SIGKILL:  # as the kernel ends a process when memory is short
        return "killed by SIGKILL (out of memory? `dmesg` says)"
    names = {int(each): each.name for each in signal.Signals}
    return f"killed by {names.get(number, f'signal {number}')}"


def tcp_bytes_sent() -> int:
    """Payload that this process's open sockets have sent, without headers and what was repeated."""
    total = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if not file.is_socket():
                continue
            with socket.socket(fileno=os.dup(int(file.name))) as copy:
                if copy.family in (socket.AF_INET, socket.AF_INET6):
                    info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    sent, again = struct.unpack_from("QQ", info, _BYTES_SENT)
                    total += int(sent - again)
    return total


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
