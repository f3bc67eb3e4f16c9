"""Records of facts, and facts of a host read from a tree that is made here."""

import json
from pathlib import Path

import pytest

from hostbench import facts as room
from hostbench.core.errors import DataError
from hostbench.facts import host_facts
from hostbench.facts.host import memory_limit_bytes
from hostbench.facts.record import from_json, known, unknown
from tests.fakes.fake_nvml import FakeNvml, machine

EPYC = {
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\nflags\t: fpu\n",
    "proc/meminfo": "MemTotal:       24684092 kB\nMemFree: 1 kB\n",
    "proc/loadavg": "0.50 0.40 0.30 1/200 4321\n",
    "proc/stat": "cpu  100 0 50 800 30 0 10 10 0 0\ncpu0 1 2 3\n",
    "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-3,8\n",
    "proc/self/cgroup": "0::/user.slice/box\n",
    "proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
    "sys/devices/system/cpu/online": "0-15\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/devices/system/cpu/smt/active": "1\n",
    "sys/module/pcie_aspm/parameters/policy": "[default] performance powersave\n",
    "proc/cmdline": "root=UUID=secret ro iommu=pt isolcpus=4-7 mitigations=off host=lab\n",
    "proc/sys/kernel/numa_balancing": "0\n",
}


def tree(root: Path, **changes: str) -> Path:
    for name, text in {**EPYC, **changes}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_facts_survive_json():
    facts = {"host": {"kernel": known("6.8"), "cpu_boost": unknown("no cpufreq"), "n": known(1.5)}}
    stored = json.loads(json.dumps(room.to_json(facts)))
    assert stored["host"] == {
        "kernel": "6.8",
        "cpu_boost": {"value": None, "why": "no cpufreq"},
        "n": 1.5,
    }
    assert from_json(stored) == facts
    assert from_json({"a": {"b": {"value": 3, "why": None}, "c": None, "d": {"value": None}}}) == {
        "a": {"b": known(3), **dict.fromkeys("cd", unknown("no reason was recorded"))}
    }


def test_damaged_facts_are_an_error():
    with pytest.raises(DataError, match="fact"):
        from_json({"host": {"x": [1]}})


def test_a_host_is_read_from_proc_and_sys(tmp_path):
    host = {name: fact.value for name, fact in host_facts(tree(tmp_path)).items()}
    expected = {
        "kernel": "6.8.0-60-generic",
        "cpu_model": "AMD EPYC 9654 96-Core Processor",
        "num_logical_cores": 16,
        "num_usable_cores": 5,
        "cpu_quota_cores": None,
        "memory_bytes": 24684092 * 1024,
        "memory_limit_bytes": None,
        "transparent_huge_pages": "madvise",
        "cpu_governor": "performance,powersave",
        "cpu_boost": True,
        "virtualized": False,
        "container": "none seen",
        "load_average_1min": 0.5,
        "steal_share_since_boot": 0.01,
        "numa_balancing": False,
        "smt": True,
        "pcie_aspm_policy": "default",
        "kernel_flags": "iommu=pt,isolcpus=4-7,mitigations=off",
    }
    assert host | expected == host


def test_an_empty_tree_gives_reasons_not_numbers(tmp_path):
    host = host_facts(tmp_path)
    values = {name for name, fact in host.items() if fact.value is not None}
    assert values == {"os", "arch", "container"}
    assert all(fact.why for name, fact in host.items() if name not in values)


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        (
            {"sys/fs/cgroup/user.slice/box/cpu.max": "150000 100000"},
            "num_usable_cores",
            2,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/box\n",
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
        ({"proc/1/cgroup": "0::/kubepods/burstable/pod1"}, "container", "kubernetes"),
    ],
)
def test_quotas_virtual_machines_and_containers(tmp_path, changes, name, value):
    assert host_facts(tree(tmp_path, **changes))[name].value == value


def test_memory_limits(tmp_path):
    root = tree(tmp_path, **{"sys/fs/cgroup/user.slice/memory.max": "1073741824"})
    assert memory_limit_bytes(root) == 1 << 30
    tree(root, **{"sys/fs/cgroup/user.slice/memory.max": "max"})
    assert memory_limit_bytes(root) is None
    (root / "sys/fs/cgroup/memory").mkdir()
    (root / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("9223372036854771712")
    assert memory_limit_bytes(root) is None


def test_collect_puts_the_groups_together(tmp_path):
    facts = room.collect(root=tree(tmp_path), nvml=FakeNvml(), environ={})
    assert list(facts) == ["host", "software", "nvml", "gpu0"]
    assert from_json(room.to_json(facts)) == facts


def test_collect_without_nvml_keeps_the_gpus_names(tmp_path):
    information = "Model: \t\t NVIDIA H200\nGPU UUID: GPU-secret\n"
    root = tree(tmp_path, **{"proc/driver/nvidia/gpus/0000:18:00.0/information": information})
    facts = room.collect(root=root, nvml=machine("library_missing"), environ={})
    assert facts["gpu0"]["name"] == known("NVIDIA H200")
    assert "libnvidia-ml" in (facts["gpu0"]["pcie_width"].why or "")
    assert "secret" not in str(facts)


def test_collect_leaves_hidden_gpus_out(tmp_path):
    facts = room.collect(
        root=tree(tmp_path), nvml=FakeNvml(), environ={"CUDA_VISIBLE_DEVICES": "-1"}
    )
    assert "gpu0" not in facts
    assert "hides the GPUs" in (facts["nvml"]["driver"].why or "")
