"""Records of facts; facts of a host, read from a tree that is made here; whose CPU time it was."""

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from msgspec import convert, to_builtins

from hostbench.facts import collect, spec
from hostbench.facts.host import CpuTicks, cpu_shares, cpu_ticks
from hostbench.facts.record import Facts, Group, value_of
from tests.fakes.fake_nvml import FakeNvml, machine
from tests.scratch import put

EPYC = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\nflags\t: fpu\n",
    "proc/stat": "cpu  100 0 50 800 30 0 10 10 0 0\ncpu0 1 2 3\n",
    "proc/self/cgroup": "0::/user.slice/box\n",
    "proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "32K\n",
    "sys/devices/system/cpu/cpu0/cache/index3/size": "32768K\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/module/pcie_aspm/parameters/policy": "[default] performance powersave\n",
    "proc/cmdline": "root=UUID=secret ro iommu=pt isolcpus=4-7 mitigations=off host=lab\n",
    "proc/sys/kernel/numa_balancing": "0\n",
}
GROUPS = {group: [row.name for row in spec.rows_of(group)] for group in get_args(spec.FactGroup)}


def tree(root: Path, **changes: str) -> Path:
    for name, text in {**EPYC, **changes}.items():
        put(root / name, text)
    return root


def host(root: Path) -> Group:
    return collect(root, FakeNvml())["host"]


def test_every_row_is_collected_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {"NCCL_ALGO": "Ring"})
    facts = collect(tree(tmp_path), FakeNvml())
    assert list(facts) == ["host", "software", "nvml", "gpu0"]
    assert convert(to_builtins(facts), Facts) == facts
    for group, names in GROUPS.items():
        collected = {
            name.replace("env_NCCL_ALGO", "env_*") for name in facts[group.replace("gpu", "gpu0")]
        }
        assert collected | {"foreign_cpu_share", "steal_share"} >= set(names) >= collected
        assert len(names) == len(set(names))


def test_a_host_is_read_from_proc_and_sys(tmp_path: Path) -> None:
    values = host(tree(tmp_path))
    expected = {
        "kernel": "6.8.0-60-generic",
        "cpu_model": "AMD EPYC 9654 96-Core Processor",
        "num_logical_cores": os.cpu_count(),
        "num_usable_cores": len(os.sched_getaffinity(0)),
        "transparent_huge_pages": "madvise",
        "cpu_governor": "performance,powersave",
        "cpu_boost": True,
        "cache_bytes": 32 << 20,
        "virtualized": False,
        "container": "none seen",
        "numa_balancing": False,
        "smt": True,
        "pcie_aspm_policy": "default",
        "kernel_flags": "iommu=pt,isolcpus=4-7,mitigations=off",
    }
    assert values | expected == values
    assert values["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"sys/fs/cgroup/user.slice/box/cpu.max": "150000 100000"}, "num_usable_cores", 2),
        (
            {
                "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box/inner\n0::/box\n",
                "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "300000",
                "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
            },
            "num_usable_cores",
            3,
        ),
        (
            {"proc/self/cgroup": "0::/../../other\n", "sys/fs/cgroup/cpu.max": "1 0"},
            "num_usable_cores",
            5,
        ),
        ({"proc/cpuinfo": "flags : fpu hypervisor\n"}, "virtualized", True),
        ({"proc/cpuinfo": "CPU part\t: 0xd4f\n"}, "virtualized", None),
        ({"proc/cpuinfo": "CPU part\t: 0xd4f\n"}, "cpu_model", "Neoverse-V2"),
        ({".dockerenv": ""}, "container", "docker"),
    ],
)
def test_quotas_virtual_machines_and_containers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    name: str,
    value: object,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)))
    assert value_of({"host": host(tree(tmp_path, **changes))}, "host", name) == value


def test_without_nvml_the_gpus_keep_their_names(tmp_path: Path) -> None:
    information = "Model: \t\t NVIDIA H200\nGPU UUID: GPU-secret\n"
    root = tree(tmp_path, **{"proc/driver/nvidia/gpus/0000:18:00.0/information": information})
    facts = collect(root, machine("library_missing"))
    assert facts["gpu0"]["name"] == "NVIDIA H200"
    assert "libnvidia-ml" in str(facts["gpu0"]["pcie_width"])
    assert "secret" not in str(facts)


# whose CPU time it was: the machine's, our processes', or others'


def test_what_others_took() -> None:
    before = CpuTicks(total=1000, busy=100, steal=0, own=50)
    shares = cpu_shares(before, CpuTicks(total=2000, busy=400, steal=50, own=210))
    assert shares == {"foreign_cpu_share": 0.14, "steal_share": 0.05}
    finer = cpu_shares(before, CpuTicks(total=1100, busy=110, steal=0, own=70))
    assert finer["foreign_cpu_share"] == 0.0
    for nothing in (cpu_shares(before, before), cpu_shares(before, None)):
        assert "did not move" in str(nothing["foreign_cpu_share"])


SPIN = "import time\nwhile time.process_time() < 0.2: pass\n"


def test_the_whole_tree_counts_also_what_was_waited_for(tmp_path: Path) -> None:
    """A child of a child that goes on, and one that has ended."""
    if cpu_ticks() is None:
        pytest.skip("/proc/stat counts nothing here")
    assert cpu_ticks(root=tmp_path) is None
    live = f"{SPIN}print(flush=True); input()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {live!r}])"
    before = cpu_ticks()
    subprocess.run([sys.executable, "-c", SPIN], check=True)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", parent], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        after, theirs = cpu_ticks(), cpu_ticks(process.pid)
        process.communicate(b"\n")
    assert before is not None and after is not None and theirs is not None
    least = 0.15 * os.sysconf("SC_CLK_TCK")
    assert theirs.own >= least
    assert after.own - before.own >= 2 * least
