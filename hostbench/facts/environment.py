"""The environment variables that change a measurement; no others are stored."""

import getpass
import hashlib
import platform
import re
from collections.abc import Iterable, Mapping

from hostbench.facts.record import Fact, Group, known, unknown

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
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9A-Fa-f][0-9A-Fa-f-]*(?:/\d+)*")


def variables(environ: Mapping[str, str]) -> Group:
    """One fact per variable, `env_<NAME>`. UUIDs are hashed; paths, hosts and users left out."""
    names = [*VARIABLES, *sorted(name for name in environ if name.startswith(PREFIXES))]
    owners = _owners(environ)
    return {f"env_{name}": _variable(name, environ.get(name), owners) for name in names}


def hash_uuid(uuid: str) -> str:
    """What is stored of a GPU's UUID: enough to tell two GPUs apart, not to find one."""
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def _owners(environ: Mapping[str, str]) -> set[str]:
    """What this machine and its user are called, in lower case."""
    node = platform.node()
    names = {node, node.partition(".")[0], *map(environ.get, ("USER", "LOGNAME", "HOSTNAME"))}
    try:
        names.add(getpass.getuser())
    except (KeyError, OSError, ImportError):
        pass  # a container's user without a name
    return {name.lower() for name in names if name}


def _names_owner(value: str, owners: Iterable[str]) -> bool:
    """Names of one or two letters count as whole words only."""
    text = value.lower()
    words = set(re.split(r"[^a-z0-9]+", text))
    return any(name in words if len(name) <= _SHORT else name in text for name in owners)


def _variable(name: str, value: str | None, owners: Iterable[str]) -> Fact:
    if value is None:
        return unknown("not set")
    if name.endswith(_PRIVATE):
        return unknown("set, but it may name a path or a host: not stored")
    hashed = _UUID.sub(lambda match: f"uuid-sha256:{hash_uuid(match[0])}", value)
    if "/" in hashed or "\\" in hashed:
        return unknown("set to a path: not stored")
    if _names_owner(value, owners):
        return unknown("set, but it names this machine or its user: not stored")
    return known(hashed)
