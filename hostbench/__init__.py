"""What each habit of feeding a GPU costs, on this machine and over time.

For workloads, in a file of benchmarks/: `from hostbench import DEVICES, MIB, suite, workload`.
These names are frozen: asv imports such a file with the hostbench of each commit.
In a workload over ranks: `hostbench.rank_group()`.
Importing hostbench touches no torch, no NVML, no clock.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hostbench.core.units import GIB as GIB
    from hostbench.core.units import KIB as KIB
    from hostbench.core.units import MIB as MIB
    from hostbench.device.base import Device as Device
    from hostbench.families.question import Compare as Compare
    from hostbench.families.question import Curve as Curve
    from hostbench.families.question import Finding as Finding
    from hostbench.families.question import Parts as Parts
    from hostbench.families.question import Question as Question
    from hostbench.families.question import Scaling as Scaling
    from hostbench.measure.measure import Prepared as Prepared
    from hostbench.measure.workload import DEVICES as DEVICES
    from hostbench.measure.workload import workload as workload
    from hostbench.ranks.rank import rank_group as rank_group

__version__ = "0.2.0"

_HOME = {
    **dict.fromkeys(("KIB", "MIB", "GIB"), "hostbench.core.units"),
    "DEVICES": "hostbench.measure.workload",
    "Device": "hostbench.device.base",
    "workload": "hostbench.measure.workload",
    "Prepared": "hostbench.measure.measure",
    "rank_group": "hostbench.ranks.rank",
    **dict.fromkeys(
        ("Compare", "Curve", "Finding", "Parts", "Question", "Scaling"),
        "hostbench.families.question",
    ),
}
"""Public name -> the module that it is taken from when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hostbench' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
