"""What others have noted of a process's collectives: torch's flight recorder, and NCCL's log.

The recorder has also those inside DDP, and a thread answers for it while the main one hangs. gloo
records since torch 2.8; nccl as well, but not by default in older ones. NCCL's log has its choices,
which the names of its kernels do not tell: most algorithms and protocols run inside a kernel that
is named after another one (nccl#1595, nccl#2196).
"""

import contextlib
import json
import os
import re
from multiprocessing.connection import Connection
from threading import Thread

from torch._C import _distributed_c10d as c10d

Calls = dict[tuple[str, int], str]
"""Name of a process group, and number of a collective in it -> operation; the last one last."""
ANSWER_S = 0.5  # for a process to answer: on a busy machine 0.2 s were too little
NUM_CALLS = 100  # that are held: writing out torch's 2,000 takes 0.1 s
_CHOICE = re.compile(r"Bytes -> Algo (\w+) proto (\w+)")


def answer(channel: Connection, backend: str) -> None:
    """From now on send what is recorded whenever something is received, until this process ends."""
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", str(NUM_CALLS))

    def serve() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                channel.recv()
                channel.send(recorded(backend))

    Thread(target=serve, daemon=True).start()


def ask(channel: Connection) -> Calls:
    """What the process at the other end answers; nothing where it does not."""
    with contextlib.suppress(EOFError, OSError):
        channel.send(None)
        if channel.poll(ANSWER_S):
            calls: Calls = channel.recv()
            return calls
    return {}


def recorded(backend: str) -> Calls:
    """The last collectives of this process, but no messages: each pair numbers its own."""
    dump = getattr(c10d, f"_dump_{'nccl' if backend == 'nccl' else 'fr'}_trace_json", None)
    calls: Calls = {}
    with contextlib.suppress(Exception):  # private to torch: any version may answer otherwise
        for entry in json.loads(dump(True, False))["entries"] if dump else ():
            if not entry["is_p2p"]:
                number = entry["process_group"][0], entry["collective_seq_id"]
                calls[number] = entry["profiling_name"].partition(":")[2]
    return calls


class NcclLog:
    """Of this process, from before it has a communicator; a file that exists in memory only."""

    def __init__(self) -> None:
        self._file = os.memfd_create("hostbench-nccl")
        os.environ["NCCL_DEBUG"], os.environ["NCCL_DEBUG_SUBSYS"] = "INFO", "TUNING"
        os.environ["NCCL_DEBUG_FILE"] = f"/proc/self/fd/{self._file}"

    def __len__(self) -> int:
        return os.fstat(self._file).st_size

    def choices(self, start: int = 0) -> str | None:
        """`RING LL`, algorithm and protocol, of the collectives that were logged from this byte on,
        each once; None where none was."""
        return choices(os.pread(self._file, len(self), start).decode(errors="replace"))


def choices(text: str) -> str | None:
    """From lines such as `AllReduce: 4096 Bytes -> Algo RING proto LL`; older NCCLs have numbers,
    which are left as they are."""
    return ", ".join(dict.fromkeys(map(" ".join, _CHOICE.findall(text)))) or None
