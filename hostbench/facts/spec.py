"""Every fact, one row each: how it is read, whether it moves from minute to minute, how likely it
explains that a number moved. Whatever reads, watches or compares facts follows this.

A name carries its unit (`_bytes`, `_s`, `_ns`, `_mhz`, `_w`, `_mj`, `_c`, `_mb_per_s`); one with
`_total` is a counter that only grows. To add a fact, add its row, and its line in docs/facts.md,
which says what each is.
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from hostbench.facts import cgroup, cpu_time, host, words
from hostbench.facts.environment import hash_uuid
from hostbench.facts.nvml import field_value
from hostbench.facts.record import Value, is_counter
from hostbench.facts.words import HARMLESS, switch, throttle_words, word

HasMoved = Callable[[Value, Value], bool]
"""Whether a fact that always moves has moved far enough to be a cause: old and new in."""
Watched = Literal["highest", "low percentile under load", "frequent under load"]

NEVER = 0
LAST = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One fact."""

    name: str
    read: tuple[str | Callable[..., Any], ...] = field(default=(), repr=False)
    """Takes the root folder (HOST), nothing (SOFTWARE), NVML (NVML) or NVML and a handle (GPU); a
    text is a file below the root, which holds a number or a text, or a function of NVML. Of several
    the first that is not refused answers. Without one, the module that fills the group reads it
    with others."""
    why: str = "not told"
    """The reason where `read` answers None."""
    cause: int = LAST
    """Place among the causes of a change, the likeliest first; NEVER: what only watches or stores,
    and the code under test itself."""
    volatile: bool = False
    """Moves from minute to minute, as counters do: no difference between two runs."""
    moved: HasMoved | None = None
    """How far a volatile fact must move to be a cause all the same; None: it never is one."""
    watched: Watched | None = None
    """How the readings of one run add up; None: not read while it runs."""
    absent_counts: bool = False
    """No value means that there is no such limit, which is a state like any other."""


def by(absolute: float = 0.0, relative: float = 0.0) -> HasMoved:
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


def _fact(name: str, *read: str | Callable[..., Any], **more: Any) -> Spec:
    return Spec(name=name, read=read, **more)


_CLOCKS = "no cpufreq: the hypervisor or the firmware sets the clocks"
_SILENT = "the kernel does not say"
_UNSET = "the kernel has none"

HOST = (
    _fact("os", lambda root: platform.system() or "unknown"),
    _fact("arch", lambda root: platform.machine() or "unknown"),
    _fact("kernel", "proc/sys/kernel/osrelease", why="no /proc", cause=28),
    _fact("cpu_model", host.cpu_model, why="/proc/cpuinfo names no model", cause=1),
    _fact("num_logical_cores", host.num_online, why="the kernel does not list its cores"),
    _fact(
        "num_usable_cores", host.num_usable, why="neither affinity nor quota can be read", cause=6
    ),
    _fact(
        "cpu_quota_cores",
        cgroup.cpu_quota_cores,
        why="no cgroup CPU quota is set",
        cause=7,
        absent_counts=True,
    ),
    _fact("memory_bytes", host.memory_bytes, why="/proc/meminfo has no MemTotal"),
    _fact(
        "memory_limit_bytes",
        cgroup.memory_limit_bytes,
        why="no cgroup limit is set",
        cause=8,
        absent_counts=True,
    ),
    _fact(
        "transparent_huge_pages",
        lambda root: host.chosen(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        why=_UNSET,
        cause=57,
    ),
    _fact("num_huge_pages", host.num_huge_pages, why=_UNSET, cause=58),
    _fact("cpu_governor", host.governors, why=_CLOCKS, cause=50),
    _fact("cpu_boost", host.boost, why=_CLOCKS, cause=51),
    _fact(
        "smt",
        lambda root: host.flag(root / "sys/devices/system/cpu/smt/active"),
        why=_SILENT,
        cause=52,
    ),
    _fact(
        "numa_balancing",
        lambda root: host.flag(root / "proc/sys/kernel/numa_balancing"),
        why="not in this kernel",
        cause=59,
    ),
    _fact(
        "pcie_aspm_policy",
        lambda root: host.chosen(root / "sys/module/pcie_aspm/parameters/policy"),
        why=_SILENT,
        cause=60,
    ),
    _fact(
        "kernel_flags", host.kernel_flags, why="the kernel's command line cannot be read", cause=29
    ),
    _fact("virtualized", host.virtualized, why="this CPU does not tell", cause=61),
    _fact("container", host.container, cause=63),
    _fact("load_average_1min", host.load_average, why="no /proc/loadavg", volatile=True),
    _fact(
        "steal_share_since_boot",
        cpu_time.steal_share_since_boot,
        why="no /proc/stat",
        volatile=True,
    ),
    # read together by memory and watch
    _fact("memory_copy_bytes_per_s", volatile=True, moved=by(relative=0.1), cause=76),
    _fact("memory_copy_all_cores_bytes_per_s", volatile=True),
    _fact("foreign_cpu_share", volatile=True, moved=by(absolute=0.1), cause=74),
    _fact("steal_share", volatile=True, moved=by(absolute=0.05), cause=75),
)

SOFTWARE = (
    _fact("python", platform.python_version, cause=30),
    # read together by software
    _fact("torch", cause=21),
    _fact("asv", cause=NEVER),
    _fact("torch_cuda_runtime", cause=22),
    _fact("torch_cudnn", cause=25),
    _fact("torch_nccl", cause=24),
    _fact("torch_allocator_backend", cause=26),
    _fact("env_*", cause=27),
)

NVML = (
    _fact("num_gpus", "nvmlDeviceGetCount", cause=5),
    _fact("driver", "nvmlSystemGetDriverVersion", cause=20),
    _fact(
        "cuda_driver", lambda n: words.cuda_version(n.nvmlSystemGetCudaDriverVersion_v2()), cause=23
    ),
    _fact(
        "nvlink_bandwidth_mode",
        lambda n: word(words.NVLINK_BANDWIDTH, n.nvmlSystemGetNvlinkBwMode()),
        cause=35,
    ),
    _fact(
        "confidential_computing",
        lambda n: switch(n.nvmlSystemGetConfComputeState().ccFeature),
        cause=34,
    ),
)

_SM, _MEMORY = 1, 2


def _hashed(uuid: str) -> str | None:
    return hash_uuid(uuid) if uuid else None


GPU = (
    _fact("name", "nvmlDeviceGetName", cause=2),
    _fact("uuid_sha256", lambda n, h: _hashed(n.nvmlDeviceGetUUID(h)), cause=10),
    _fact("vbios", "nvmlDeviceGetVbiosVersion", cause=31),
    _fact(
        "memory_bytes",
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h).total,
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).total,
    ),
    _fact("memory_bus_width_bits", "nvmlDeviceGetMemoryBusWidth"),
    _fact("memory_clock_max_mhz", lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _MEMORY)),
    # the link
    _fact(
        "pcie_generation",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        volatile=True,
        moved=differs,
        cause=40,
        watched="highest",
    ),
    _fact(
        "pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", moved=differs, cause=41, watched="highest"
    ),
    _fact("pcie_max_generation", "nvmlDeviceGetMaxPcieLinkGeneration", cause=42),
    _fact("pcie_max_width", "nvmlDeviceGetMaxPcieLinkWidth", cause=43),
    _fact("pcie_gpu_max_generation", "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    _fact("pci_device_max_width"),
    _fact("numa_nodes", cause=9),
    _fact("nvlink_links"),
    _fact("nvlink_mb_per_s"),
    _fact("c2c_enabled"),
    _fact("c2c_max_mb_per_s"),
    # modes
    _fact(
        "virtualization",
        lambda n, h: word(words.VIRTUALIZATION, n.nvmlDeviceGetVirtualizationMode(h)),
        cause=64,
    ),
    _fact("mig", lambda n, h: switch(n.nvmlDeviceGetMigMode(h)[0]), cause=3),
    _fact("num_mig_devices", cause=4),
    _fact("persistence", lambda n, h: switch(n.nvmlDeviceGetPersistenceMode(h)), cause=54),
    _fact("gsp_firmware", lambda n, h: switch(n.nvmlDeviceGetGspFirmwareMode(h)[0]), cause=32),
    _fact(
        "addressing_mode",
        lambda n, h: word(words.ADDRESSING, n.nvmlDeviceGetAddressingMode(h)),
        cause=65,
    ),
    _fact("ecc", lambda n, h: switch(n.nvmlDeviceGetEccMode(h)[0]), cause=55),
    _fact(
        "power_limit_w", lambda n, h: float(n.nvmlDeviceGetEnforcedPowerLimit(h)) / 1000, cause=53
    ),
    _fact("cuda_index", cause=NEVER),
    # state
    _fact(
        "sm_clock_mhz",
        lambda n, h: n.nvmlDeviceGetClockInfo(h, _SM),
        volatile=True,
        moved=by(relative=0.05),
        cause=71,
        watched="low percentile under load",
    ),
    _fact(
        "memory_clock_mhz",
        lambda n, h: n.nvmlDeviceGetClockInfo(h, _MEMORY),
        volatile=True,
        moved=by(relative=0.05),
        cause=72,
        watched="low percentile under load",
    ),
    _fact(
        "temperature_c",
        lambda n, h: n.nvmlDeviceGetTemperatureV(h, 0),
        lambda n, h: n.nvmlDeviceGetTemperature(h, 0),
        volatile=True,
        moved=by(absolute=15),
        cause=77,
        watched="highest",
    ),
    _fact(
        "throttle_reasons",
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksEventReasons(h)),
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
        volatile=True,
        moved=throttled_otherwise,
        cause=70,
        watched="frequent under load",
    ),
    _fact("num_other_processes", volatile=True, moved=differs, cause=73),
    _fact(
        "ecc_uncorrected_lifetime_total", lambda n, h: int(n.nvmlDeviceGetTotalEccErrors(h, 1, 1))
    ),
)

LINK_BYTES = (
    _fact("pcie_rx_total_bytes", lambda n, h: field_value(n, h, 198)),
    _fact("pcie_tx_total_bytes", lambda n, h: field_value(n, h, 197)),
)
"""Read like facts of a GPU while it works, and kept nowhere."""

ROWS = (*HOST, *SOFTWARE, *NVML, *GPU)
_BY_NAME = {row.name: row for row in ROWS}

RETIRED = frozenset(
    "num_huge_pages_free swap_used_bytes memory_temperature_c slowdown_margin_c power_w "
    "power_average_w graphics_clock_mhz performance_state pcie_speed_mbps_per_lane "
    "pcie_tx_kb_per_s pcie_rx_kb_per_s gpu_utilization_percent memory_utilization_percent "
    "memory_reserved_bytes asv_runner nvidia_ml_py nvml_version cuda_device_order gpm_supported "
    "mig_pending ecc_pending hostname serial pci_bus_id uuid num_numa_nodes clocksource hostbench "
    "numpy pci_iommu hypervisor compute_mode gsp_firmware_version".split()
)
"""Facts of older archives that are not collected any more and never compared: they moved from
minute to minute, named the machine, or explained nothing. Every other fact that has no row is
compared, as the least likely cause."""


def row(name: str) -> Spec | None:
    """The row of a stored fact; None for one of an older archive."""
    return _BY_NAME.get("env_*" if name.startswith("env_") else name)


def cause(name: str) -> int:
    """Its place among the causes, 1 the likeliest; NEVER for none."""
    spec = row(name)
    if name in RETIRED or is_counter(name):
        return NEVER
    if spec is None:
        return LAST
    return NEVER if spec.volatile and spec.moved is None else spec.cause


def is_steady(name: str) -> bool:
    """Whether a difference says that something was changed: not of what always moves."""
    spec = row(name)
    moves = spec is not None and spec.volatile
    return not (moves or name in RETIRED or is_counter(name))


def is_of_the_link(name: str) -> bool:
    """Whether it says how fast the link was set up to be, which only a run that copies can see."""
    spec = row(name)
    return spec is not None and spec.watched == "highest" and spec.moved is differs
