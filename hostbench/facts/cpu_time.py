"""CPU time in ticks of the kernel: the machine's, ours, and what others took."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hostbench.facts.files import entries, read_text
from hostbench.facts.record import Fact, Group, known, unknown

_UTIME, _CTIME_END, _PARENT = 11, 15, 1
"""Places in /proc/<pid>/stat after the name: utime, stime, cutime, cstime are 11 to 14."""


class CpuTicks(NamedTuple):
    """Since boot."""

    total: int
    busy: int
    steal: int
    """That the hypervisor took."""
    own: int | None
    """Of one process and all its descendants; None where /proc does not show them."""


def cpu_ticks(root: Path, pid: int | None = None) -> CpuTicks | None:
    """Now; None where the kernel does not say. `pid`: whose own time, this process's without."""
    line = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    ticks = [int(word) for word in line[1:9] if word.isdigit()] if line[:1] == ["cpu"] else []
    if len(ticks) < 8 or not sum(ticks):
        return None
    total, idle, steal = sum(ticks), ticks[3] + ticks[4], ticks[7]
    own = _own_ticks(root, os.getpid() if pid is None else pid)
    return CpuTicks(total, total - idle - steal, steal, own)


def steal_share_since_boot(root: Path) -> float | None:
    ticks = cpu_ticks(root)
    return None if ticks is None else ticks.steal / ticks.total


def cpu_shares(began: CpuTicks | None, ended: CpuTicks | None) -> Group:
    """What others took in between, as shares of the whole machine's CPU time.

    Inside a container /proc/stat is most often the whole host's, and its other tenants count as
    foreign.
    """
    if began is None or ended is None or ended.total <= began.total:
        reason = unknown("the CPU counters did not move, or cannot be read")
        return {"steal_share": reason, "foreign_cpu_share": reason}
    total = ended.total - began.total
    foreign = unknown("/proc does not show this process")
    if began.own is not None and ended.own is not None:
        foreign = _share(ended.busy - began.busy - (ended.own - began.own), total)
    return {"steal_share": _share(ended.steal - began.steal, total), "foreign_cpu_share": foreign}


def _share(part: int, total: int) -> Fact:
    """At least 0: the kernel counts a process's time finer than a CPU's."""
    return known(round(max(0, part) / total, 6))


def _own_ticks(root: Path, pid: int) -> int | None:
    """Of this process and all that descend from it: the living, and the dead that were waited for.

    A process that ends is in its parent's sum as soon as it is waited for, so this only grows.
    """
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for number, parent, spent in _processes(root):
        ticks[number] = spent
        children.setdefault(parent, []).append(number)
    if pid not in ticks:
        return None
    total, queue = 0, [pid]
    while queue:
        child = queue.pop()
        total += ticks.get(child, 0)
        queue += children.pop(child, [])
    return total


def _processes(root: Path) -> Iterator[tuple[int, int, int]]:
    """(pid, parent, ticks) of every process that /proc shows."""
    for path in entries(root / "proc", "[0-9]*"):
        words = (read_text(path / "stat") or "").rpartition(")")[2].split()
        try:
            spent = sum(map(int, words[_UTIME:_CTIME_END]))
            yield int(path.name), int(words[_PARENT]), spent
        except (ValueError, IndexError):
            continue  # it has just ended
