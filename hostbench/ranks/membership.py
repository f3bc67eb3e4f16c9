"""The process group that this process belongs to, as a workload sees it. Knows no torch."""

from typing import Protocol

from hostbench.device.base import Buffer


class Group(Protocol):
    """One rank's end of a process group. Buffers are float32, on the rank's own device."""

    rank: int
    num_ranks: int

    def fill_share(self, buffer: Buffer) -> None:
        """Write what this rank contributes: whole numbers that depend on rank and position."""

    def wrong_sum(self, buffer: Buffer) -> str | None:
        """What is wrong with the sum of all shares in `buffer`; None when each element is exact."""

    def all_reduce(self, buffer: Buffer) -> None:
        """Replace `buffer` by the sum over ranks, in place. May return before it is there."""

    def barrier(self) -> None:
        """Wait for the own device, then for every rank."""

    def synchronize(self) -> None:
        """Block until the collectives called so far have finished."""


_JOINED: list[Group] = []


def join(group: Group) -> None:
    """Make `group` this process's group."""
    _JOINED[:] = [group]


def current() -> Group:
    """This process's group. Raises RuntimeError outside a rank."""
    if not _JOINED:
        raise RuntimeError("this process is no rank; declare `ranks` in @workload")
    return _JOINED[0]
