"""The families, found by looking into this folder: one question of the host/device paradigm each.

A family is a package with a module `workloads`, or one module. Nothing lists their names.
"""

import importlib
import pkgutil
from functools import cache

from hostbench.core.errors import UsageError
from hostbench.core.suggest import did_you_mean
from hostbench.measure.workload import Workload, registry


@cache
def names() -> tuple[str, ...]:
    """Every family, in the order that a reader meets them: by `ORDER` of its module (50 unless it
    says otherwise), then by name."""
    found = [module.name for module in pkgutil.iter_modules(__path__)]
    return tuple(sorted(found, key=lambda name: (_order(name), name)))


def load(families: tuple[str, ...] | None = None) -> dict[str, Workload]:
    """Import the families' workloads and return them by name, in declaration order.

    Raises UsageError for a family that does not exist.
    """
    wanted = names() if families is None else families
    for family in wanted:
        if family not in names():
            meant = did_you_mean(family, names())
            raise UsageError(f"unknown family {family!r}{meant}; there are: {', '.join(names())}")
        module = importlib.import_module(f"{__name__}.{family}")
        if hasattr(module, "__path__"):
            importlib.import_module(f"{__name__}.{family}.workloads")
    known = registry().values()
    return {work.name: work for family in wanted for work in known if work.family == family}


def _order(family: str) -> int:
    order: int = getattr(importlib.import_module(f"{__name__}.{family}"), "ORDER", 50)
    return order
