"""The process group that this process belongs to. Knows no torch until a rank joins one."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostbench.ranks.group import TorchGroup

_JOINED: list["TorchGroup"] = []


def join(group: "TorchGroup") -> None:
    """Make `group` this process's group."""
    _JOINED[:] = [group]


def current() -> "TorchGroup":
    """This process's group. Raises RuntimeError outside a rank."""
    if not _JOINED:
        raise RuntimeError("this process is no rank; declare `ranks` in @workload")
    return _JOINED[0]
