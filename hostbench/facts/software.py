"""Facts about the software: versions, and the environment variables that change a measurement."""

import os
import platform
from collections.abc import Callable, Mapping
from importlib import metadata

import hostbench
from hostbench.facts.environment import variables
from hostbench.facts.record import Fact, Group, known, unknown
from hostbench.facts.torch_probe import TorchState

PACKAGES = {"torch": "torch", "numpy": "numpy", "asv": "asv", "asv_runner": "asv_runner"} | {
    "nvidia_ml_py": "nvidia-ml-py"
}


def software_facts(
    with_torch: bool = False,
    environ: Mapping[str, str] | None = None,
    torch_state: TorchState | None = None,
) -> Group:
    """Versions and settings. Imports torch only where `with_torch` says that this process may.

    `torch_state` (of `probe_torch`) tells a process that must not import torch what torch says.
    """
    group = {"python": known(platform.python_version()), "hostbench": known(hostbench.__version__)}
    group.update({name: _version(package) for name, package in PACKAGES.items()})
    if with_torch:
        group.update(_imported_torch())
    else:
        group.update(_torch_group(torch_state))
    group.update(variables(os.environ if environ is None else environ))
    return group


def _version(package: str) -> Fact:
    try:
        return known(metadata.version(package))
    except metadata.PackageNotFoundError:
        return unknown("not installed")


def _torch_group(state: TorchState | None) -> Group:
    names = ("torch_cuda_runtime", "torch_cudnn", "torch_nccl", "torch_allocator_backend")
    if state is None:
        return {name: unknown("torch was not imported to read it") for name in names}
    if not state.importable:
        return {name: unknown(state.error or "torch cannot be imported") for name in names}
    values = (state.cuda_runtime, state.cudnn, state.nccl, state.allocator_backend)
    group = {
        name: known(value) if value else unknown("this torch was built without it")
        for name, value in zip(names, values, strict=True)
    }
    if state.cuda_runtime and not state.allocator_backend:
        group["torch_allocator_backend"] = unknown("torch.cuda was not started to read it")
    return group


def _imported_torch() -> Group:
    """Reads an imported torch; touches no CUDA context."""
    try:
        import torch

        read_cudnn: Callable[[], int | None] = torch.backends.cudnn.version
        read_nccl: Callable[[], tuple[int, ...]] = torch.cuda.nccl.version
        cudnn, dist = read_cudnn(), torch.distributed
        has_nccl = torch.version.cuda and dist.is_available() and dist.is_nccl_available()
        nccl = ".".join(map(str, read_nccl())) if has_nccl else None
    except (ImportError, OSError, RuntimeError) as error:
        return _torch_group(TorchState(installed=False, importable=False, error=str(error)))
    return _torch_group(
        TorchState(
            installed=True,
            importable=True,
            cuda_runtime=torch.version.cuda,
            cudnn=str(cudnn) if cudnn else None,
            nccl=nccl,
        )
    )
