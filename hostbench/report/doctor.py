"""The doctor: the machine, what runs, what is skipped, what looks wrong, and what to do about it.
Pure functions on facts."""

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from hostbench.core.case import Case
from hostbench.core.errors import INSTALL_TABLE, TABLE, install
from hostbench.core.units import format_bytes
from hostbench.facts.gpu import Hardware
from hostbench.facts.record import (
    Facts,
    Unknown,
    busy,
    gpu_groups,
    number_of,
    text_of,
    value_of,
    why_unknown,
)
from hostbench.facts.software import TorchState
from hostbench.limits.verdict import link_verdicts
from hostbench.measure.workload import Workload
from hostbench.report.blocks import Block, Column, Table

Severity = Literal["broken", "warn", "note", "ok"]

TORCH_MINIMUM = (2, 6)
ASV_TESTED = "0.6.6"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the doctor's report. `remedy` is empty where nothing needs doing."""

    level: Severity
    text: str
    remedy: str = ""


def findings(
    facts: Facts,
    hardware: Hardware | None = None,
    torch: TorchState | None = None,
    *,
    has_git: bool = True,
) -> list[Diagnosis]:
    """Everything worth a line, the worst first; of stored facts alone what they say of the host,
    its links and GPUs. One `ok` where nothing is wrong."""
    lines = [*_host(facts)]
    if hardware is not None and torch is not None:
        software = _software(facts, hardware, torch, has_git)
        lines = [*software, *_driver(facts, hardware, torch), *lines]
    if not any(line.level in ("broken", "warn") for line in lines):
        lines.append(Diagnosis("ok", "the machine looks fine"))
    return sorted(lines, key=lambda line: get_args(Severity).index(line.level))


def torch_trouble(torch: TorchState) -> Diagnosis | None:
    """Why nothing can be measured at all, or that this version is not supported; else None."""
    if not torch.importable:
        why = f"torch fails: {torch.error}" if torch.installed else "torch is not installed"
        return Diagnosis("broken", f"{why}: nothing runs", install("bench"))
    version, least = _version(torch.version or ""), ".".join(map(str, TORCH_MINIMUM))
    if not torch.version or TORCH_MINIMUM <= version < (TORCH_MINIMUM[0] + 1,):
        return None
    which = "older than" if version < TORCH_MINIMUM else "of a later major version than"
    text = f"torch {torch.version} is {which} {least}, which is supported: cases may fail"
    return Diagnosis("warn", text, install("bench"))


def without_cuda(facts: Facts, hardware: Hardware, torch: TorchState) -> Diagnosis:
    """That there are GPUs, that torch cannot use them, and what may help."""
    remedy = "install a CUDA build of torch (https://pytorch.org/get-started/locally)"
    if torch.cuda_runtime:
        remedy = (
            f"install or repair an NVIDIA driver that supports CUDA {torch.cuda_runtime}; in a "
            "container: --gpus all"
        )
    unknown = [why_unknown(facts, group, "name") for group in gpu_groups(facts)]
    remedies = [*unknown, hardware.why, remedy]
    return Diagnosis(
        "broken",
        f"{hardware.num_gpus} NVIDIA GPU(s) visible ({hardware.seen_by}), but torch.cuda does not "
        f"work: {torch.error}",
        "; ".join(dict.fromkeys(filter(None, remedies)))
        + "; to leave the GPU out on purpose: CUDA_VISIBLE_DEVICES=''",
    )


def _software(
    facts: Facts, hardware: Hardware, torch: TorchState, has_git: bool
) -> Iterator[Diagnosis]:
    """torch, and the tools."""
    if trouble := torch_trouble(torch):
        yield trouble
    if torch.importable and hardware.visible and not torch.cuda_works:
        yield without_cuda(facts, hardware, torch)
    asv = text_of(facts, "software", "asv")
    if asv != ASV_TESTED:
        text = f"asv is {asv or 'not installed'}; hostbench is tested with {ASV_TESTED}"
        yield Diagnosis("warn", text, f"pip install asv=={ASV_TESTED}")
    if not has_git:
        text = "git is missing: runs are scratch, and asv cannot work"
        yield Diagnosis("warn", text, "install git")
    if missing := [name for name in TABLE if importlib.util.find_spec(name) is None]:
        text = f"{' and '.join(missing)} is missing: what is stored cannot be read"
        yield Diagnosis("broken", text, INSTALL_TABLE)


def _driver(facts: Facts, hardware: Hardware, torch: TorchState) -> Iterator[Diagnosis]:
    if torch.cuda_works and text_of(facts, "nvml", "driver") is None:
        text = "no NVML: GPU facts, link ceilings and throttling are unknown"
        yield Diagnosis("warn", text, why_unknown(facts, "nvml", "driver") or "")
    supported, runtime = text_of(facts, "nvml", "cuda_driver"), torch.cuda_runtime
    if supported and runtime and _version(supported)[0] < _version(runtime)[0]:
        text = f"the driver supports CUDA {supported}, torch was built for {runtime}"
        yield Diagnosis("warn", text, "upgrade the NVIDIA driver")
    if text_of(facts, "nvml", "confidential_computing") == "on":
        text = "confidential computing is on: every copy is encrypted through a bounce buffer"
        yield Diagnosis("warn", text, "compare only with machines like it")
    if not hardware.visible:
        yield Diagnosis("note", f"no NVIDIA GPU is used: {hardware.why}")
    groups = gpu_groups(facts)
    for group in groups:
        if why := why_unknown(facts, group, "name"):
            works = len(torch.devices) == len(groups)
            more = " NVML, though CUDA works" * works
            yield Diagnosis("warn" if works else "broken", f"{group} does not answer{more}", why)


def _host(facts: Facts) -> Iterator[Diagnosis]:
    """The host, its links, and each GPU."""
    governor = text_of(facts, "host", "cpu_governor") or ""
    if "powersave" in governor.split(","):
        text = f"the CPU governor is {governor}: host-side times vary"
        yield Diagnosis("warn", text, "cpupower frequency-set -g performance")
    if load := busy(facts, {}):
        yield Diagnosis("warn", f"machine busy: {load}", "measure when it is idle")
    if value_of(facts, "host", "virtualized"):
        yield Diagnosis("note", "a virtual machine: neighbours may show in figures")
    has_nvml = text_of(facts, "nvml", "driver") is not None
    for link in link_verdicts(facts):
        if link.kind != "unknown" or has_nvml:  # else the driver's line says it
            yield Diagnosis(link.level, link.text, link.remedy)
    for group in gpu_groups(facts):
        errors = number_of(facts, group, "ecc_uncorrected_lifetime_total") or 0
        if errors > 0:
            remedy = "see nvidia-smi -q -d ECC; have it replaced"
            yield Diagnosis("warn", f"{group}: {errors:.0f} uncorrected ECC errors", remedy)
        if number_of(facts, group, "num_other_processes"):
            text = f"{group}: other processes compute on it"
            yield Diagnosis("warn", text, "stop them (nvidia-smi shows them)")
        if text_of(facts, group, "mig") == "on":
            text = f"{group}: MIG is on; figures are those of a slice"
            yield Diagnosis("note", text, "nvidia-smi -mig 0 for the whole GPU")


def _version(text: str) -> tuple[int, ...]:
    """`2.13.0+cpu` is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else (0,)


def coverage(
    workloads: Iterable[Workload], hardware: Hardware, torch: TorchState
) -> tuple[Counter[str], Counter[str]]:
    """How many cases `hostbench run` measures here by workload, how many it skips by reason."""
    runs, skipped = Counter[str](), Counter[str]()
    for work in workloads:
        for case in work.cases():
            reason = _skip_reason(work, case, hardware, torch)
            (runs if reason is None else skipped)[reason or work.name] += 1
    return runs, Counter(dict(skipped.most_common()))


def blocks(
    machine: str,
    facts: Facts,
    torch: TorchState,
    diagnoses: list[Diagnosis],
    runs: Counter[str],
    skipped: Counter[str],
) -> list[Block]:
    """The machine, what runs, what is skipped, and last what to know."""
    machines = (Column(("part",), "machine"), Column(("is",), machine))
    about = Table(machines, [{"part": part, "is": text} for part, text in _about(facts, torch)])
    reasons = (Column(("cases",), "cases", right=True), Column(("why",), "skipped: why"))
    skips = Table(reasons, [{"cases": num, "why": why} for why, num in skipped.items()])
    count = f"Will run: {runs.total()} cases; skipped: {skipped.total()}"
    return [about, "", count, *([skips] if skipped else []), "", table_of(diagnoses)]


def table_of(diagnoses: list[Diagnosis]) -> Table:
    """What to know of the machine: a row for each finding."""
    return Table(
        (
            Column(("level",), "level"),
            Column(("what_to_know",), "what to know"),
            Column(("remedy",), "remedy", below=True),
        ),
        [{"level": own.level, "what_to_know": own.text, "remedy": own.remedy} for own in diagnoses],
        status="level",
    )


def _skip_reason(work: Workload, case: Case, hardware: Hardware, torch: TorchState) -> str | None:
    if not torch.importable:
        return "needs torch, which cannot be imported"
    device = str(case.values["device"])
    if device == "cuda" and not hardware.visible:
        return "needs an NVIDIA GPU, none is visible"
    if device == "cuda" and not torch.cuda_works:
        return "torch.cuda does not work"
    if device == "cpu" and hardware.visible:
        return "measured only with --device cpu, as there is a GPU"
    if work.has_ranks and work.options(case).backend == "nccl" and torch.nccl is None:
        return "this torch is built without nccl"
    return work.refusal(case, len(torch.devices))  # NVML shows hidden ones, too


def _about(facts: Facts, torch: TorchState) -> Iterator[tuple[str, str]]:
    """What was measured of the host's memory is among it."""

    def shown(group: str, name: str, form: Callable[[Any], str] = str) -> str:
        fact = facts.get(group, {}).get(name)
        return "unknown" if fact is None else str(fact) if isinstance(fact, Unknown) else form(fact)

    cores, memory = shown("host", "num_usable_cores"), shown("host", "memory_bytes", format_bytes)
    yield "CPU", f"{shown('host', 'cpu_model')}, usable cores: {cores}, memory: {memory}"
    for group in gpu_groups(facts):
        memory = shown(group, "memory_bytes", format_bytes)
        link = " x".join(shown(group, f"pcie_max_{name}") for name in ("generation", "width"))
        yield group.upper(), f"{shown(group, 'name')}, memory: {memory}, PCIe: {link}"
    yield "kernel", f"{shown('host', 'kernel')}; container: {shown('host', 'container')}"
    built = f"built for CUDA {torch.cuda_runtime}" if torch.cuda_runtime else "a build without CUDA"
    yield "torch", f"{torch.version}, {built}" if torch.version else f"none ({torch.error})"
    if gpu_groups(facts):
        yield "driver", shown("nvml", "driver")
