"""Readers of facts about the host, from /proc and /sys below a root; None where it does not say.

Which fact each is for, and the reason where there is none, stands in `spec`. Never the host's name,
serial numbers or a user's paths.
"""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hostbench.core.processes import with_descendants
from hostbench.core.units import KIB
from hostbench.facts.record import Group, Unknown

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
CPUS = "sys/devices/system/cpu"


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
    pairs = [line.partition(":") for line in (read_text(path) or "").splitlines()]
    return {name.strip(): value.strip() for name, colon, value in reversed(pairs) if colon}


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


def usable_cores(num_allowed: int, root: Path = Path("/")) -> int:
    """Of so many cores by affinity those that the CPU quotas of this process's cgroups (v1 and v2)
    and of their parents let it use; 1 at least."""
    for line in (read_text(root / "proc/self/cgroup") or "0::/").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")  # no controllers: v2
        if controllers and "cpu" not in controllers.split(","):
            continue
        inner = Path(path.strip("/"))
        # Inside a container this path often does not exist: the mount itself is its folder.
        for folder in (inner, *inner.parents):
            if controllers:
                v1 = root / "sys/fs/cgroup/cpu" / folder
                limit = " ".join(
                    read_text(v1 / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                )
            else:
                limit = read_text(root / "sys/fs/cgroup" / folder / "cpu.max") or ""
            quota, _, period = limit.partition(" ")
            if ".." not in folder.parts and quota.isdigit() and period.isdigit() and int(period):
                num_allowed = min(num_allowed, max(1, math.ceil(int(quota) / int(period))))
    return num_allowed


def cache_bytes(root: Path) -> int | None:
    """Of the last-level cache, of which others may have a part."""
    sizes = [read_text(path) or "" for path in (root / CPUS).glob("cpu0/cache/index*/size")]
    return max((int(size[:-1]) * KIB for size in sizes if size[-1:] == "K"), default=None)


# ---- settings -----------------------------------------------------------------------------------


def governors(root: Path) -> str | None:
    cores = (root / CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor")
    return ",".join(sorted({name for path in cores if (name := read_text(path))})) or None


def boost(root: Path) -> bool | None:
    no_turbo = read_int(root / CPUS / "intel_pstate/no_turbo")
    return flag(f"{CPUS}/cpufreq/boost")(root) if no_turbo is None else no_turbo == 0


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
    """The container's kind, by what it mounts."""
    signs = {
        "kubernetes": "var/run/secrets/kubernetes.io",
        "podman": "run/.containerenv",
        "docker": ".dockerenv",
    }
    return next((kind for kind, path in signs.items() if (root / path).exists()), "none seen")


# ---- whose CPU time it was ----------------------------------------------------------------------


class CpuTicks(NamedTuple):
    """In ticks of the kernel, since boot."""

    total: int
    busy: int
    steal: int
    """That the hypervisor took."""
    own: int
    """Of one process and all its descendants, the dead that were waited for included."""


def cpu_ticks(pid: int | None = None, root: Path = Path("/")) -> CpuTicks | None:
    """Now; None where the kernel does not say. `pid`: whose own time, this process's without."""
    line = (read_text(root / "proc/stat") or "").partition("\n")[0].split()
    ticks = [int(word) for word in line[1:9] if word.isdigit()] if line[:1] == ["cpu"] else []
    if len(ticks) < 8 or not sum(ticks):
        return None
    total, idle, steal = sum(ticks), ticks[3] + ticks[4], ticks[7]
    own = 0
    for process in with_descendants({pid or os.getpid()}):
        words = (read_text(root / f"proc/{process}/stat") or "").rpartition(")")[2].split()
        own += sum(map(int, words[11:15]))  # utime, stime, cutime, cstime; none if it just ended
    return CpuTicks(total, total - idle - steal, steal, own)


def cpu_shares(began: CpuTicks | None, ended: CpuTicks | None) -> Group:
    """What others took in between, as shares of the whole machine's CPU time: also the other
    tenants of a container's host, whose /proc/stat it mostly sees."""
    if began is None or ended is None or ended.total <= began.total:
        reason = Unknown("the CPU counters did not move, or cannot be read")
        return {"steal_share": reason, "foreign_cpu_share": reason}
    total, busy, steal, own = (new - old for old, new in zip(began, ended, strict=True))
    shares = {"steal_share": steal / total, "foreign_cpu_share": (busy - own) / total}
    # at least 0: the kernel counts a process's time finer than a CPU's
    return {name: round(max(0.0, share), 6) for name, share in shares.items()}
