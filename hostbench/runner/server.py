"""The fork server: a process that imports torch and does nothing else, forked per launch.

It reads launches from stdin, a line of JSON each. The forked worker writes its messages to stdout,
then the server adds how the worker ended. Forking is safe because no torch operation ever runs in
the server: no thread pool, no CUDA context. For simulated launches alone it never imports torch.

The server adopts what its workers leave behind and kills it after each launch, and also when its
own parent is killed, which is why that death reaches it as SIGTERM and not as SIGKILL.
"""

import gc
import importlib
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from functools import cache, partial
from typing import Any

from msgspec import convert

import hostbench
from hostbench import families
from hostbench.core.processes import become_subreaper, die_with_parent, kill_strays
from hostbench.core.records import Exited, Launch, Message, Process, encoded

_BEFORE_THE_FIRST_FORK = (
    "torch",
    "hostbench.device.cpu",
    "hostbench.device.cuda",
    "hostbench.ranks.launch",
    "hostbench.ranks.lockstep",
)
"""Imported once: every launch of a run measures the same code, whatever happens to the files."""


def main() -> None:
    """Serve until stdin closes. The pipe leaves fd 1, so that a library's print is no message."""
    become_subreaper()

    def leave(number: int, frame: object) -> None:
        """The parent is gone: take everything along."""
        kill_strays(keep=set())
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    die_with_parent(signal.SIGTERM)
    for number in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C and hang-ups are the parent's to handle
        signal.signal(number, signal.SIG_IGN)
    try:
        _serve()
    finally:
        kill_strays(keep=set())


def declare() -> None:
    """Print what the workers of this hostbench can measure, for `ab`: JSON after an empty line."""
    works = families.load().values()
    versions = {str(case): work.version for work in works for case in work.cases()}
    print(f"\n\n{json.dumps({'versions': versions, 'broken': families.broken()})}")


def _serve() -> None:
    out = os.dup(1)
    os.dup2(2, 1)
    worker = importlib.import_module("hostbench.runner.worker")
    worker.load()  # every family: what is edited on disk from now on is not measured
    send(out, Process(hostbench=hostbench.__file__, pid=os.getpid()))
    for line in sys.stdin:
        launch = convert(json.loads(line), Launch)
        if launch.device is None:
            _import(_BEFORE_THE_FIRST_FORK)
            chosen = {case.family for case in launch.cases}
            # the case that needs it says what is wrong
            _import(families.preloads(chosen), Exception, SystemExit)
        else:
            _import(("hostbench.device.simulated",))
        pid = os.fork()
        if pid == 0:
            _work(worker, out, launch)
        _, status = os.waitpid(pid, 0)
        kill_strays(keep=set())
        send(out, Exited(status=status))


@cache
def _import(names: tuple[str, ...], *pardoned: type[BaseException]) -> None:
    gc.disable()
    for name in names:
        with suppress(*pardoned):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what they made is here to stay: collecting between cases need not look at it
    gc.enable()


def _work(worker: Any, out: int, launch: Launch) -> None:
    """The forked worker: never returns. A step that reads its input finds none, for that of this
    process are the launches."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        send(out, Process(pid=os.getpid()))
        worker.walk(launch, partial(send, out))
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(code)


def send(out: int, message: Message) -> None:
    data = encoded(message)
    while data:
        data = data[os.write(out, data) :]
