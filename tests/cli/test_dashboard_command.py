"""`hostbench dashboard` as somebody types it for the first time: a terminal, and an empty home."""

import contextlib
import os
import pty
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostbench.cli import main
from tests.commands import free_port

ROOT = Path(__file__).parent.parent.parent
HANDSHAKE = (
    "GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def said(tmp_path: Path, port: int) -> Iterator[str]:
    """What a first start says until it answers or asks something; it runs until the test ends, and
    then ends when it is told to. Its browser notes in a file what it is asked to open."""
    pytest.importorskip("streamlit", reason="streamlit is not installed")
    terminal, its = pty.openpty()
    command = [sys.executable, "-m", "hostbench", "dashboard", "--port", str(port)]
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    browser = tmp_path / "xdg-open"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    env = {**kept, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": str(tmp_path)}
    server = subprocess.Popen(command, cwd=tmp_path, env=env, stdin=its, stdout=its, stderr=its)
    os.close(its)
    try:
        yield _read(terminal, port)
        server.terminate()
        assert server.wait(timeout=20) == 0
    finally:
        server.kill()
        server.wait(timeout=20)
        os.close(terminal)


def _read(terminal: int, port: int) -> str:
    text, deadline = "", time.monotonic() + 60
    with contextlib.suppress(OSError):  # the other end is closed
        while not _listens(port) and "Email:" not in text and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                text += os.read(terminal, 4096).decode(errors="replace")
    return text


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def _answer(port: int, host: str) -> str:
    """The first line of the answer to a page of that host that wants the app's data."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
        link.sendall(HANDSHAKE.format(host=host).encode())
        return link.recv(4096).decode(errors="replace").partition("\r\n")[0]


def test_the_first_start_asks_nothing_and_answers_this_machine_alone(
    said: str, port: int, tmp_path: Path
) -> None:
    assert f"http://localhost:{port} shows " in said
    assert "Email" not in said and "agents" not in said
    assert " 101 " in _answer(port, f"localhost:{port}")
    assert " 403 " in _answer(port, f"rebound.example:{port}")
    opened, deadline = tmp_path / "opened", time.monotonic() + 20
    while not (opened.exists() and opened.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert opened.read_text() == f"http://localhost:{port}\n"


def test_it_listens_where_the_environment_says(
    port: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("streamlit", reason="streamlit is not installed")
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    monkeypatch.setenv("HOSTBENCH_RESULTS", "")  # the command sets it
    for named, at in (("", "localhost"), ("127.0.0.2", "127.0.0.2")):
        monkeypatch.setenv("STREAMLIT_SERVER_ADDRESS", named)
        main(["dashboard", "--headless", "--port", str(port), "--results", str(tmp_path)])
        assert f"--server.address={at}" in started.pop()
        assert os.environ["HOSTBENCH_RESULTS"] == str(tmp_path)


def test_a_port_that_is_taken_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("streamlit", reason="streamlit is not installed")
    with socket.create_server(("localhost", 0)) as other:
        taken = str(other.getsockname()[1])
        code = main(["dashboard", "--headless", "--port", taken, "--results", str(tmp_path)])
    printed = capsys.readouterr()
    assert code == 2 and f"port {taken} is taken" in printed.err and not printed.out
