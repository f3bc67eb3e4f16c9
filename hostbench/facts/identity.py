"""Facts that name one machine: stored only by someone who asks for it."""

import os
import platform
from collections.abc import Mapping
from functools import partial
from typing import Any

from hostbench.facts.gpu_reads import IDENTITY
from hostbench.facts.nvml import Nvml
from hostbench.facts.record import Group, known, unknown

VARIABLE = "HOSTBENCH_IDENTIFY"
NOT_ASKED = unknown("not asked for (--identify)")


def is_asked(identify: bool | None = None, environ: Mapping[str, str] | None = None) -> bool:
    """`--identify`, or HOSTBENCH_IDENTIFY=1 where there is no command line."""
    if identify is not None:
        return identify
    return (os.environ if environ is None else environ).get(VARIABLE) == "1"


def host_identity(asked: bool) -> Group:
    name = platform.node()
    given = known(name) if name else unknown("the host has no name")
    return {"hostname": given if asked else NOT_ASKED}


def gpu_identity(nvml: Nvml, handle: Any, asked: bool) -> Group:
    if not asked:
        return dict.fromkeys(IDENTITY, NOT_ASKED)
    return {
        name: nvml.read(*[partial(call, nvml.library, handle) for call in calls])
        for name, calls in IDENTITY.items()
    }
