"""Readers of facts about the host, from /proc and /sys below a root; None where it does not say.

Which fact each is for, and the reason where there is none, stands in `spec`. Never the host's name,
serial numbers or a user's paths.
"""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from hostbench.facts.record import Fact, Group, known, unknown

_ARM_CORES = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2"} | {
    "0xd4f": "Neoverse-V2",
    "0xd84": "Neoverse-V3",
}
KERNEL_PARAMETERS = frozenset(
    "iommu iommu.passthrough iommu.strict intel_iommu amd_iommu mitigations pcie_aspm pci "
    "numa_balancing numa idle processor.max_cstate intel_idle.max_cstate intel_pstate amd_pstate "
    "nosmt nohz nohz_full isolcpus rcu_nocbs transparent_hugepage hugepages default_hugepagesz mem "
    "clocksource init_on_alloc preempt".split()
)
"""What is told of the command line, where they are in it, and nothing else."""
_CONTAINERS = {"kubepods": "kubernetes", "docker": "docker", "containerd": "containerd"} | {
    "libpod": "podman",
    "lxc": "lxc",
}
"""By a word in the first process's cgroup."""
_NO_LIMIT_BYTES = 1 << 60
"""cgroup v1 says "no limit" with a huge number of bytes."""
CPUS = "sys/devices/system/cpu"
HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"


# ---- files --------------------------------------------------------------------------------------


def read_text(path: Path) -> str | None:
    """Stripped content, or None where the file is missing, empty or not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n\t ") or None
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """A file that holds one integer."""
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None


def read_fields(path: Path) -> dict[str, str]:
    """`name: value` lines; the first line of a name counts."""
    fields: dict[str, str] = {}
    for line in (read_text(path) or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def listed(text: str | None) -> set[int]:
    """The numbers that a kernel list such as `0-3,8` names; empty where it is not one."""
    numbers: set[int] = set()
    for part in filter(None, (text or "").strip().split(",")):
        first, _, last = part.partition("-")
        try:
            numbers.update(range(int(first), int(last or first) + 1))
        except ValueError:
            return set()
    return numbers


def entries(path: Path, pattern: str) -> list[Path]:
    """Sorted matches below a directory; none where it cannot be read."""
    try:
        return sorted(path.glob(pattern))
    except OSError:
        return []


def flag(path: str) -> Callable[[Path], bool | None]:
    """Of a file that holds a number whether it is not 0."""

    def read(root: Path) -> bool | None:
        number = read_int(root / path)
        return None if number is None else number != 0

    return read


def chosen(path: str) -> Callable[[Path], str | None]:
    """Of a file such as `always [madvise] never` the word in brackets."""
    return lambda root: (read_text(root / path) or "").partition("[")[2].partition("]")[0] or None


# ---- CPUs and memory ----------------------------------------------------------------------------


def cpu_model(root: Path) -> str | None:
    fields = read_fields(root / "proc/cpuinfo")
    part = fields.get("CPU part")
    named = fields.get("model name") or fields.get("cpu model") or fields.get("Model")
    if named or part is None:
        return named
    return _ARM_CORES.get(part, f"ARM {fields.get('CPU implementer', '')} {part}")


def num_online(root: Path) -> int | None:
    return len(listed(read_text(root / CPUS / "online"))) or None


def num_usable(root: Path) -> int | None:
    allowed = listed(read_fields(root / "proc/self/status").get("Cpus_allowed_list"))
    return usable_cores(len(allowed), root)


def usable_cores(num_allowed: int, root: Path = Path("/")) -> int | None:
    """Of so many cores by affinity (0: not known) those that this process may use at once by its
    quota; a fraction of a core counts as one."""
    quota = cpu_quota_cores(root)
    limits = [num_allowed or None, None if quota is None else max(1, math.ceil(quota))]
    return min((limit for limit in limits if limit is not None), default=None)


def memory_bytes(root: Path) -> int | None:
    words = read_fields(root / "proc/meminfo").get("MemTotal", "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def cpu_quota_cores(root: Path) -> float | None:
    """The tightest CPU quota in cores over this process's cgroup and its parents, or None."""
    quotas = []
    for folder in _cgroups(root, ""):
        quota, _, period = (read_text(folder / "cpu.max") or "").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) / int(period))
    for folder in _cgroups(root, "cpu"):
        quota_us, period_us = (read_int(folder / f"cpu.cfs_{of}_us") for of in ("quota", "period"))
        if quota_us and period_us and quota_us > 0:
            quotas.append(quota_us / period_us)
    return min(quotas, default=None)


def memory_limit_bytes(root: Path) -> int | None:
    """The tightest memory limit over this process's cgroup and its parents, or None."""
    limits = [read_int(folder / "memory.max") for folder in _cgroups(root, "")]
    limits += [read_int(folder / "memory.limit_in_bytes") for folder in _cgroups(root, "memory")]
    return min((limit for limit in limits if limit and limit < _NO_LIMIT_BYTES), default=None)


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """This process's folder of a v1 controller (or of v2, for ""), and its parents.

    Inside a container the path in /proc often does not exist below the mount: the mount itself
    is then the container's own folder.
    """
    inner = Path()
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controller in controllers.split(","):
            inner = Path(path.strip("/"))
            break
    for part in (inner, *inner.parents):
        if ".." not in part.parts:
            yield root / "sys/fs/cgroup" / controller / part


# ---- settings -----------------------------------------------------------------------------------


def governors(root: Path) -> str | None:
    cores = entries(root / CPUS, "cpu[0-9]*/cpufreq/scaling_governor")
    return ",".join(sorted({name for path in cores if (name := read_text(path))})) or None


def boost(root: Path) -> bool | None:
    no_turbo = read_int(root / CPUS / "intel_pstate/no_turbo")
    return flag(f"{CPUS}/cpufreq/boost")(root) if no_turbo is None else no_turbo == 0


def load_average(root: Path) -> float | None:
    try:
        return float((read_text(root / "proc/loadavg") or "").split()[0])
    except (IndexError, ValueError):
        return None


def kernel_flags(root: Path) -> str | None:
    line = read_text(root / "proc/cmdline")
    if line is None:
        return None
    flags = [word for word in line.split() if word.partition("=")[0] in KERNEL_PARAMETERS]
    return ",".join(dict.fromkeys(flags)) or "none known"


def virtualized(root: Path) -> bool | None:
    """Only x86 tells it of its CPU."""
    flags = read_fields(root / "proc/cpuinfo").get("flags")
    return None if flags is None else "hypervisor" in flags.split()


def container(root: Path) -> str:
    """The container's kind, or "none seen"."""
    if (root / "var/run/secrets/kubernetes.io").exists():
        return "kubernetes"
    if (root / "run/.containerenv").exists():
        return "podman"
    cgroups = read_text(root / "proc/1/cgroup") or ""
    kinds = [kind for hint, kind in _CONTAINERS.items() if hint in cgroups]
    return kinds[0] if kinds else "docker" if (root / ".dockerenv").exists() else "none seen"


# ---- whose CPU time it was ----------------------------------------------------------------------


class CpuTicks(NamedTuple):
    """In ticks of the kernel, since boot."""

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


def steal_share(root: Path) -> float | None:
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

    def share(ticks: int) -> Fact:
        """At least 0: the kernel counts a process's time finer than a CPU's."""
        return known(round(max(0, ticks) / total, 6))

    foreign = unknown("/proc does not show this process")
    if began.own is not None and ended.own is not None:
        foreign = share(ended.busy - began.busy - (ended.own - began.own))
    return {"steal_share": share(ended.steal - began.steal), "foreign_cpu_share": foreign}


def _own_ticks(root: Path, pid: int) -> int | None:
    """Of this process and all that descend from it: the living, and the dead that were waited for.

    A process that ends is in its parent's sum as soon as it is waited for, so this only grows.
    """
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for path in entries(root / "proc", "[0-9]*"):
        words = (read_text(path / "stat") or "").rpartition(")")[2].split()
        try:
            number, parent = int(path.name), int(words[1])
            ticks[number] = sum(map(int, words[11:15]))  # utime, stime, cutime, cstime
        except (ValueError, IndexError):
            continue  # it has just ended
        children.setdefault(parent, []).append(number)
    if pid not in ticks:
        return None
    total, queue = 0, [pid]
    while queue:
        child = queue.pop()
        total += ticks.get(child, 0)
        queue += children.pop(child, [])
    return total
