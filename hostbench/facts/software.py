"""Facts about the software: versions, and the environment variables that change a measurement; no
others are stored, and nothing that names a path, a host or a user."""

import getpass
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata

from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import NOT_SET, Fact, Group, known, unknown
from hostbench.facts.torch_probe import TorchState

VARIABLES = (
    # allocators
    "PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING "
    "MALLOC_ARENA_MAX MALLOC_CONF GLIBC_TUNABLES LD_PRELOAD "
    # which GPU, and how CUDA feeds it
    "CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER NVIDIA_VISIBLE_DEVICES CUDA_LAUNCH_BLOCKING "
    "CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_MAX_COPY_CONNECTIONS CUDA_SCALE_LAUNCH_QUEUES "
    "CUDA_MODULE_LOADING CUDA_MODULE_DATA_LOADING CUDA_FORCE_PTX_JIT CUDA_CACHE_DISABLE "
    "CUDA_AUTO_BOOST CUDA_DISABLE_PERF_BOOST CUDA_MPS_PIPE_DIRECTORY "
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE CUDA_INJECTION64_PATH "
    # what the profiler sees, and when it lets go of CUDA
    "TEARDOWN_CUPTI DISABLE_CUPTI_LAZY_REINIT "
    # arithmetic
    "NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE CUBLAS_WORKSPACE_CONFIG "
    "CUBLASLT_WORKSPACE_SIZE TORCH_BLAS_PREFER_CUBLASLT DISABLE_ADDMM_CUDA_LT "
    "ATEN_CPU_CAPABILITY DNNL_MAX_CPU_ISA "
    # threads
    "OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES OMP_WAIT_POLICY GOMP_CPU_AFFINITY "
    "KMP_AFFINITY KMP_BLOCKTIME MKL_NUM_THREADS OPENBLAS_NUM_THREADS PYTHONMALLOC "
).split()
PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "KINETO_")

_PRIVATE = tuple(
    "_FILE _DIR _DIRECTORY _PATH _NAME _HOST _HOSTID _COMM_ID _ADDR _ADDR_RANGE".split()
)
"""Variables that end so hold a path or name a host."""
_SHORT = 2
"""Names of so many letters count as whole words only."""
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9A-Fa-f][0-9A-Fa-f-]*(?:/\d+)*")
_OF_TORCH = ("cuda_runtime", "nccl", "allocator_backend")


def software_facts(
    environ: Mapping[str, str] | None = None, torch_state: TorchState | None = None
) -> Group:
    """Versions and settings. `torch_state` (of `probe_torch`) is what torch says; none is imported
    here."""
    environ = os.environ if environ is None else environ
    names = [*VARIABLES, *sorted(name for name in environ if name.startswith(PREFIXES))]
    owners = _owners(environ)
    return {
        "python": known(platform.python_version()),
        **{package: _version(package) for package in ("torch", "asv")},
        **{f"torch_{name}": _of_torch(torch_state, name) for name in _OF_TORCH},
        **{f"env_{name}": _variable(name, environ.get(name), owners) for name in names},
    }


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
    if value := getattr(state, name):
        return known(value)
    if name == "allocator_backend" and state.cuda_runtime:
        return unknown("torch.cuda was not started to read it")
    return unknown("this torch was built without it")


def _owners(environ: Mapping[str, str]) -> set[str]:
    """What this machine and its user are called, in lower case."""
    node = platform.node()
    names = {node, node.partition(".")[0], *map(environ.get, ("USER", "LOGNAME", "HOSTNAME"))}
    try:
        names.add(getpass.getuser())
    except (KeyError, OSError, ImportError):
        pass  # a container's user without a name
    return {name.lower() for name in names if name}


def _variable(name: str, value: str | None, owners: set[str]) -> Fact:
    if value is None:
        return unknown(NOT_SET)
    if name.endswith(_PRIVATE):
        return unknown("set, but it may name a path or a host: not stored")
    hashed = _UUID.sub(lambda match: f"uuid-sha256:{hash_uuid(match[0])}", value)
    if "/" in hashed or "\\" in hashed:
        return unknown("set to a path: not stored")
    text = value.lower()
    words = re.split(r"[^a-z0-9]+", text)
    if any(owner in (words if len(owner) <= _SHORT else text) for owner in owners):
        return unknown("set, but it names this machine or its user: not stored")
    return known(hashed)
