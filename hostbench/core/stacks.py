"""Where another process is in its Python code, as it tells at a signal, also while it hangs."""

import contextlib
import faulthandler
import os
import re
import signal
import time

ANSWER_S = 0.5
"""How long a process may take to say where it is: on a busy machine 0.2 s were too little."""
_POLL_S = 0.01
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in', re.MULTILINE)


def write_at_signal(file: int) -> None:
    """From now on this process writes its threads' stacks into the file descriptor at SIGUSR1."""
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)


def main_thread(pid: int, file: int) -> list[tuple[str, int]]:
    """File and line of each function that the process's main thread is in, the innermost first;
    none where it does not answer, as one that is stopped. It writes into `file`, as above."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
    deadline_s, size = time.monotonic() + ANSWER_S, -1
    while time.monotonic() < deadline_s and not 0 < size == os.fstat(file).st_size:
        size = os.fstat(file).st_size
        time.sleep(_POLL_S)
    main = os.pread(file, 1 << 16, 0).decode(errors="replace").rpartition("\n\n")[2]
    return [(name, int(line)) for name, line in _FRAME.findall(main)]
