"""One nightly at a time on a machine: two would measure each other."""

import hashlib
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from hostbench.core.errors import NothingMeasured


@contextmanager
def only_one(what: str) -> Iterator[None]:
    """Hold the lock of that name until the block ends, whoever's process it is; the kernel gives it
    up with the process, so that none is ever left behind. Containers with a network of their own
    do not see each other's.

    Raises NothingMeasured, which names the process that holds it.
    """
    address = f"\0hostbench-{hashlib.sha256(what.encode()).hexdigest()[:32]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(address)
        except OSError as error:
            raise NothingMeasured(
                f"another nightly measures {what}{_holder(address)}: let it end, or end it; this "
                "one has measured nothing"
            ) from error
        lock.listen(8)
        yield


def _holder(address: str) -> str:
    """` (process 4711)`; empty where it has ended meanwhile."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(address)
            credentials = asking.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
            )
        except OSError:
            return ""
        return f" (process {struct.unpack('3i', credentials)[0]})"
