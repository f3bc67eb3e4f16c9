"""Readers of facts about the host, from /proc and /sys below a root; None where it does not say.

Which fact each is for, and the reason where there is none, stands in `spec`. Never the host's name,
serial numbers or a user's paths.
"""

from pathlib import Path

from hostbench.facts import cgroup
from hostbench.facts.files import entries, listed, read_fields, read_int, read_text

_ARM_CORES = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2"} | {
    "0xd4f": "Neoverse-V2",
    "0xd84": "Neoverse-V3",
}

KNOWN_FLAGS = (
    frozenset({"iommu=pt", "iommu=off", "iommu=on", "iommu=force", "iommu=soft"})
    | {"iommu.passthrough=1", "iommu.passthrough=0", "iommu.strict=0", "iommu.strict=1"}
    | {"intel_iommu=on", "intel_iommu=off", "amd_iommu=on", "amd_iommu=off"}
    | {"mitigations=off", "mitigations=auto", "pcie_aspm=off", "pcie_aspm=force", "pci=noaer"}
    | {"pci=noacs", "pci=nommconf", "numa_balancing=disable", "numa_balancing=enable", "numa=off"}
    | {"idle=poll", "processor.max_cstate=1", "intel_idle.max_cstate=0", "nosmt", "nohz=off"}
    | {"transparent_hugepage=always", "transparent_hugepage=never", "clocksource=tsc"}
    | {"transparent_hugepage=madvise", "intel_pstate=disable", "amd_pstate=active"}
    | {"init_on_alloc=1", "init_on_alloc=0", "preempt=full", "preempt=none", "preempt=voluntary"}
)
"""What is told of the command line: these words where they are in it, and nothing else."""
_NAMES_ALONE = ("isolcpus", "nohz_full", "rcu_nocbs", "hugepages", "default_hugepagesz", "mem")
"""Of these only that they are set."""

_CGROUP_HINTS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("libpod", "podman"),
    ("lxc", "lxc"),
)


def cpu_model(root: Path) -> str | None:
    fields = read_fields(root / "proc/cpuinfo")
    part = fields.get("CPU part")
    named = fields.get("model name") or fields.get("cpu model") or fields.get("Model")
    if named or part is None:
        return named
    return _ARM_CORES.get(part, f"ARM {fields.get('CPU implementer', '')} {part}")


def num_online(root: Path) -> int | None:
    return len(listed(read_text(root / "sys/devices/system/cpu/online"))) or None


def num_usable(root: Path) -> int | None:
    """By affinity and quota; a fraction of a core counts as one."""
    allowed = listed(read_fields(root / "proc/self/status").get("Cpus_allowed_list"))
    return cgroup.usable_cores(len(allowed) or None, cgroup.cpu_quota_cores(root))


def memory_bytes(root: Path) -> int | None:
    words = read_fields(root / "proc/meminfo").get("MemTotal", "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def chosen(path: Path) -> str | None:
    """Of a file such as `always [madvise] never` the word in brackets."""
    return (read_text(path) or "").partition("[")[2].partition("]")[0] or None


def flag(path: Path) -> bool | None:
    """Of a file that holds a number whether it is not 0."""
    number = read_int(path)
    return None if number is None else number != 0


def governors(root: Path) -> str | None:
    cores = entries(root / "sys/devices/system/cpu", "cpu[0-9]*/cpufreq/scaling_governor")
    return ",".join(sorted({name for path in cores if (name := read_text(path))})) or None


def boost(root: Path) -> bool | None:
    cpus = root / "sys/devices/system/cpu"
    no_turbo = read_int(cpus / "intel_pstate/no_turbo")
    return flag(cpus / "cpufreq/boost") if no_turbo is None else no_turbo == 0


def load_average(root: Path) -> float | None:
    try:
        return float((read_text(root / "proc/loadavg") or "").split()[0])
    except (IndexError, ValueError):
        return None


def kernel_flags(root: Path) -> str | None:
    line = read_text(root / "proc/cmdline")
    if line is None:
        return None
    flags = []
    for word in line.split():
        name = word.partition("=")[0]
        if word in KNOWN_FLAGS:
            flags.append(word)
        elif name in _NAMES_ALONE:
            flags.append(name)
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
    for hint, word in _CGROUP_HINTS:
        if hint in cgroups:
            return word
    return "docker" if (root / ".dockerenv").exists() else "none seen"
