"""Running checks: each in a process of its own, so that none can stop or spoil another."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import hostbench
from hostbench.core.errors import Unavailable
from hostbench.gpu_check.record import Answer, Check, Result

LEAST_S = 3.0
"""With less time than this left, a check is not started."""
_GRACE_S = 5.0

Execute = Callable[[Check, Path, float], Answer]


def run_all(
    checks: Iterable[Check],
    folder: Path,
    deadline_s: float,
    execute: Execute | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Result]:
    """Ask the checks in order until `deadline_s` on the clock `now`; one result for each check."""
    for check in checks:
        start_s = now()
        limit_s = min(check.budget_s, deadline_s - start_s)
        if limit_s < LEAST_S:
            answer = Answer(status="unavailable", text="not reached: the time was spent")
        else:
            answer = (execute or in_child)(check, folder, limit_s)
        yield Result(
            name=check.name, question=check.question, answer=answer, seconds=now() - start_s
        )


def in_process(check: Check, folder: Path) -> Answer:
    """Ask here and turn whatever is raised into an answer."""
    try:
        return check.ask(folder)
    except Unavailable as error:
        return Answer(status="unavailable", text=str(error))
    except Exception as error:
        return Answer(status="failed", text=f"{type(error).__name__}: {error}")


def in_child(check: Check, folder: Path, limit_s: float) -> Answer:
    """Ask in a child of its own session; its output goes to `NAME.log`, its answer to a file."""
    place = answer_file(folder, check.name)
    place.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "hostbench.gpu_check", "-o", str(folder), "--only", check.name]
    with log_file(folder, check.name).open("wb") as log:
        child = subprocess.Popen(
            argv, stdout=log, stderr=log, env=child_environment(), start_new_session=True
        )
        try:
            code: int | None = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(child)
    if code is None:
        return Answer(status="failed", text=f"ended after {limit_s:.0f} s without an answer")
    try:
        return Answer(**json.loads(place.read_text()))
    except (OSError, ValueError, TypeError):
        return Answer(status="failed", text=f"its process ended with code {code}; see the log")


def write_answer(folder: Path, name: str, answer: Answer) -> None:
    answer_file(folder, name).write_text(json.dumps(asdict(answer)))


def answer_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def log_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.log"


def log_tail(folder: Path, name: str, num_lines: int = 40) -> str:
    """The last lines of a check's log; empty where there is none."""
    try:
        lines = log_file(folder, name).read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-num_lines:])


def child_environment() -> dict[str, str]:
    """This process's environment, with this very hostbench first on the path."""
    root = str(Path(hostbench.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *_pythonpath()])}


def _pythonpath() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End what is left of the child's session: kindly first, then not."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
