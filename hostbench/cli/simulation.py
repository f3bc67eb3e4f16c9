"""What a declared simulation changes about a run, and what keeps it apart from measured ones."""

import os
from pathlib import Path

from hostbench.cli.output import warn
from hostbench.core.errors import UsageError
from hostbench.core.suggest import why_no_case
from hostbench.device.simulated_file import MARK, VARIABLE, Simulation, declared
from hostbench.facts.machine import checked_name
from hostbench.families import load
from hostbench.runner.places import asv_results


def simulation_of(device: str, root: Path | None, results: Path) -> Simulation | None:
    """The simulation of a run on this device; None where it has none.

    Raises UsageError for a bad file, for a slowdown of no case, and where the run would lie among
    measured ones.
    """
    if not os.environ.get(VARIABLE):
        return None
    if device != MARK:
        warn(f"{VARIABLE} is ignored: this run is on {device}, only --device {MARK} reads it")
        return None
    found = declared()
    if root is not None and asv_results(root).resolve() == results.resolve():
        raise UsageError(
            f"{VARIABLE} is set, and {results} is the folder of measured results that "
            "asv.conf.json names: name another with --results"
        )
    works = load()
    cases = [case for work in works.values() for case in work.cases()]
    for selector, _ in found.slowdown if found else ():
        if not any(selector.selects(case) for case in cases):
            why = why_no_case(selector, {name: work.axes for name, work in works.items()})
            raise UsageError(
                f"{os.environ[VARIABLE]}: slowdown: {selector.text!r} selects no case: {why}; "
                "`hostbench list` names every case"
            )
    return found


def named(name: str, device: str, simulation: Simulation | None) -> str:
    """The machine's name: with the word where the run is a declared simulation, and only there.

    Raises UsageError where a measured run would be filed as a simulated one.
    """
    if simulation is not None:
        return name if MARK in name else checked_name(f"{MARK}-{name}", "--machine")
    if MARK in name and device != MARK:
        raise UsageError(
            f"machine {name!r} is named {MARK}, and this run measures {device}: name it otherwise"
        )
    return name
