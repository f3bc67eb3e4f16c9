"""What looks wrong on this machine, and what to do about it: pure functions on facts."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hostbench.facts.hardware import Hardware
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of, value_of
from hostbench.facts.torch_probe import TorchState
from hostbench.limits.verdict import link_verdicts

Level = Literal["broken", "warn", "note", "ok"]

TORCH_MINIMUM = (2, 6)
ASV_TESTED = "0.6.6"
STEAL_LIMIT = 0.01
"""Above this share of stolen time, neighbours on the host show in the figures."""

_ORDER = ("broken", "warn", "note", "ok")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the doctor's report. `remedy` is empty where nothing needs doing."""

    level: Level
    text: str
    remedy: str = ""


def findings(
    facts: Facts, hardware: Hardware, torch: TorchState, *, has_git: bool = True
) -> list[Diagnosis]:
    """Everything worth a line, the worst first. One `ok` where nothing is wrong."""
    found = [*_torch(hardware, torch), *_tools(facts, has_git), *_host(facts)]
    found += _driver(facts, hardware, torch)
    found += _links(facts)
    for group in gpu_groups(facts):
        found += _state(facts, group)
    if not any(each.level in ("broken", "warn") for each in found):
        found.append(Diagnosis("ok", "nothing looks wrong"))
    return sorted(found, key=lambda each: _ORDER.index(each.level))


def is_broken(found: list[Diagnosis]) -> bool:
    return any(each.level == "broken" for each in found)


def _torch(hardware: Hardware, torch: TorchState) -> Iterator[Diagnosis]:
    install = "pip install 'hostbench[bench]'"
    if not torch.installed:
        yield Diagnosis("broken", "torch is not installed: nothing runs", install)
        return
    if not torch.importable:
        yield Diagnosis("broken", f"torch fails: {torch.error}", install)
        return
    if torch.version and _version(torch.version) < TORCH_MINIMUM:
        minimum = ".".join(map(str, TORCH_MINIMUM))
        text = f"torch {torch.version} is older than {minimum}, the oldest that is supported"
        yield Diagnosis("warn", text, install)
    if hardware.visible and not torch.cuda_works:
        yield Diagnosis(
            "broken",
            f"{hardware.num_gpus} NVIDIA GPU(s) visible ({hardware.seen_by}), but torch.cuda "
            f"does not work: {torch.error}",
            _cuda_remedy(hardware, torch),
        )


def _cuda_remedy(hardware: Hardware, torch: TorchState) -> str:
    if torch.cuda_runtime is None:
        remedy = "install a CUDA build of torch (https://pytorch.org/get-started/locally)"
    elif hardware.seen_by == "pci":
        remedy = "install the NVIDIA driver, or start the container with its GPUs (--gpus all)"
    else:
        remedy = f"install a driver that supports CUDA {torch.cuda_runtime}, or mend it"
    return f"{remedy}; to leave the GPU out on purpose: CUDA_VISIBLE_DEVICES=''"


def _tools(facts: Facts, has_git: bool) -> Iterator[Diagnosis]:
    asv, remedy = text_of(facts, "software", "asv"), f"pip install asv=={ASV_TESTED}"
    if asv is None:
        yield Diagnosis("warn", "asv is not installed: no history", remedy)
    elif asv != ASV_TESTED:
        text = f"asv is {asv}; hostbench is tested with {ASV_TESTED}"
        yield Diagnosis("warn", text, remedy)
    if not has_git:
        text = "git is missing: runs are scratch, and asv cannot work"
        yield Diagnosis("warn", text, "install git")


def _host(facts: Facts) -> Iterator[Diagnosis]:
    governor = text_of(facts, "host", "cpu_governor") or ""
    if "powersave" in governor.split(","):
        text = f"the CPU governor is {governor}: host-side times vary"
        yield Diagnosis("warn", text, "cpupower frequency-set -g performance")
    load = number_of(facts, "host", "load_average_1min")
    cores = number_of(facts, "host", "num_logical_cores")
    if load is not None and cores is not None and load > cores:
        text = f"load average {load:.1f} on {cores:.0f} cores: others use this machine"
        yield Diagnosis("warn", text, "measure when it is idle")
    steal = number_of(facts, "host", "steal_share_since_boot") or 0
    if steal > STEAL_LIMIT:
        text = f"the hypervisor took {steal:.1%} of the CPU time since boot"
        yield Diagnosis("warn", text, "use dedicated cores, or more launches")
    if value_of(facts, "host", "virtualized"):
        name = text_of(facts, "host", "hypervisor")
        text = f"a virtual machine{f' ({name})' if name else ''}: neighbours may show in figures"
        yield Diagnosis("note", text)


def _driver(facts: Facts, hardware: Hardware, torch: TorchState) -> Iterator[Diagnosis]:
    if hardware.visible and text_of(facts, "nvml", "driver") is None:
        fact = facts.get("nvml", {}).get("driver")
        text = "no NVML: GPU facts, link ceilings and throttling are unknown"
        yield Diagnosis("warn", text, (fact.why if fact else None) or "")
    supported, runtime = text_of(facts, "nvml", "cuda_driver"), torch.cuda_runtime
    if supported and runtime and _version(supported)[0] < _version(runtime)[0]:
        text = f"the driver supports CUDA {supported}, torch was built for {runtime}"
        yield Diagnosis("warn", text, "upgrade the NVIDIA driver")
    if text_of(facts, "nvml", "confidential_computing") == "on":
        text = "confidential computing is on: every copy is encrypted through a bounce buffer"
        yield Diagnosis("warn", text, "compare only with machines like it")
    if not hardware.visible:
        yield Diagnosis("note", f"no NVIDIA GPU is used: {hardware.why}")


def _links(facts: Facts) -> Iterator[Diagnosis]:
    for each in link_verdicts(facts):
        yield Diagnosis(each.level, each.text, each.remedy)


def _state(facts: Facts, group: str) -> Iterator[Diagnosis]:
    errors = number_of(facts, group, "ecc_uncorrected_lifetime_total") or 0
    if errors > 0:
        text = f"{group}: {errors:.0f} uncorrected ECC errors"
        yield Diagnosis("warn", text, "see nvidia-smi -q -d ECC; have it replaced")
    if number_of(facts, group, "num_other_processes"):
        text = f"{group}: other processes compute on it"
        yield Diagnosis("warn", text, "stop them (nvidia-smi shows them)")
    if text_of(facts, group, "mig") == "on":
        text = f"{group}: MIG is on; figures are those of a slice"
        yield Diagnosis("note", text, "nvidia-smi -mig 0 for the whole GPU")
    name = facts[group].get("name")
    if name is not None and name.why:
        yield Diagnosis("broken", f"{group} does not answer", name.why)
    if any("driver is too old" in (fact.why or "") for fact in facts[group].values()):
        text = f"{group}: the driver is too old for some facts"
        yield Diagnosis("note", text, "upgrade the NVIDIA driver")


def _version(text: str) -> tuple[int, ...]:
    """`2.13.0+cpu` is (2, 13, 0)."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)
