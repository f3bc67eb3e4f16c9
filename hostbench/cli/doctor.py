"""`hostbench doctor`: what this machine is, what will run on it, and what looks wrong."""

import shutil
from dataclasses import asdict
from typing import Any

from msgspec import structs, to_builtins

from hostbench.cli.output import show_page, warn
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, UsageError
from hostbench.facts import collect, machine_name, nvidia_hardware, probe_torch
from hostbench.families import broken, load
from hostbench.limits.verdict import link_verdicts
from hostbench.measure.workload import Workload
from hostbench.report.blocks import Page
from hostbench.report.doctor import Diagnosis, blocks, coverage, findings, table_of


def execute(*, format: str = "text") -> int:
    """Print the page. 0, or 4 where something is broken."""
    torch = probe_torch()
    facts = collect(torch_state=torch)
    hardware = nvidia_hardware()
    machine = machine_name(None, facts)
    diagnoses = findings(facts, hardware, torch, has_git=shutil.which("git") is not None)
    workloads: dict[str, Workload] = {}
    try:
        workloads = load()
        for why in broken().values():
            warn(why)
    except UsageError as error:  # of the project at hand: this machine is looked at all the same
        diagnoses.insert(0, Diagnosis("broken", str(error)))
    runs, skipped = coverage(workloads.values(), hardware, torch)

    def document() -> dict[str, Any]:
        return {
            "machine": machine,
            "facts": to_builtins(facts),
            "hardware": asdict(hardware),
            "torch": structs.asdict(torch),
            "runs": runs,
            "skipped": skipped,
            "links": list(map(asdict, link_verdicts(facts))),
            "findings": list(map(asdict, diagnoses)),
        }

    page = Page(
        blocks=lambda: blocks(machine, facts, torch, diagnoses, runs, skipped),
        table=lambda: table_of(diagnoses),
        document=document,
    )
    show_page(format, page)
    return EXIT_FAILED if any(line.level == "broken" for line in diagnoses) else EXIT_OK
