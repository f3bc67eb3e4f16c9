"""What torch's flight recorder has of a process's collectives, also of those inside DDP: a thread
answers while the main one hangs.

gloo records since torch 2.8; nccl as well, but not by default in older ones.
"""

import contextlib
import json
import os
from multiprocessing.connection import Connection
from threading import Thread

from torch._C import _distributed_c10d as c10d

from hostbench.core.processes import ANSWER_S

Calls = dict[tuple[str, int], str]
"""Name of a process group, and number of a collective in it -> operation; the last one last."""
NUM_CALLS = 100  # that are held: writing out torch's 2,000 takes 0.1 s


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
    """The last collectives of this process. Messages are left out: each pair of ranks numbers its
    own."""
    dump = getattr(c10d, f"_dump_{'nccl' if backend == 'nccl' else 'fr'}_trace_json", None)
    calls: Calls = {}
    with contextlib.suppress(Exception):  # private to torch: any version may answer otherwise
        for entry in json.loads(dump(True, False))["entries"] if dump else ():
            if not entry["is_p2p"]:
                number = entry["process_group"][0], entry["collective_seq_id"]
                calls[number] = entry["profiling_name"].partition(":")[2]
    return calls
