"""A command in this process, and the real program."""

import contextlib
import io
import os
import socket
import subprocess
import sys
from typing import NamedTuple

from hostbench.cli.entry import main
from hostbench.core.errors import EXIT_OK
from tests.scratch import TREE


class Done(NamedTuple):
    code: int
    out: str
    err: str


def hostbench(*words: object, code: int | None = EXIT_OK) -> Done:
    """What a command comes to in this process; it must end with this exit code, None: any."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        ended = main([str(word) for word in words])
    done = Done(ended, out.getvalue(), err.getvalue())
    assert code in (ended, None), f"{words} ended with {done}"
    return done


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


def python(*words: str, **environ: str) -> Done:
    """This interpreter with this tree's code, in the folder where the test is."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(TREE), **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)
