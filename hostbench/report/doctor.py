"""The doctor's page: the machine, what runs, what is skipped, what looks wrong."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hostbench.core.case import Case
from hostbench.core.units import GB, format_bytes, format_rate
from hostbench.facts.hardware import Hardware
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of, value_of
from hostbench.facts.torch_probe import TorchState
from hostbench.limits.ceiling import ALL_CORES, ONE_THREAD
from hostbench.measure.workload import Workload
from hostbench.ranks.backends import BACKENDS
from hostbench.report.findings import Diagnosis
from hostbench.report.table import Cell, Column, Part, Table

_COLUMNS = (
    Column(title="level", keys=("level",)),
    Column(title="what to know", keys=("what_to_know",)),
    Column(title="remedy", keys=("remedy",), below=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many cases a plain `hostbench run` measures here, and why the others are left out."""

    runs: Mapping[str, int]
    """Cases that run, by workload; 0 where none does."""
    skipped: Mapping[str, int]
    """Cases that do not, by reason."""


def coverage(workloads: Iterable[Workload], hardware: Hardware, torch: TorchState) -> Coverage:
    """Sort every case by what this machine can do."""
    runs: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for work in workloads:
        runs[work.name] = 0
        for case in work.cases():
            reason = _skip_reason(work, case, hardware, torch)
            if reason is None:
                runs[work.name] += 1
            else:
                skipped[reason] += 1
    return Coverage(runs=dict(runs), skipped=dict(skipped.most_common()))


def page(
    machine: str, facts: Facts, torch: TorchState, found: list[Diagnosis], covered: Coverage
) -> list[Part]:
    """The machine, what runs, what is skipped, and last what to know."""
    about = (Column(title="machine", keys=("part",)), Column(title=machine, keys=("is",)))
    return [
        Table(columns=about, rows=tuple(_about(facts, torch))),
        "",
        f"Will run: {sum(covered.runs.values())} cases",
        *_counted("workload", covered.runs),
        f"Skipped: {sum(covered.skipped.values())} cases",
        *_counted("why", covered.skipped),
        table(found),
    ]


def table(found: list[Diagnosis]) -> Table:
    """What to know of the machine: a row for each finding."""
    return Table(columns=_COLUMNS, rows=tuple((one.level, one.text, one.remedy) for one in found))


def _counted(title: str, nums: Mapping[str, int]) -> Iterator[Part]:
    """Cases by their workload or by the reason, and an empty line; without those of none."""
    rows = tuple((Cell(str(num), (num,)), name) for name, num in nums.items() if num)
    cases = Column(title="cases", keys=("cases",), right=True)
    if rows:
        yield Table(columns=(cases, Column(title=title, keys=(title,))), rows=rows)
    yield ""


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
    return work.refusal(case, hardware.num_gpus) or BACKENDS[device].refusal(
        work.num_ranks(case) or 1, hardware.num_gpus
    )


def _about(facts: Facts, torch: TorchState) -> Iterator[tuple[str, str]]:
    cores = number_of(facts, "host", "num_usable_cores")
    memory = number_of(facts, "host", "memory_bytes")
    parts = [
        text_of(facts, "host", "cpu_model") or "unknown CPU",
        "cores unknown" if cores is None else f"{cores:.0f} usable cores",
        "memory unknown" if memory is None else f"{format_bytes(int(memory))} memory",
    ]
    yield "CPU", ", ".join(parts)
    yield from _memory_copy(facts)
    for group in gpu_groups(facts):
        yield group.upper(), _gpu_line(facts, group)
    container = _shown(facts, "host", "container")
    yield "kernel", f"{_shown(facts, 'host', 'kernel')}; container: {container}"
    built = f"built for CUDA {torch.cuda_runtime}" if torch.cuda_runtime else "a build without CUDA"
    yield "torch", f"{torch.version}, {built}" if torch.version else f"none ({torch.error})"
    if gpu_groups(facts):
        yield "driver", _shown(facts, "nvml", "driver")


def _memory_copy(facts: Facts) -> Iterator[tuple[str, str]]:
    """What was measured of the host's memory, if it was."""
    one, all_cores = (number_of(facts, "host", name) for name in (ONE_THREAD, ALL_CORES))
    if one is not None and all_cores is not None:
        rates = format_rate(one / GB), format_rate(all_cores / GB)
        yield "memory", f"copies {rates[0]} on 1 thread, {rates[1]} on all cores (measured)"


def _gpu_line(facts: Facts, group: str) -> str:
    memory = number_of(facts, group, "memory_bytes")
    link = [value_of(facts, group, f"pcie_{name}") for name in ("max_generation", "max_width")]
    parts = [_shown(facts, group, "name")]
    parts += [format_bytes(int(memory))] if memory is not None else []
    parts += [f"PCIe {link[0]} x{link[1]}"] if None not in link else []
    return ", ".join(parts)


def _shown(facts: Facts, group: str, name: str) -> str:
    fact = facts.get(group, {}).get(name)
    return "unknown" if fact is None else str(fact)
