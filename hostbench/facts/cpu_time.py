"""CPU time in ticks of the kernel: the machine's, ours, and what others took."""

import os
from collections.abc import Iterator
from pathlib import Path

from hostbench.facts.files import entries, read_text
from hostbench.facts.record import Fact, Facts, Group, known, number_of, unknown

OWN = "own_cpu_total_ticks"
_UTIME, _CTIME_END, _PARENT = 11, 15, 1
"""Places in /proc/<pid>/stat after the name: utime, stime, cutime, cstime are 11 to 14."""


def cpu_counters(root: Path, pid: int | None = None) -> Group:
    """Counters whose growth over a run tells what others took."""
    line = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    ticks = [int(word) for word in line[1:9] if word.isdigit()] if line[:1] == ["cpu"] else []
    if len(ticks) < 8 or not sum(ticks):
        names = ("cpu_steal_total_ticks", "cpu_busy_total_ticks", "cpu_total_ticks", OWN)
        return dict.fromkeys(("steal_share_since_boot", *names), unknown("no /proc/stat"))
    total, idle, steal = sum(ticks), ticks[3] + ticks[4], ticks[7]
    own = _own_ticks(root, os.getpid() if pid is None else pid)
    return {
        "steal_share_since_boot": known(steal / total),
        "cpu_steal_total_ticks": known(steal),
        "cpu_busy_total_ticks": known(total - idle - steal),
        "cpu_total_ticks": known(total),
        OWN: unknown("/proc does not show this process") if own is None else known(own),
    }


def cpu_shares(deltas: Facts) -> Group:
    """What others took while we measured, as shares of the whole machine's CPU time.

    `deltas` are `counter_deltas` of two readings. Inside a container /proc/stat is most often the
    whole host's, and its other tenants count as foreign.
    """
    total = number_of(deltas, "host", "cpu_total_ticks")
    steal = number_of(deltas, "host", "cpu_steal_total_ticks")
    busy, own = (number_of(deltas, "host", name) for name in ("cpu_busy_total_ticks", OWN))
    if not total:
        reason = unknown("the CPU counters did not move, or cannot be read")
        return {"steal_share": reason, "foreign_cpu_share": reason}
    return {
        "steal_share": _share(steal, total),
        "foreign_cpu_share": _share(None if busy is None or own is None else busy - own, total),
    }


def _share(part: float | None, total: float) -> Fact:
    """At least 0: the kernel counts a process's time finer than a CPU's."""
    return unknown("not read") if part is None else known(round(max(0.0, part) / total, 6))


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
    found, queue = 0, [pid]
    while queue:
        each = queue.pop()
        found += ticks.get(each, 0)
        queue += children.pop(each, [])
    return found


def _processes(root: Path) -> Iterator[tuple[int, int, int]]:
    """(pid, parent, ticks) of every process that /proc shows."""
    for path in entries(root / "proc", "[0-9]*"):
        words = (read_text(path / "stat") or "").rpartition(")")[2].split()
        try:
            spent = sum(map(int, words[_UTIME:_CTIME_END]))
            yield int(path.name), int(words[_PARENT]), spent
        except (ValueError, IndexError):
            continue  # it has just ended
