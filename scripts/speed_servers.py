"""The servers of scripts/dashboard-speed: started, looked at in /proc, ended by process id."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "HOSTBENCH_DASHBOARD_SPEED"
BARE = Path(__file__).parent / "speed_bare_app.py"
_TICKS = os.sysconf("SC_CLK_TCK")
_WATCH_S = 0.5
_START_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of a server and all that it has started, in bytes."""

    rss: int
    pss: int
    peak: int
    """The sum of each process's largest resident set since `forget_peak`."""


class Server:
    """`hostbench dashboard`, or what has its flags. Ended when it holds more than `most` bytes."""

    def __init__(self, command: list[str], port: int, folder: Path, most: float) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.most, self.too_large = most, 0
        self.answered_s = 0.0
        self._mark = f"{MARK}={os.getpid()}-{port}"
        name, _, value = self._mark.partition("=")
        self.started_s = time.time()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, name: value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def wait(self) -> None:
        """Until it answers, after `answered_s` seconds. Raises RuntimeError where it never does."""
        while time.time() < self.started_s + _START_S:
            if why := self.ended():
                raise RuntimeError(f"the server at {self.address} {why}")
            try:
                urllib.request.urlopen(f"{self.address}/_stcore/health", timeout=5).close()
                self.answered_s = time.time() - self.started_s
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.02)
        raise RuntimeError(f"the server at {self.address} did not answer within {_START_S:g} s")

    def command(self) -> list[str]:
        """As it runs now: `hostbench dashboard` has become streamlit."""
        text = Path(f"/proc/{self._process.pid}/cmdline").read_text()
        return text.rstrip("\0").split("\0")

    def ended(self) -> str:
        """Why it runs no more; "" while it does."""
        code = self._process.poll()
        if self.too_large:
            return f"held {self.too_large / 1e6:,.0f} MB and was ended (--most-gb)"
        return "" if code is None else f"ended with {code}"

    def memory(self) -> Memory:
        found = [_memory(pid) for pid in self._pids()]
        rss, pss, peak = (sum(each) for each in zip(*found, strict=True)) if found else (0, 0, 0)
        return Memory(rss=rss, pss=pss, peak=peak)

    def forget_peak(self) -> None:
        for pid in self._pids():
            with contextlib.suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    def cpu_s(self) -> float:
        """User and system, of the processes that run now."""
        return sum(map(_cpu_s, self._pids()))

    def wait_for_helpers(self, limit_s: float) -> float:
        """Seconds until the server's process is the only one."""
        start = time.monotonic()
        while len(self._pids()) > 1 and time.monotonic() < start + limit_s:
            time.sleep(_WATCH_S)
        return time.monotonic() - start

    def end(self) -> None:
        self._over.set()
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _pids(self) -> list[int]:
        """What was started with the mark in its environment, whoever its parent is by now."""
        mark, found = self._mark.encode(), []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def _watch(self) -> None:
        while not self._over.wait(_WATCH_S):
            rss = sum(_rss(pid) for pid in self._pids())
            if rss > self.most:
                self.too_large = rss
                self._process.kill()
                return


@contextlib.contextmanager
def dashboard(results: Path, most: float) -> Iterator[Server]:
    """As a user starts it."""
    port = _free_port()
    words = ["dashboard", "--headless", "--port", str(port), "--results", str(results)]
    server = Server([sys.executable, "-m", "hostbench", *words], port, results.parent, most)
    with _running(server):
        yield server


@contextlib.contextmanager
def bare(like: list[str], most: float) -> Iterator[Server]:
    """The bare app, with the flags of the dashboard's process (`Server.command`)."""
    port = _free_port()
    flags = [word for word in like[: like.index("--")] if word.startswith("--")]
    flags = [word for word in flags if not word.startswith("--server.port=")]
    run = [sys.executable, "-P", "-m", "streamlit", "run", str(BARE), f"--server.port={port}"]
    command = [*run, *flags]
    server = Server(command, port, BARE.parent, most)
    with _running(server):
        yield server


@contextlib.contextmanager
def _running(server: Server) -> Iterator[None]:
    try:
        server.wait()
        yield
    finally:
        server.end()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _memory(pid: int) -> tuple[int, int, int]:
    """RSS, PSS and the largest RSS; zeros for a process that has ended."""
    try:
        rollup = _kilobytes(Path(f"/proc/{pid}/smaps_rollup"))
        peak = _kilobytes(Path(f"/proc/{pid}/status"))
        return rollup["Rss"], rollup["Pss"], peak["VmHWM"]
    except (OSError, KeyError):
        return 0, 0, 0


def _kilobytes(path: Path) -> dict[str, int]:
    """The sizes in a file of /proc, in bytes."""
    lines = [line.split() for line in path.read_text().splitlines() if line.endswith("kB")]
    return {words[0].rstrip(":"): int(words[1]) << 10 for words in lines}


def _rss(pid: int) -> int:
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _cpu_s(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / _TICKS
