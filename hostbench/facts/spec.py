"""Every fact, one row each, the likeliest cause of a change first: how it is read, and how far it
must move to be a cause. Whatever reads, watches or compares facts follows this.

A name carries its unit (`_bytes`, `_s`, `_ns`, `_mhz`, `_w`, `_c`, `_mb_per_s`); one with `_total`
is a counter that only grows. To add a fact, add its row.
"""

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from hostbench.facts import host, nvml
from hostbench.facts.nvml import Call, slot, slowing, switch, throttle_words
from hostbench.facts.record import Value

FactGroup = Literal["host", "software", "nvml", "gpu"]
HasMoved = Callable[[Value, Value], bool]
"""Whether a fact has moved far enough to be a cause: old and new in."""
Watched = Literal["highest", "low under load", "frequent under load"]


def differs(old: Value, new: Value) -> bool:
    return old != new


def by(absolute: float = 0.0, relative: float = 0.0) -> HasMoved:
    """At least so much, or such a share of the old value."""

    def moved(old: Value, new: Value) -> bool:
        if not isinstance(old, int | float) or not isinstance(new, int | float):
            return False
        return abs(new - old) >= max(absolute, relative * abs(old))

    return moved


@dataclass(frozen=True, slots=True)
class Spec:
    """One fact."""

    group: FactGroup
    """`gpu` stands for `gpu0`, `gpu1`, ..."""
    name: str
    read: Call | None = field(default=None, repr=False)
    """Takes the root folder (host), NVML (nvml) or NVML and a handle (gpu); a text names a function
    of NVML. Without one, the module that fills the group reads it with others."""
    moved: HasMoved | None = differs
    """How far it must move to be a cause; None: it never is one."""
    volatile: bool = False
    """Moves from minute to minute: how the machine was set up it does not say."""
    watched: Watched | None = None
    """How the readings of one run add up; None: not read while it runs."""


def _cuda_version(version: int) -> str:
    """13020 is CUDA 13.2."""
    return f"{version // 1000}.{version % 1000 // 10}"


_host, _software = partial(Spec, "host"), partial(Spec, "software")
_nvml, _gpu = partial(Spec, "nvml"), partial(Spec, "gpu")
_moving = partial(_gpu, volatile=True)
_clock = partial(_moving, moved=by(relative=0.05), watched="low under load")

_SM, _MEMORY = 1, 2
_HUGE_PAGES = "sys/kernel/mm/transparent_hugepage/enabled"

ROWS = (
    # another machine, or a part of one
    _host("cpu_model", host.cpu_model),
    _gpu("name", "nvmlDeviceGetName"),
    _gpu("mig", lambda n, h: switch(n.nvmlDeviceGetMigMode(h)[0])),
    _nvml("num_gpus", "nvmlDeviceGetCount"),
    _host("num_usable_cores", lambda r: host.usable_cores(len(os.sched_getaffinity(0)), r)),
    _gpu("uuid_sha256", lambda n, h: nvml.hash_uuid(n.nvmlDeviceGetUUID(h))),
    # software
    _nvml("driver", "nvmlSystemGetDriverVersion"),
    _software("torch"),
    _software("torch_cuda_runtime"),
    _nvml("cuda_driver", lambda n: _cuda_version(n.nvmlSystemGetCudaDriverVersion_v2())),
    _software("torch_nccl"),
    _software("env_*"),
    _host("kernel", lambda r: host.read_text(r / "proc/sys/kernel/osrelease")),
    _host("kernel_flags", host.kernel_flags),
    _software("python"),
    _gpu("vbios", "nvmlDeviceGetVbiosVersion"),
    # the link
    _nvml("confidential_computing", lambda n: switch(n.nvmlSystemGetConfComputeState().ccFeature)),
    _moving("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", watched="highest"),
    _gpu("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", watched="highest"),
    _gpu("pcie_max_generation", "nvmlDeviceGetMaxPcieLinkGeneration"),
    _gpu("pcie_max_width", "nvmlDeviceGetMaxPcieLinkWidth"),
    # settings
    _host("cpu_governor", host.governors),
    _host("cpu_boost", host.boost),
    _host("smt", host.flag(f"{host.CPUS}/smt/active")),
    _gpu("power_limit_w", lambda n, h: float(n.nvmlDeviceGetEnforcedPowerLimit(h)) / 1000),
    _gpu("persistence", lambda n, h: switch(n.nvmlDeviceGetPersistenceMode(h))),
    _gpu("ecc", lambda n, h: switch(n.nvmlDeviceGetEccMode(h)[0])),
    _host("transparent_huge_pages", host.chosen(_HUGE_PAGES)),
    _host("numa_balancing", host.flag("proc/sys/kernel/numa_balancing")),
    _host("pcie_aspm_policy", host.chosen("sys/module/pcie_aspm/parameters/policy")),
    _host("virtualized", host.virtualized),
    _host("container", host.container),
    # what moves while it runs
    _moving(
        "throttle_reasons",
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
        moved=lambda old, new: set(slowing(old)) != set(slowing(new)),
        watched="frequent under load",
    ),
    _clock("sm_clock_mhz", lambda n, h: n.nvmlDeviceGetClockInfo(h, _SM)),
    _clock("memory_clock_mhz", lambda n, h: n.nvmlDeviceGetClockInfo(h, _MEMORY)),
    _moving("num_other_processes", nvml.num_other),
    # read together by `watch`
    _host("foreign_cpu_share", volatile=True, moved=by(absolute=0.1)),
    _host("steal_share", volatile=True, moved=by(absolute=0.05)),
    _moving(
        "temperature_c",
        lambda n, h: n.nvmlDeviceGetTemperature(h, 0),
        moved=by(absolute=15),
        watched="highest",
    ),
    # least likely: what limits and names are made of
    _host("os", lambda root: platform.system() or "unknown"),
    _host("arch", lambda root: platform.machine() or "unknown"),
    _host("num_logical_cores", lambda _: os.cpu_count()),
    _host("memory_bytes", lambda _: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
    _host("cache_bytes", host.cache_bytes),
    _gpu("memory_bytes", lambda n, h: n.nvmlDeviceGetMemoryInfo(h).total),
    _gpu("memory_bus_width_bits", "nvmlDeviceGetMemoryBusWidth"),
    _gpu("memory_clock_max_mhz", lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _MEMORY)),
    _gpu("pcie_gpu_max_generation", "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    _gpu("pci_device_max_width", lambda n, h: slot(n, h, "max_link_width")),
    _gpu("nvlink_links", lambda n, h: len(nvml.nvlinks(n, h))),
    _gpu("nvlink_mb_per_s", nvml.nvlink_mb_per_s),
    _gpu("c2c_enabled", lambda n, h: switch(n.nvmlDeviceGetC2cModeInfoV(h).isC2cEnabled)),
    _gpu("c2c_max_mb_per_s", nvml.c2c_mb_per_s),
    # never a cause
    _software("asv", moved=None),
    _host("load_average_1min", lambda _: os.getloadavg()[0], moved=None),
    _gpu(
        "ecc_uncorrected_lifetime_total",
        lambda n, h: int(n.nvmlDeviceGetTotalEccErrors(h, 1, 1)),
        moved=None,
    ),
    _gpu("cuda_index", moved=None),
)

_RANKS = {row.name: rank for rank, row in enumerate(ROWS, 1)}


def rows_of(group: FactGroup) -> tuple[Spec, ...]:
    """The facts of a group."""
    return tuple(row for row in ROWS if row.group == group)


def row(name: str) -> Spec | None:
    """The row of a stored fact; None for one that has none, of an older archive: no cause."""
    rank = _RANKS.get("env_*" if name.startswith("env_") else name)
    return None if rank is None else ROWS[rank - 1]


def cause(name: str) -> int:
    """Its rank among the causes of a change, 1 the likeliest; 0 for none."""
    spec = row(name)
    return 0 if spec is None or spec.moved is None else _RANKS[spec.name]
