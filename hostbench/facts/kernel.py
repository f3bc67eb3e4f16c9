"""How the kernel is set up where that changes a transfer: pages, swap, clocks, chosen flags."""

from pathlib import Path

from hostbench.facts.files import read_fields, read_int, read_text
from hostbench.facts.record import Fact, Group, Value, known, unknown

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


def kernel_facts(root: Path) -> Group:
    return {**_pages(root), **_switches(root), "kernel_flags": _flags(root)}


def _pages(root: Path) -> Group:
    memory = read_fields(root / "proc/meminfo")
    total, free = (_kib(memory, f"Swap{name}") for name in ("Total", "Free"))
    used = None if total is None or free is None else total - free
    none = "/proc/meminfo does not say"
    return {
        "num_huge_pages": _fact(_int(memory, "HugePages_Total"), "the kernel has none"),
        "num_huge_pages_free": _fact(_int(memory, "HugePages_Free"), "the kernel has none"),
        "huge_page_bytes": _fact(_kib(memory, "Hugepagesize"), "the kernel has none"),
        "swap_bytes": _fact(total, none),
        "swap_used_bytes": _fact(used, none),
    }


def _switches(root: Path) -> Group:
    aspm = read_text(root / "sys/module/pcie_aspm/parameters/policy") or ""
    chosen = aspm.partition("[")[2].partition("]")[0]
    balancing = read_int(root / "proc/sys/kernel/numa_balancing")
    smt = read_int(root / "sys/devices/system/cpu/smt/active")
    clock = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    return {
        "numa_balancing": _fact(
            None if balancing is None else balancing != 0, "not in this kernel"
        ),
        "smt": _fact(None if smt is None else smt == 1, "the kernel does not say"),
        "clocksource": _fact(read_text(clock), "the kernel does not say"),
        "pcie_aspm_policy": _fact(chosen or None, "the kernel does not say"),
    }


def _flags(root: Path) -> Fact:
    line = read_text(root / "proc/cmdline")
    if line is None:
        return unknown("the kernel's command line cannot be read")
    found = []
    for word in line.split():
        name = word.partition("=")[0]
        if word in KNOWN_FLAGS:
            found.append(word)
        elif name in _NAMES_ALONE:
            found.append(name)
    return known(",".join(dict.fromkeys(found)) or "none known")


def _int(fields: dict[str, str], name: str) -> int | None:
    text = fields.get(name, "")
    return int(text) if text.isdigit() else None


def _kib(fields: dict[str, str], name: str) -> int | None:
    words = fields.get(name, "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def _fact(value: Value, why: str) -> Fact:
    return unknown(why) if value is None else known(value)
