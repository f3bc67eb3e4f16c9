"""Which facts may explain that a number moved: what differs between two runs, the likeliest first.

What one side did not record says nothing. What moves from minute to minute counts only where it
moved far (MATERIAL). What tells another machine apart (`identity`) breaks a series instead.
"""

from collections.abc import Callable, Iterator, Mapping

from hostbench.facts.record import (
    IDENTITY,
    VOLATILE,
    Difference,
    Fact,
    Facts,
    Value,
    cuda_group,
    is_counter,
    number_of,
    text_of,
)

LIKELY = (
    # the machine, or the part of it that there is
    *("cpu_model", "name", "mig", "num_mig_devices", "num_gpus", "num_usable_cores"),
    *("cpu_quota_cores", "memory_limit_bytes", "numa_nodes_near_gpu", "uuid_sha256"),
    # software
    *("driver", "torch", "torch_cuda_runtime", "cuda_driver", "torch_nccl", "torch_cudnn"),
    *("torch_allocator_backend", "env_", "kernel", "kernel_flags", "python", "vbios"),
    *("gsp_firmware", "gsp_firmware_version", "confidential_computing", "nvlink_bandwidth_mode"),
    # the link under load
    *("pcie_generation", "pcie_width", "pcie_max_generation", "pcie_max_width"),
    # settings
    *("cpu_governor", "cpu_boost", "smt", "power_limit_w", "persistence", "ecc", "compute_mode"),
    *("transparent_huge_pages", "num_huge_pages", "numa_balancing", "pcie_aspm_policy"),
    *("virtualized", "hypervisor", "container", "virtualization", "addressing_mode"),
    # what else went on
    *("throttle_reasons", "sm_clock_mhz", "memory_clock_mhz", "num_other_processes"),
    *("foreign_cpu_share", "steal_share", "memory_copy_bytes_per_s", "temperature_c"),
)
"""Names, the likeliest cause first; what is not listed comes last."""

NEVER = frozenset(
    {"hostbench", "asv", "asv_runner", "nvidia_ml_py", "nvml_version", "cuda_device_order"}
    | {"gpm_supported", "mig_pending", "ecc_pending", "cuda_index"}
)
"""The code under test itself, and what only watches or stores: no cause of a step."""

ABSENT_COUNTS = frozenset({"cpu_quota_cores", "memory_limit_bytes"})
"""No value means that there is no such limit, which is a state like any other."""

HARMLESS = frozenset({"none", "idle", "application-clocks"})

Moved = Callable[[Value, Value], bool]


def _differs(old: Value, new: Value) -> bool:
    return old != new


def _by(absolute: float = 0.0, relative: float = 0.0) -> Moved:
    def moved(old: Value, new: Value) -> bool:
        if not isinstance(old, int | float) or not isinstance(new, int | float):
            return False
        return abs(new - old) >= max(absolute, relative * abs(old))

    return moved


def _throttled_otherwise(old: Value, new: Value) -> bool:
    before, after = (frozenset(str(value).split(",")) - HARMLESS for value in (old, new))
    return before != after


MATERIAL: dict[str, Moved] = {
    "pcie_generation": _differs,
    "pcie_width": _differs,
    "throttle_reasons": _throttled_otherwise,
    "sm_clock_mhz": _by(relative=0.05),
    "memory_clock_mhz": _by(relative=0.05),
    "temperature_c": _by(absolute=15),
    "num_other_processes": _differs,
    "foreign_cpu_share": _by(absolute=0.1),
    "steal_share": _by(absolute=0.05),
    "memory_copy_bytes_per_s": _by(relative=0.1),
}
"""How far a fact that always moves must move to be a cause; VOLATILE facts not listed never are.
Of a run that was watched the reading under load counts, else the one before it."""


def possible(before: Mapping[str, Facts], after: Mapping[str, Facts]) -> list[Difference]:
    """What differs between two runs and may be a cause; each run is `before`, `during` -> facts."""
    found = list(_steady(before.get("before", {}), after.get("before", {})))
    found += _moving(_of_a_run(before), _of_a_run(after))
    return sorted(found, key=lambda one: (_rank(one.name), one.group, one.name))


def identity(facts: Facts) -> dict[str, str]:
    """What makes it another machine: CPU, the GPU that runs, MIG. Only what is known."""
    ran = cuda_group(facts) or ""
    parts = {
        "cpu": text_of(facts, "host", "cpu_model"),
        "gpu": text_of(facts, ran, "name"),
        "mig": text_of(facts, ran, "mig"),
    }
    if parts["mig"] == "on":
        slices = number_of(facts, ran, "num_mig_devices")
        parts["mig"] = "on" if slices is None else f"{slices:.0f} slices"
    return {name: value for name, value in parts.items() if value}


def _rank(name: str) -> int:
    name = "env_" if name.startswith("env_") else name
    return LIKELY.index(name) if name in LIKELY else len(LIKELY)


def _of_a_run(run: Mapping[str, Facts]) -> Facts:
    """Facts that move: those read under load over those from before."""
    whole = {group: dict(members) for group, members in run.get("before", {}).items()}
    for group, members in run.get("during", {}).items():
        known = {name: fact for name, fact in members.items() if fact.why is None}
        whole.setdefault(group, {}).update(known)
    return whole


def _pairs(old: Facts, new: Facts) -> Iterator[tuple[str, str, Fact | None, Fact | None]]:
    for group in old:
        for name in {**old[group], **new.get(group, {})} if group in new else ():
            yield group, name, old[group].get(name), new[group].get(name)


def _steady(old: Facts, new: Facts) -> Iterator[Difference]:
    for group, name, first, second in _pairs(old, new):
        if name in IDENTITY | NEVER | VOLATILE | set(MATERIAL) or is_counter(name):
            continue
        if _changed(name, first, second):
            yield Difference(group=group, name=name, before=first, after=second)


def _changed(name: str, old: Fact | None, new: Fact | None) -> bool:
    if name.startswith("env_"):
        return _setting(old) != _setting(new)
    if old is None or new is None:
        return False
    both = old.why is None and new.why is None
    return (both or name in ABSENT_COUNTS) and old.value != new.value


def _setting(fact: Fact | None) -> str:
    """A variable that was not recorded was not set: only NCCL's are recorded when they are."""
    return "not set" if fact is None or fact.why == "not set" else str(fact)


def _moving(old: Facts, new: Facts) -> Iterator[Difference]:
    for group, name, first, second in _pairs(old, new):
        moved = MATERIAL.get(name)
        if moved is None or first is None or second is None or first.why or second.why:
            continue
        if moved(first.value, second.value):
            yield Difference(group=group, name=name, before=first, after=second)
