"""The families: one file each, one question of the host/device paradigm each."""

import importlib

from hostbench.errors import UsageError
from hostbench.workload import Workload, registry

FAMILIES = ("transfer", "allocation", "overlap", "collectives")


def load(families: tuple[str, ...] = FAMILIES) -> dict[str, Workload]:
    """Import the families' files and return their workloads by name, in declaration order.

    Raises UsageError for a family that does not exist.
    """
    for family in families:
        if family not in FAMILIES:
            raise UsageError(f"unknown family {family!r}; there are: {', '.join(FAMILIES)}")
        importlib.import_module(f"hostbench.workloads.{family}")
    known = registry().values()
    return {work.name: work for family in families for work in known if work.family == family}
