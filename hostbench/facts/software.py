"""Facts about the software: versions, and the environment variables that change a measurement."""

import os
from collections.abc import Mapping
from importlib import metadata

from hostbench.facts.environment import variables
from hostbench.facts.record import Fact, Group, known, unknown
from hostbench.facts.spec import rows_of
from hostbench.facts.torch_probe import TorchState

PACKAGES = ("torch", "asv")
_TORCH = ("cuda_runtime", "cudnn", "nccl", "allocator_backend")


def software_facts(
    environ: Mapping[str, str] | None = None, torch_state: TorchState | None = None
) -> Group:
    """Versions and settings. `torch_state` (of `probe_torch`) is what torch says; none is imported
    here."""
    own = {
        row.name: known(read())
        for row in rows_of("software")
        for read in row.read
        if callable(read)
    }
    packages = {name: _version(name) for name in PACKAGES}
    torch = {f"torch_{name}": _of_torch(torch_state, name) for name in _TORCH}
    return own | packages | torch | variables(os.environ if environ is None else environ)


def _version(package: str) -> Fact:
    try:
        return known(metadata.version(package))
    except metadata.PackageNotFoundError:
        return unknown("not installed")


def _of_torch(state: TorchState | None, name: str) -> Fact:
    if state is None:
        return unknown("torch was not imported to read it")
    if not state.importable:
        return unknown(state.error or "torch cannot be imported")
    value = getattr(state, name)
    if value:
        return known(value)
    if name == "allocator_backend" and state.cuda_runtime:
        return unknown("torch.cuda was not started to read it")
    return unknown("this torch was built without it")
