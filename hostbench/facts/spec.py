"""Every fact, one row each: what it says, how it is read, whether it moves from minute to minute,
how likely it explains that a number moved. Whatever reads, watches or compares facts follows this.

A name carries its unit (`_bytes`, `_s`, `_ns`, `_mhz`, `_w`, `_mj`, `_c`, `_mb_per_s`); one with
`_total` is a counter that only grows. To add a fact, add its row; docs/facts.md lists them all.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import hostbench
from hostbench.facts import cgroup, cpu_time, host, words
from hostbench.facts.environment import hash_uuid
from hostbench.facts.files import entries
from hostbench.facts.nvml import field_value
from hostbench.facts.record import Value, is_counter
from hostbench.facts.words import switch, throttle_words, word

GroupName = Literal["host", "software", "nvml", "gpu"]
Moved = Callable[[Value, Value], bool]
"""Whether a fact that always moves has moved far enough to be a cause: old and new in."""
Watched = Literal["highest", "lowest under load", "union under load"]

NEVER = 0
LAST = 99
HARMLESS = frozenset({"none", "idle", "application-clocks"})
"""Reasons for clocks below the maximum that slow nothing down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One fact."""

    group: GroupName
    name: str
    about: str
    """What it says, for people."""
    read: tuple[str | Callable[..., Any], ...] = field(default=(), repr=False)
    """Takes the root folder (`host`), nothing (`software`), NVML (`nvml`) or NVML and a handle
    (`gpu`); a text is a file below the root, which holds a
    number or a text, or a function of NVML. Of several the first that is
    not refused answers. Without one, the module that fills the group reads it with others."""
    why: str = "not told"
    """The reason where `read` answers None."""
    cause: int = LAST
    """Place among the causes of a change, the likeliest first; NEVER: what only watches or stores,
    and the code under test itself."""
    volatile: bool = False
    """Moves from minute to minute, as counters do: no difference between two runs."""
    moved: Moved | None = None
    """How far a volatile fact must move to be a cause all the same; None: it never is one."""
    watched: Watched | None = None
    """How the readings of one run add up; None: not read while it runs."""
    absent_counts: bool = False
    """No value means that there is no such limit, which is a state like any other."""
    identity: bool = False
    """Names the machine: stored only if asked for, and never compared."""


def by(absolute: float = 0.0, relative: float = 0.0) -> Moved:
    """At least so much, or such a share of the old value."""

    def moved(old: Value, new: Value) -> bool:
        if not isinstance(old, int | float) or not isinstance(new, int | float):
            return False
        return abs(new - old) >= max(absolute, relative * abs(old))

    return moved


def differs(old: Value, new: Value) -> bool:
    return old != new


def throttled_otherwise(old: Value, new: Value) -> bool:
    before, after = (frozenset(str(value).split(",")) - HARMLESS for value in (old, new))
    return before != after


def _host(
    name: str, about: str, *read: str | Callable[[Path], Any], why: str = "", **more: Any
) -> Spec:
    return Spec(group="host", name=name, about=about, read=read, why=why, **more)


def _software(name: str, about: str, *read: Callable[[], Any], **more: Any) -> Spec:
    return Spec(group="software", name=name, about=about, read=read, **more)


def _nvml(name: str, about: str, *read: str | Callable[[Any], Any], **more: Any) -> Spec:
    return Spec(group="nvml", name=name, about=about, read=read, **more)


def _gpu(name: str, about: str, *read: str | Callable[[Any, Any], Any], **more: Any) -> Spec:
    return Spec(group="gpu", name=name, about=about, read=read, **more)


_CLOCKS = "no cpufreq: the hypervisor or the firmware sets the clocks"
_SILENT = "the kernel does not say"
_UNSET = "the kernel has none"

HOST = (
    _host("os", "operating system", lambda root: platform.system() or "unknown"),
    _host("arch", "instruction set", lambda root: platform.machine() or "unknown"),
    _host("kernel", "version of the kernel", "proc/sys/kernel/osrelease", why="no /proc", cause=28),
    _host("cpu_model", "CPU", host.cpu_model, why="/proc/cpuinfo names no model", cause=1),
    _host(
        "num_logical_cores",
        "cores that are online",
        host.num_online,
        why="the kernel does not list its cores",
    ),
    _host(
        "num_usable_cores",
        "cores that this process may use, by affinity and quota",
        host.num_usable,
        why="neither affinity nor quota can be read",
        cause=6,
    ),
    _host(
        "cpu_quota_cores",
        "CPU quota of the container",
        cgroup.cpu_quota_cores,
        why="no cgroup CPU quota is set",
        cause=7,
        absent_counts=True,
    ),
    _host(
        "num_numa_nodes",
        "NUMA nodes",
        lambda root: len(entries(root / "sys/devices/system/node", "node[0-9]*")) or None,
        why="the kernel shows no NUMA nodes",
    ),
    _host("memory_bytes", "memory", host.memory_bytes, why="/proc/meminfo has no MemTotal"),
    _host(
        "memory_limit_bytes",
        "memory limit of the container",
        cgroup.memory_limit_bytes,
        why="no cgroup limit is set",
        cause=8,
        absent_counts=True,
    ),
    _host(
        "transparent_huge_pages",
        "transparent huge pages",
        lambda root: host.chosen(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        why=_UNSET,
        cause=57,
    ),
    _host("num_huge_pages", "explicit huge pages", host.num_huge_pages, why=_UNSET, cause=58),
    _host("cpu_governor", "CPU frequency governors", host.governors, why=_CLOCKS, cause=50),
    _host("cpu_boost", "whether cores may boost", host.boost, why=_CLOCKS, cause=51),
    _host(
        "smt",
        "whether two threads share a core",
        lambda root: host.flag(root / "sys/devices/system/cpu/smt/active"),
        why=_SILENT,
        cause=52,
    ),
    _host(
        "numa_balancing",
        "whether the kernel moves pages between nodes",
        lambda root: host.flag(root / "proc/sys/kernel/numa_balancing"),
        why="not in this kernel",
        cause=59,
    ),
    _host(
        "clocksource",
        "the kernel's clock",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        why=_SILENT,
    ),
    _host(
        "pcie_aspm_policy",
        "power saving of PCIe links",
        lambda root: host.chosen(root / "sys/module/pcie_aspm/parameters/policy"),
        why=_SILENT,
        cause=60,
    ),
    _host(
        "kernel_flags",
        "known words of the kernel's command line",
        host.kernel_flags,
        why="the kernel's command line cannot be read",
        cause=29,
    ),
    _host("virtualized", "whether this is a virtual machine", host.virtualized, cause=61),
    _host("hypervisor", "who runs the virtual machine", host.hypervisor, cause=62),
    _host("container", "kind of container", host.container, cause=63),
    _host(
        "load_average_1min",
        "load average",
        host.load_average,
        why="no /proc/loadavg",
        volatile=True,
    ),
    _host(
        "steal_share_since_boot",
        "CPU time that the hypervisor took since boot",
        cpu_time.steal_share_since_boot,
        why="no /proc/stat",
        volatile=True,
    ),
    # read together by memory and watch
    _host(
        "memory_copy_bytes_per_s",
        "memory copied by one thread, measured",
        volatile=True,
        moved=by(relative=0.1),
        cause=76,
    ),
    _host(
        "memory_copy_all_cores_bytes_per_s", "memory copied by all cores, measured", volatile=True
    ),
    _host(
        "foreign_cpu_share",
        "CPU time that others took during the run, as a share of the machine's",
        volatile=True,
        moved=by(absolute=0.1),
        cause=74,
    ),
    _host(
        "steal_share",
        "CPU time that the hypervisor took during the run, as a share of the machine's",
        volatile=True,
        moved=by(absolute=0.05),
        cause=75,
    ),
    _host("hostname", "name of the host", identity=True),
)

SOFTWARE = (
    _software("python", "version of Python", platform.python_version, cause=30),
    _software("hostbench", "hostbench itself", lambda: hostbench.__version__, cause=NEVER),
    # read together by software
    _software("torch", "torch", cause=21),
    _software("numpy", "numpy"),
    _software("asv", "asv", cause=NEVER),
    _software("torch_cuda_runtime", "the CUDA that torch was built for", cause=22),
    _software("torch_cudnn", "torch's cuDNN", cause=25),
    _software("torch_nccl", "torch's NCCL", cause=24),
    _software("torch_allocator_backend", "torch's allocator of device memory", cause=26),
    _software("env_*", "each environment variable that changes a measurement", cause=27),
)

NVML = (
    _nvml("num_gpus", "GPUs that the driver shows", "nvmlDeviceGetCount", cause=5),
    _nvml("driver", "NVIDIA driver", "nvmlSystemGetDriverVersion", cause=20),
    _nvml(
        "cuda_driver",
        "the CUDA that the driver supports",
        lambda n: words.cuda_version(n.nvmlSystemGetCudaDriverVersion_v2()),
        cause=23,
    ),
    _nvml(
        "nvlink_bandwidth_mode",
        "share of NVLink's rate in use",
        lambda n: word(words.NVLINK_BANDWIDTH, n.nvmlSystemGetNvlinkBwMode()),
        cause=35,
    ),
    _nvml(
        "confidential_computing",
        "confidential computing",
        lambda n: switch(n.nvmlSystemGetConfComputeState().ccFeature),
        cause=34,
    ),
)

_SM, _MEMORY = 1, 2


def _hashed(uuid: str) -> str | None:
    return hash_uuid(uuid) if uuid else None


GPU = (
    _gpu("name", "model of the GPU", "nvmlDeviceGetName", cause=2),
    _gpu(
        "uuid_sha256",
        "hash of the UUID: tells two GPUs apart, and finds none",
        lambda n, h: _hashed(n.nvmlDeviceGetUUID(h)),
        cause=10,
    ),
    _gpu("vbios", "firmware of the card", "nvmlDeviceGetVbiosVersion", cause=31),
    _gpu(
        "memory_bytes",
        "memory of the GPU",
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h).total,
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).total,
    ),
    _gpu("memory_bus_width_bits", "width of its memory bus", "nvmlDeviceGetMemoryBusWidth"),
    _gpu(
        "memory_clock_max_mhz",
        "highest clock of its memory",
        lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _MEMORY),
    ),
    # the link
    _gpu(
        "pcie_generation",
        "PCIe generation now; an idle link sleeps",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        volatile=True,
        moved=differs,
        cause=40,
        watched="highest",
    ),
    _gpu(
        "pcie_width",
        "PCIe lanes now",
        "nvmlDeviceGetCurrPcieLinkWidth",
        moved=differs,
        cause=41,
        watched="highest",
    ),
    _gpu(
        "pcie_max_generation",
        "highest PCIe generation of GPU and slot",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        cause=42,
    ),
    _gpu(
        "pcie_max_width",
        "most PCIe lanes of GPU and slot",
        "nvmlDeviceGetMaxPcieLinkWidth",
        cause=43,
    ),
    _gpu(
        "pcie_gpu_max_generation",
        "highest PCIe generation of the GPU alone",
        "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    ),
    _gpu("pci_device_max_width", "most PCIe lanes of the GPU alone, by sysfs"),
    _gpu("pci_iommu", "how addresses of transfers are translated: off, identity, DMA"),
    _gpu("numa_nodes", "NUMA nodes beside the GPU", cause=9),
    _gpu("nvlink_links", "NVLinks that are up"),
    _gpu("nvlink_mb_per_s", "rate of all its NVLinks, one way"),
    _gpu("c2c_enabled", "NVLink-C2C to the CPU"),
    _gpu("c2c_max_mb_per_s", "rate of NVLink-C2C"),
    # modes
    _gpu(
        "virtualization",
        "whether it is passed through or virtual",
        lambda n, h: word(words.VIRTUALIZATION, n.nvmlDeviceGetVirtualizationMode(h)),
        cause=64,
    ),
    _gpu("mig", "MIG", lambda n, h: switch(n.nvmlDeviceGetMigMode(h)[0]), cause=3),
    _gpu("num_mig_devices", "MIG devices", cause=4),
    _gpu(
        "persistence",
        "persistence mode",
        lambda n, h: switch(n.nvmlDeviceGetPersistenceMode(h)),
        cause=54,
    ),
    _gpu(
        "compute_mode",
        "who may compute on it",
        lambda n, h: word(words.COMPUTE_MODE, n.nvmlDeviceGetComputeMode(h)),
        cause=56,
    ),
    _gpu(
        "gsp_firmware",
        "whether the GPU's own processor runs the driver",
        lambda n, h: switch(n.nvmlDeviceGetGspFirmwareMode(h)[0]),
        cause=32,
    ),
    _gpu("gsp_firmware_version", "its firmware", "nvmlDeviceGetGspFirmwareVersion", cause=33),
    _gpu(
        "addressing_mode",
        "whether host and GPU share page tables",
        lambda n, h: word(words.ADDRESSING, n.nvmlDeviceGetAddressingMode(h)),
        cause=65,
    ),
    _gpu("ecc", "error correction", lambda n, h: switch(n.nvmlDeviceGetEccMode(h)[0]), cause=55),
    _gpu(
        "power_limit_w",
        "power limit",
        lambda n, h: float(n.nvmlDeviceGetEnforcedPowerLimit(h)) / 1000,
        cause=53,
    ),
    _gpu("cuda_index", "its number among CUDA's devices", cause=NEVER),
    # state
    _gpu(
        "sm_clock_mhz",
        "clock of its multiprocessors",
        lambda n, h: n.nvmlDeviceGetClockInfo(h, _SM),
        volatile=True,
        moved=by(relative=0.05),
        cause=71,
        watched="lowest under load",
    ),
    _gpu(
        "memory_clock_mhz",
        "clock of its memory",
        lambda n, h: n.nvmlDeviceGetClockInfo(h, _MEMORY),
        volatile=True,
        moved=by(relative=0.05),
        cause=72,
        watched="lowest under load",
    ),
    _gpu(
        "temperature_c",
        "temperature",
        lambda n, h: n.nvmlDeviceGetTemperatureV(h, 0),
        lambda n, h: n.nvmlDeviceGetTemperature(h, 0),
        volatile=True,
        moved=by(absolute=15),
        cause=77,
        watched="highest",
    ),
    _gpu(
        "throttle_reasons",
        "why its clocks are below the maximum",
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksEventReasons(h)),
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
        volatile=True,
        moved=throttled_otherwise,
        cause=70,
        watched="union under load",
    ),
    _gpu(
        "num_other_processes", "others that compute on it", volatile=True, moved=differs, cause=73
    ),
    _gpu(
        "ecc_uncorrected_lifetime_total",
        "errors that could not be corrected",
        lambda n, h: int(n.nvmlDeviceGetTotalEccErrors(h, 1, 1)),
    ),
    # names of the machine
    _gpu("serial", "serial number", "nvmlDeviceGetSerial", identity=True),
    _gpu("pci_bus_id", "PCI address", lambda n, h: n.nvmlDeviceGetPciInfo(h).busId, identity=True),
    _gpu("uuid", "UUID", "nvmlDeviceGetUUID", identity=True),
)

LINK_BYTES = (
    _gpu(
        "pcie_rx_total_bytes",
        "bytes into the GPU over PCIe; may wrap",
        lambda n, h: field_value(n, h, 198),
    ),
    _gpu(
        "pcie_tx_total_bytes",
        "bytes out of it over PCIe; may wrap",
        lambda n, h: field_value(n, h, 197),
    ),
)
"""Read like facts of a GPU while it works, and kept nowhere."""

ROWS = (*HOST, *SOFTWARE, *NVML, *GPU)
_BY_NAME = {row.name: row for row in ROWS}

RETIRED = frozenset(
    "num_huge_pages_free swap_used_bytes memory_temperature_c slowdown_margin_c power_w "
    "power_average_w graphics_clock_mhz performance_state pcie_speed_mbps_per_lane "
    "pcie_tx_kb_per_s pcie_rx_kb_per_s gpu_utilization_percent memory_utilization_percent "
    "memory_reserved_bytes asv_runner nvidia_ml_py nvml_version cuda_device_order gpm_supported "
    "mig_pending ecc_pending".split()
)
"""Of archives from before: facts that moved from minute to minute, or only watched, and that are
read no more. Every other fact that has no row is compared, as the least likely cause."""


def row(name: str) -> Spec | None:
    """The row of a stored fact; None for one of an older archive."""
    return _BY_NAME.get("env_*" if name.startswith("env_") else name)


def cause(name: str) -> int:
    """Its place among the causes, 1 the likeliest; NEVER for none."""
    found = row(name)
    if name in RETIRED or is_counter(name) or (found and found.identity):
        return NEVER
    if found is None:
        return LAST
    return NEVER if found.volatile and found.moved is None else found.cause


def is_steady(name: str) -> bool:
    """Whether a difference says that something was changed: not of what always moves, nor of what
    is stored only if asked for."""
    found = row(name)
    moves = found is not None and (found.volatile or found.identity)
    return not (moves or name in RETIRED or is_counter(name))


def names(rows: Iterable[Spec]) -> Iterator[str]:
    return (each.name for each in rows)
