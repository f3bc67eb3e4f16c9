"""Facts about the software: versions, what torch says of itself, and the environment variables that
change a measurement; no others are stored, and nothing that names a path, a host or a user.

torch is asked in a process of its own: the asking process imports none.
"""

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from threading import Timer
from typing import Any

from msgspec import Struct, convert
from msgspec.json import decode

from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import Group, Unknown

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

PROBE_TIMEOUT_S = 180.0  # a first import from a shared disk takes minutes
SLOW_S = 10.0
"""Then it is said that it may."""

_PROBE = """
import json, warnings
state = {"installed": True, "importable": False, "devices": []}
try:
    import torch
    state["importable"] = True
    state["version"] = str(torch.__version__)
    state["cuda_runtime"] = torch.version.cuda
    dist = torch.distributed
    if torch.version.cuda and dist.is_available() and dist.is_nccl_available():
        state["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, device="cuda").add_(1).cpu()
        count = torch.cuda.device_count()
        state["devices"] = [torch.cuda.get_device_name(i) for i in range(count)]
        state["cuda_works"] = True
        state["uuids"] = [str(torch.cuda.get_device_properties(i).uuid) for i in range(count)]
except ModuleNotFoundError as error:
    state["installed"] = error.name != "torch"
    state["error"] = str(error)
except Exception as error:
    state["error"] = (str(error).strip() or type(error).__name__).splitlines()[0]
print(json.dumps(state))
"""


class TorchState(Struct, frozen=True, kw_only=True):
    """The answer; None where it is not known or torch was built without it."""

    installed: bool
    importable: bool
    version: str | None = None
    cuda_runtime: str | None = None
    """The CUDA that torch was built for; None for a CPU build."""
    nccl: str | None = None
    cuda_works: bool = False
    """A tensor was made, added to and read back on the GPU."""
    devices: tuple[str, ...] = ()
    uuid_hashes: tuple[str, ...] = ()
    """Of the CUDA devices in order, for `gpu`. Never UUIDs."""
    error: str | None = None
    """The first thing that went wrong, in torch's words."""


def version_of(package: str) -> str | None:
    """Of an installed package; None where it is not."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def probe_torch(device: str | None = None) -> TorchState:
    """Ask torch. Never raises: what goes wrong is in `error`. With `device="cpu"` a torch that was
    built for the CPU alone is not imported, which takes seconds: there is nothing to ask it."""
    version = version_of("torch")
    if device == "cpu" and version and version.endswith("+cpu"):
        return TorchState(installed=True, importable=True, version=version)
    slow = Timer(SLOW_S, print, ("importing torch: slow the first time",), {"file": sys.stderr})
    slow.start()
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _PROBE],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        done.check_returncode()
        lines = done.stdout.strip().splitlines()  # libraries may print before the answer
        state = decode(lines[-1], type=dict[str, Any])
        hashes = [hash_uuid(uuid) for uuid in state.pop("uuids", ())]
        return convert({**state, "uuid_hashes": hashes}, TorchState)
    except subprocess.TimeoutExpired:
        error = f"importing torch and touching the GPU took over {PROBE_TIMEOUT_S:g} s"
    except (subprocess.CalledProcessError, IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        error = f"the process that imports torch ended with {done.returncode}: {last}"
    finally:
        slow.cancel()
    return TorchState(installed=True, importable=False, error=error)


def software_facts(torch_state: TorchState | None = None) -> Group:
    """Versions, and the variables that are set. `torch_state` is what `probe_torch` answered."""
    facts: Group = {"python": platform.python_version()}
    for package in ("torch", "asv"):
        facts[package] = version_of(package) or Unknown("not installed")
    for name in ("cuda_runtime", "nccl"):
        value = getattr(torch_state, name, None)
        facts[f"torch_{name}"] = value or Unknown("torch was not asked, or was built without it")
    for name in sorted(os.environ):
        if name in VARIABLES:
            value = _UUID.sub(lambda match: f"uuid-sha256:{hash_uuid(match[0])}", os.environ[name])
            is_path = bool(set(value) & {"/", "\\"})
            facts[f"env_{name}"] = Unknown("set to a path: not stored") if is_path else value
        elif name.startswith(PREFIXES):
            why = "set, but it may name a path or a host: not stored"
            facts[f"env_{name}"] = Unknown(why)
    return facts
