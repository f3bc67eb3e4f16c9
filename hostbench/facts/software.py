"""Facts about the software: versions, and the environment variables that change a measurement; no
others are stored, and nothing that names a path, a host or a user."""

import os
import platform
import re
from collections.abc import Mapping

from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import Group, Unknown
from hostbench.facts.torch_probe import TorchState, version_of

VARIABLES = frozenset(
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
    # ranks
    "NCCL_ALGO NCCL_BUFFSIZE NCCL_CUMEM_ENABLE NCCL_DEBUG NCCL_IB_DISABLE NCCL_IB_HCA "
    "NCCL_LAUNCH_MODE NCCL_MAX_CTAS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MIN_NCHANNELS "
    "NCCL_MULTI_RANK_GPU_ENABLE NCCL_NET_GDR_LEVEL NCCL_NTHREADS NCCL_NVLS_ENABLE "
    "NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_PROTO NCCL_SHM_DISABLE NCCL_SOCKET_IFNAME "
    "GLOO_SOCKET_IFNAME TORCH_NCCL_BLOCKING_WAIT TORCH_NCCL_ASYNC_ERROR_HANDLING "
    "TORCH_NCCL_AVOID_RECORD_STREAMS TORCH_FR_BUFFER_SIZE".split()
)
"""Those whose value is stored: a number, a word of the library's or a device."""
PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "KINETO_")
"""Of the others that begin so only that they are set: a value may name a path or a host."""
_UUID = re.compile(r"\b(?:GPU|MIG)-[0-9A-Fa-f][0-9A-Fa-f-]*(?:/\d+)*")


def software_facts(
    environ: Mapping[str, str] | None = None, torch_state: TorchState | None = None
) -> Group:
    """Versions, and the variables that are set. `torch_state` is what `probe_torch` answered."""
    environ = os.environ if environ is None else environ
    facts: Group = {"python": platform.python_version()}
    for package in ("torch", "asv"):
        facts[package] = version_of(package) or Unknown("not installed")
    for name in ("cuda_runtime", "nccl"):
        value = getattr(torch_state, name, None)
        facts[f"torch_{name}"] = value or Unknown("torch was not asked, or was built without it")
    for name in sorted(environ):
        if name in VARIABLES:
            value = _UUID.sub(lambda match: f"uuid-sha256:{hash_uuid(match[0])}", environ[name])
            is_path = bool(set(value) & {"/", "\\"})
            facts[f"env_{name}"] = Unknown("set to a path: not stored") if is_path else value
        elif name.startswith(PREFIXES):
            why = "set, but it may name a path or a host: not stored"
            facts[f"env_{name}"] = Unknown(why)
    return facts
