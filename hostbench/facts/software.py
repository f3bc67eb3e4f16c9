"""Facts about the software: versions, and the environment variables that change a measurement."""

import hashlib
import os
import platform
import re
from collections.abc import Callable, Mapping
from importlib import metadata

import hostbench
from hostbench.facts.record import Fact, Group, known, unknown
from hostbench.facts.torch_probe import TorchState

PACKAGES = {"torch": "torch", "numpy": "numpy", "asv": "asv", "asv_runner": "asv_runner"} | {
    "nvidia_ml_py": "nvidia-ml-py"
}
VARIABLES = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""These and NCCL_* are stored, nothing else of the environment."""

_PRIVATE = frozenset({"NCCL_COMM_ID", "NCCL_HOSTID"})
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9A-Fa-f-]{8,}(?:/\d+)*")


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
    group.update(_variables(os.environ if environ is None else environ))
    return group


def hash_uuid(uuid: str) -> str:
    """What is stored of a GPU's UUID: enough to tell two GPUs apart, not to find one."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def _version(package: str) -> Fact:
    try:
        return known(metadata.version(package))
    except metadata.PackageNotFoundError:
        return unknown("not installed")


def _torch_group(state: TorchState | None) -> Group:
    names = ("torch_cuda_runtime", "torch_cudnn", "torch_nccl")
    if state is None:
        return {name: unknown("torch was not imported to read it") for name in names}
    if not state.importable:
        return {name: unknown(state.error or "torch cannot be imported") for name in names}
    values = (state.cuda_runtime, state.cudnn, state.nccl)
    missing = "this torch was built without it"
    return {
        name: known(value) if value else unknown(missing)
        for name, value in zip(names, values, strict=True)
    }


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


def _variables(environ: Mapping[str, str]) -> Group:
    names = [*VARIABLES, *sorted(name for name in environ if name.startswith("NCCL_"))]
    return {f"env_{name}": _variable(name, environ.get(name)) for name in names}


def _variable(name: str, value: str | None) -> Fact:
    if value is None:
        return unknown("not set")
    if name in _PRIVATE:
        return unknown("set, but it names a host: not stored")
    hashed = _UUID.sub(lambda match: f"uuid-sha256:{hash_uuid(match[0])}", value)
    if "/" in hashed or "\\" in hashed:
        return unknown("set to a path: not stored")
    return known(hashed)
