"""Every fact, one row each, the likeliest cause of a change first: how it is read, and whether it
moves from minute to minute. Whatever reads, watches or compares facts follows this.

A name carries its unit (`_bytes`, `_s`, `_ns`, `_mhz`, `_w`, `_c`, `_mb_per_s`); one with `_total`
is a counter that only grows. To add a fact, add its row, and its line in docs/facts.md, which says
what each is.
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from hostbench.facts import cgroup, cpu_time, host, words
from hostbench.facts.environment import hash_uuid
from hostbench.facts.nvml import field_value
from hostbench.facts.record import Value, is_counter
from hostbench.facts.words import HARMLESS, switch, throttle_words, word

FactGroup = Literal["host", "software", "nvml", "gpu"]
HasMoved = Callable[[Value, Value], bool]
"""Whether a fact that always moves has moved far enough to be a cause: old and new in."""
Watched = Literal["highest", "low percentile under load", "frequent under load"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One fact."""

    group: FactGroup
    """`gpu` stands for `gpu0`, `gpu1`, ..."""
    name: str
    read: tuple[str | Callable[..., Any], ...] = field(default=(), repr=False)
    """Takes the root folder (host), nothing (software), NVML (nvml) or NVML and a handle (gpu); a
    text is a file below the root, which holds a number or a text, or a function of NVML. Of several
    the first that is not refused answers. Without one, the module that fills the group reads it
    with others."""
    why: str = "not told"
    """The reason where `read` answers None."""
    volatile: bool = False
    """Moves from minute to minute, as counters do: no difference between two runs."""
    moved: HasMoved | None = None
    """How far a volatile fact must move to be a cause all the same; None: it never is one."""
    watched: Watched | None = None
    """How the readings of one run add up; None: not read while it runs."""
    absent_counts: bool = False
    """No value means that there is no such limit, which is a state like any other."""
    explains: bool = True
    """False: it only tells machines or code apart."""


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


def _fact(group: FactGroup, name: str, *read: str | Callable[..., Any], **options: Any) -> Spec:
    return Spec(group=group, name=name, read=read, **options)


_host, _software = partial(_fact, "host"), partial(_fact, "software")
_nvml, _gpu = partial(_fact, "nvml"), partial(_fact, "gpu")

_CLOCKS = "no cpufreq: the hypervisor or the firmware sets the clocks"
_SILENT = "the kernel does not say"
_SM, _MEMORY = 1, 2


def _chosen(path: str) -> Callable[..., Any]:
    return lambda root: host.chosen(root / path)


def _flag(path: str) -> Callable[..., Any]:
    return lambda root: host.flag(root / path)


def _hashed(uuid: str) -> str | None:
    return hash_uuid(uuid) if uuid else None


ROWS = (
    # another machine, or a part of one
    _host("cpu_model", host.cpu_model, why="/proc/cpuinfo names no model"),
    _gpu("name", "nvmlDeviceGetName"),
    _gpu("mig", lambda n, h: switch(n.nvmlDeviceGetMigMode(h)[0])),
    _gpu("num_mig_devices"),
    _nvml("num_gpus", "nvmlDeviceGetCount"),
    _host("num_usable_cores", host.num_usable, why="neither affinity nor quota can be read"),
    _host(
        "cpu_quota_cores",
        cgroup.cpu_quota_cores,
        why="no cgroup CPU quota is set",
        absent_counts=True,
    ),
    _host(
        "memory_limit_bytes",
        cgroup.memory_limit_bytes,
        why="no cgroup limit is set",
        absent_counts=True,
    ),
    _gpu("numa_nodes"),
    _gpu("uuid_sha256", lambda n, h: _hashed(n.nvmlDeviceGetUUID(h))),
    # software
    _nvml("driver", "nvmlSystemGetDriverVersion"),
    _software("torch"),
    _software("torch_cuda_runtime"),
    _nvml("cuda_driver", lambda n: words.cuda_version(n.nvmlSystemGetCudaDriverVersion_v2())),
    _software("torch_nccl"),
    _software("torch_cudnn"),
    _software("torch_allocator_backend"),
    _software("env_*"),
    _host("kernel", "proc/sys/kernel/osrelease", why="no /proc"),
    _host("kernel_flags", host.kernel_flags, why="the kernel's command line cannot be read"),
    _software("python", platform.python_version),
    _gpu("vbios", "nvmlDeviceGetVbiosVersion"),
    # the link
    _nvml("confidential_computing", lambda n: switch(n.nvmlSystemGetConfComputeState().ccFeature)),
    _nvml(
        "nvlink_bandwidth_mode",
        lambda n: word(words.NVLINK_BANDWIDTH, n.nvmlSystemGetNvlinkBwMode()),
    ),
    _gpu(
        "pcie_generation",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        volatile=True,
        moved=differs,
        watched="highest",
    ),
    _gpu("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", moved=differs, watched="highest"),
    _gpu("pcie_max_generation", "nvmlDeviceGetMaxPcieLinkGeneration"),
    _gpu("pcie_max_width", "nvmlDeviceGetMaxPcieLinkWidth"),
    # settings
    _host("cpu_governor", host.governors, why=_CLOCKS),
    _host("cpu_boost", host.boost, why=_CLOCKS),
    _host("smt", _flag("sys/devices/system/cpu/smt/active"), why=_SILENT),
    _gpu("power_limit_w", lambda n, h: float(n.nvmlDeviceGetEnforcedPowerLimit(h)) / 1000),
    _gpu("persistence", lambda n, h: switch(n.nvmlDeviceGetPersistenceMode(h))),
    _gpu("ecc", lambda n, h: switch(n.nvmlDeviceGetEccMode(h)[0])),
    _host(
        "transparent_huge_pages",
        _chosen("sys/kernel/mm/transparent_hugepage/enabled"),
        why="the kernel has none",
    ),
    _host("numa_balancing", _flag("proc/sys/kernel/numa_balancing"), why="not in this kernel"),
    _host("pcie_aspm_policy", _chosen("sys/module/pcie_aspm/parameters/policy"), why=_SILENT),
    _host("virtualized", host.virtualized, why="this CPU does not tell"),
    _host("container", host.container),
    _gpu(
        "virtualization",
        lambda n, h: word(words.VIRTUALIZATION, n.nvmlDeviceGetVirtualizationMode(h)),
    ),
    # what moves while it runs
    _gpu(
        "throttle_reasons",
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksEventReasons(h)),
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
        volatile=True,
        moved=throttled_otherwise,
        watched="frequent under load",
    ),
    _gpu(
        "sm_clock_mhz",
        lambda n, h: n.nvmlDeviceGetClockInfo(h, _SM),
        volatile=True,
        moved=by(relative=0.05),
        watched="low percentile under load",
    ),
    _gpu(
        "memory_clock_mhz",
        lambda n, h: n.nvmlDeviceGetClockInfo(h, _MEMORY),
        volatile=True,
        moved=by(relative=0.05),
        watched="low percentile under load",
    ),
    _gpu("num_other_processes", volatile=True, moved=differs),
    # read together by `watch` and `memory`
    _host("foreign_cpu_share", volatile=True, moved=by(absolute=0.1)),
    _host("steal_share", volatile=True, moved=by(absolute=0.05)),
    _host("memory_copy_bytes_per_s", volatile=True, moved=by(relative=0.1)),
    _gpu(
        "temperature_c",
        lambda n, h: n.nvmlDeviceGetTemperatureV(h, 0),
        lambda n, h: n.nvmlDeviceGetTemperature(h, 0),
        volatile=True,
        moved=by(absolute=15),
        watched="highest",
    ),
    # least likely: what limits and names are made of
    _host("os", lambda root: platform.system() or "unknown"),
    _host("arch", lambda root: platform.machine() or "unknown"),
    _host("num_logical_cores", host.num_online, why="the kernel does not list its cores"),
    _host("memory_bytes", host.memory_bytes, why="/proc/meminfo has no MemTotal"),
    _gpu(
        "memory_bytes",
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h).total,
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).total,
    ),
    _gpu("memory_bus_width_bits", "nvmlDeviceGetMemoryBusWidth"),
    _gpu("memory_clock_max_mhz", lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _MEMORY)),
    _gpu("pcie_gpu_max_generation", "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    _gpu("pci_device_max_width"),
    _gpu("nvlink_links"),
    _gpu("nvlink_mb_per_s"),
    _gpu("c2c_enabled"),
    _gpu("c2c_max_mb_per_s"),
    # never a cause
    _software("asv", explains=False),
    _gpu("cuda_index", explains=False),
    _host("load_average_1min", host.load_average, why="no /proc/loadavg", volatile=True),
    _host(
        "steal_share_since_boot",
        cpu_time.steal_share_since_boot,
        why="no /proc/stat",
        volatile=True,
    ),
    _host("memory_copy_all_cores_bytes_per_s", volatile=True),
    _gpu(
        "ecc_uncorrected_lifetime_total", lambda n, h: int(n.nvmlDeviceGetTotalEccErrors(h, 1, 1))
    ),
)

LINK_BYTES = (
    _gpu("pcie_rx_total_bytes", lambda n, h: field_value(n, h, 198)),
    _gpu("pcie_tx_total_bytes", lambda n, h: field_value(n, h, 197)),
)
"""Read like facts of a GPU while it works, and kept nowhere."""

_BY_NAME = {row.name: row for row in ROWS}
_RANKS = {row.name: rank for rank, row in enumerate(ROWS, 1)}
NEVER = 0
"""Among the causes: none."""


def rows_of(group: FactGroup) -> tuple[Spec, ...]:
    """The facts of a group."""
    return tuple(row for row in ROWS if row.group == group)


def row(name: str) -> Spec | None:
    """The row of a stored fact; None for one that has none, of an older archive."""
    return _BY_NAME.get(_row_name(name))


def cause(name: str) -> int:
    """Its rank among the causes of a change, 1 the likeliest; NEVER for none. What has no row comes
    last."""
    spec = row(name)
    if is_counter(name):
        return NEVER
    if spec is None:
        return len(ROWS) + 1
    is_one = spec.explains and not (spec.volatile and spec.moved is None)
    return _RANKS[spec.name] if is_one else NEVER


def is_steady(name: str) -> bool:
    """Whether a difference says that something was changed: not of what always moves."""
    spec = row(name)
    return not (is_counter(name) or (spec is not None and spec.volatile))


def is_of_the_link(name: str) -> bool:
    """Whether it says how fast the link was set up to be, which only a run that copies can see."""
    spec = row(name)
    return spec is not None and spec.watched == "highest" and spec.moved is differs


def _row_name(name: str) -> str:
    return "env_*" if name.startswith("env_") else name
