"""Facts about the host, from /proc and /sys. Never its name, serial numbers or a user's paths."""

import platform
from pathlib import Path

from hostbench.facts import cgroup
from hostbench.facts.cpu_time import cpu_counters
from hostbench.facts.files import count_list, entries, read_fields, read_int, read_text
from hostbench.facts.kernel import kernel_facts
from hostbench.facts.record import Fact, Group, Value, known, unknown
from hostbench.facts.virtual import container, hypervisor, virtualized

_ARM_CORES = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2"} | {
    "0xd4f": "Neoverse-V2",
    "0xd84": "Neoverse-V3",
}


def host_facts(root: Path = Path("/")) -> Group:
    """Everything that is known of the host; `root` stands in for / in tests."""
    return {
        "os": known(platform.system() or "unknown"),
        "arch": known(platform.machine() or "unknown"),
        "kernel": _fact(read_text(root / "proc/sys/kernel/osrelease"), "no /proc"),
        **_cpu(root),
        **_memory(root),
        **_policy(root),
        "virtualized": virtualized(root),
        "hypervisor": hypervisor(root),
        "container": container(root),
        **kernel_facts(root),
        "load_average_1min": _load_average(root),
        **cpu_counters(root),
    }


def _fact(value: Value, why: str) -> Fact:
    return unknown(why) if value is None else known(value)


def _cpu(root: Path) -> Group:
    online = read_text(root / "sys/devices/system/cpu/online")
    allowed = read_fields(root / "proc/self/status").get("Cpus_allowed_list")
    num_online = count_list(online) if online else None
    num_allowed = count_list(allowed) if allowed else None
    quota = cgroup.cpu_quota_cores(root)
    usable = cgroup.usable_cores(num_allowed, quota)
    nodes = len(entries(root / "sys/devices/system/node", "node[0-9]*"))
    return {
        "cpu_model": _fact(_cpu_model(root), "/proc/cpuinfo names no model"),
        "num_logical_cores": _fact(num_online, "the kernel does not list its cores"),
        "num_usable_cores": _fact(usable, "neither affinity nor quota can be read"),
        "cpu_quota_cores": _fact(quota, "no cgroup CPU quota is set"),
        "num_numa_nodes": _fact(nodes or None, "the kernel shows no NUMA nodes"),
    }


def _cpu_model(root: Path) -> str | None:
    fields = read_fields(root / "proc/cpuinfo")
    part = fields.get("CPU part")
    named = fields.get("model name") or fields.get("cpu model") or fields.get("Model")
    if named or part is None:
        return named
    return _ARM_CORES.get(part, f"ARM {fields.get('CPU implementer', '')} {part}")


def _memory(root: Path) -> Group:
    words = read_fields(root / "proc/meminfo").get("MemTotal", "").split()
    total = int(words[0]) * 1024 if words and words[0].isdigit() else None
    pages = read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")
    chosen = pages.partition("[")[2].partition("]")[0] if pages else ""
    return {
        "memory_bytes": _fact(total, "/proc/meminfo has no MemTotal"),
        "memory_limit_bytes": _fact(cgroup.memory_limit_bytes(root), "no cgroup limit is set"),
        "transparent_huge_pages": _fact(chosen or None, "the kernel has none"),
    }


def _policy(root: Path) -> Group:
    cpus = root / "sys/devices/system/cpu"
    found = {read_text(path) for path in entries(cpus, "cpu[0-9]*/cpufreq/scaling_governor")}
    governors = sorted(name for name in found if name)
    hidden = "no cpufreq: the hypervisor or the firmware sets the clocks"
    return {
        "cpu_governor": _fact(",".join(governors) or None, hidden),
        "cpu_boost": _fact(_boost(cpus), hidden),
    }


def _boost(cpus: Path) -> bool | None:
    no_turbo = read_int(cpus / "intel_pstate/no_turbo")
    if no_turbo is not None:
        return no_turbo == 0
    boost = read_int(cpus / "cpufreq/boost")
    return None if boost is None else boost == 1


def _load_average(root: Path) -> Fact:
    try:
        return known(float((read_text(root / "proc/loadavg") or "").split()[0]))
    except (IndexError, ValueError):
        return unknown("no /proc/loadavg")
