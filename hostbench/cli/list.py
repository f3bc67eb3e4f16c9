"""`hostbench list`: the workloads, their axes, and their cases."""

import json
from dataclasses import dataclass

from hostbench.core.errors import EXIT_OK
from hostbench.families import load
from hostbench.families.transfer.nvbandwidth import equivalent_of
from hostbench.measure.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    families: tuple[str, ...] = ()
    cases: bool = False
    format: str = "text"


def execute(options: ListOptions) -> int:
    """Print the workloads of the families named, or every case of them with --cases."""
    workloads = load(options.families or None)
    if options.format == "json":
        print(json.dumps([_as_json(work, options.cases) for work in workloads.values()], indent=2))
    elif options.cases:
        for work in workloads.values():
            for case in work.cases():
                print(case)
    else:
        print("\n".join(_as_text(work) for work in workloads.values()))
    return EXIT_OK


def _as_text(work: Workload) -> str:
    cases = list(work.cases())
    quick = sum(work.is_quick(case) for case in cases)
    axes = "\n".join(
        f"    {name}: {', '.join(map(str, values))}" for name, values in work.axes.items()
    )
    peer = equivalent_of(work.name)
    same = f"\n    nvbandwidth: {peer}" if peer else ""
    return (
        f"{work.name}  version {work.version}, {len(cases)} cases, {quick} of them quick\n"
        f"    {work.question}\n{axes}{same}"
    )


def _as_json(work: Workload, with_cases: bool) -> dict[str, object]:
    about: dict[str, object] = {
        "workload": work.name,
        "version": work.version,
        "question": work.question,
        "axes": {name: list(values) for name, values in work.axes.items()},
        "nvbandwidth": equivalent_of(work.name),
    }
    if with_cases:
        about["cases"] = [str(case) for case in work.cases()]
    return about
