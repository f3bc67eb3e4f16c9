"""The doctor's page: the machine, what runs, what is skipped, what looks wrong."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hostbench.core.case import Case
from hostbench.core.units import GB, format_bytes, format_rate
from hostbench.facts.hardware import Hardware
from hostbench.facts.record import Facts, gpu_groups, number_of, text_of, value_of
from hostbench.facts.torch_probe import TorchState
from hostbench.limits.ceiling import ALL_CORES, ONE_THREAD
from hostbench.measure.workload import Workload
from hostbench.ranks.backends import BACKENDS
from hostbench.report.findings import Diagnosis, findings, is_broken
from hostbench.report.table import Cell, Column, Part, Table

__all__ = ["Coverage", "Diagnosis", "coverage", "findings", "is_broken", "page", "render"]

WIDTH = 100
_MARKS = {"broken": "BROKEN", "warn": "warn", "note": "note", "ok": "ok"}


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


def render(
    machine: str, facts: Facts, torch: TorchState, found: list[Diagnosis], covered: Coverage
) -> str:
    """The whole page; ends with a newline."""
    blocks = [[f"Machine {machine}", *_machine_lines(facts, torch)], _coverage_lines(covered)]
    blocks.append(["What to know", *[line for each in found for line in _finding_lines(each)]])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def page(
    machine: str, facts: Facts, torch: TorchState, found: list[Diagnosis], covered: Coverage
) -> list[Part]:
    """The same for Markdown and CSV: what to know first, then what runs and what is skipped."""
    levels = tuple((each.level, each.text, each.remedy) for each in found)
    counted = covered.runs.items(), covered.skipped.items()
    runs, skipped = (
        tuple((name, Cell(str(num), (num,))) for name, num in each if num) for each in counted
    )
    lines = (" ".join(line.split()) for line in _machine_lines(facts, torch))
    return [
        f"Machine {machine}",
        "",
        *(f"  {line}" for line in lines),
        "",
        _table(("level", "what to know", "remedy"), levels),
        "",
        _table(("will run", "cases"), runs),
        "",
        _table(("skipped", "cases"), skipped),
    ]


def _table(names: tuple[str, ...], rows: tuple[tuple[str | Cell, ...], ...]) -> Table:
    columns = (Column(title=name, keys=(name.replace(" ", "_"),)) for name in names)
    return Table(columns=tuple(columns), rows=rows)


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


def _machine_lines(facts: Facts, torch: TorchState) -> list[str]:
    cores = number_of(facts, "host", "num_usable_cores")
    memory = number_of(facts, "host", "memory_bytes")
    parts = [
        text_of(facts, "host", "cpu_model") or "unknown CPU",
        "cores unknown" if cores is None else f"{cores:.0f} usable cores",
        "memory unknown" if memory is None else f"{format_bytes(int(memory))} memory",
    ]
    lines = [f"  CPU     {', '.join(parts)}"]
    lines += [f"  memory  {line}" for line in _memory_copy(facts)]
    lines += [f"  {group.upper():7} {_gpu_line(facts, group)}" for group in gpu_groups(facts)]
    lines.append(f"  kernel  {_shown(facts, 'host', 'kernel')}; container: ")
    lines[-1] += _shown(facts, "host", "container")
    built = f"built for CUDA {torch.cuda_runtime}" if torch.cuda_runtime else "a build without CUDA"
    version = f"{torch.version}, {built}" if torch.version else f"none ({torch.error})"
    lines.append(f"  torch   {version}")
    if gpu_groups(facts):
        lines.append(f"  driver  {_shown(facts, 'nvml', 'driver')}")
    return lines


def _memory_copy(facts: Facts) -> list[str]:
    """What was measured of the host's memory, if it was."""
    one, all_cores = (number_of(facts, "host", name) for name in (ONE_THREAD, ALL_CORES))
    if one is None or all_cores is None:
        return []
    rates = format_rate(one / GB), format_rate(all_cores / GB)
    return [f"copies {rates[0]} on 1 thread, {rates[1]} on all cores (measured)"]


def _gpu_line(facts: Facts, group: str) -> str:
    memory = number_of(facts, group, "memory_bytes")
    link = [value_of(facts, group, f"pcie_{name}") for name in ("max_generation", "max_width")]
    parts = [_shown(facts, group, "name")]
    parts += [format_bytes(int(memory))] if memory is not None else []
    parts += [f"PCIe {link[0]} x{link[1]}"] if None not in link else []
    return ", ".join(parts)


def _coverage_lines(covered: Coverage) -> list[str]:
    width = max(map(len, covered.runs), default=0)
    lines = [f"Will run: {sum(covered.runs.values())} cases"]
    lines += [f"  {name:{width}}  {number}" for name, number in covered.runs.items() if number]
    if covered.skipped:
        lines.append(f"Skipped: {sum(covered.skipped.values())} cases")
        lines += [f"  {number:4}  {reason}" for reason, number in covered.skipped.items()]
    return lines


def _finding_lines(finding: Diagnosis) -> list[str]:
    lines = _wrapped(f"  {_MARKS[finding.level]:7} ", finding.text)
    return lines + (_wrapped(" " * 10 + "-> ", finding.remedy) if finding.remedy else [])


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shown(facts: Facts, group: str, name: str) -> str:
    fact = facts.get(group, {}).get(name)
    return "unknown" if fact is None else str(fact)
