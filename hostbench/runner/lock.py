"""One nightly at a time on a machine: two would measure each other."""

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from hostbench.core.errors import NothingMeasured


@contextmanager
def only_one(what: str) -> Iterator[None]:
    """Hold the lock of that name until the block ends, whoever's process it is; the kernel gives it
    up with the process, so that none is ever left behind. Containers with a network of their own
    do not see each other's.

    Raises NothingMeasured.
    """
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
