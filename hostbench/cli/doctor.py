"""`hostbench doctor`: what this machine is, what will run on it, and what looks wrong."""

import shutil
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import structs

from hostbench.cli.output import warn
from hostbench.cli.page import show_page
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.facts import (
    collect,
    machine_name,
    nvidia_hardware,
    probe_torch,
    to_json,
    with_memory_copy,
)
from hostbench.families import broken, load
from hostbench.limits.verdict import link_verdicts
from hostbench.report.doctor import coverage, findings, is_broken, page, table


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    machine: str | None = None
    format: str = "text"


def execute(options: DoctorOptions) -> int:
    """Print the page. 0, or 4 where something is broken."""
    torch = probe_torch()
    facts = with_memory_copy(collect(torch_state=torch))
    hardware = nvidia_hardware()
    machine = machine_name(options.machine, facts)
    found = findings(facts, hardware, torch, has_git=shutil.which("git") is not None)
    covered = coverage(load().values(), hardware, torch)
    for why in broken().values():
        warn(why)

    def document() -> dict[str, Any]:
        return {
            "machine": machine,
            "facts": to_json(facts),
            "hardware": asdict(hardware),
            "torch": structs.asdict(torch),
            "runs": covered.runs,
            "skipped": covered.skipped,
            "links": [asdict(each) for each in link_verdicts(facts)],
            "findings": [asdict(each) for each in found],
        }

    show_page(
        options.format,
        lambda: page(machine, facts, torch, found, covered),
        lambda: table(found),
        document,
    )
    return EXIT_FAILED if is_broken(found) else EXIT_OK
