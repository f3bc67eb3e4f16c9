"""Memory of the cuda device beyond the ordinary: registered, on a peer, cached."""

import weakref
from typing import Any

import torch

from hostbench.core.errors import Unavailable
from hostbench.device.base import Where

_cuda: Any = torch.cuda  # torch leaves these calls without types


def registered(nbytes: int) -> torch.Tensor:
    """Pageable memory that is page-locked in place for as long as this tensor object lives; keep
    it while a view of it is in use. Raises Unavailable where CUDA refuses (confidential computing,
    a limit on locked memory)."""
    buffer = torch.empty(nbytes, dtype=torch.uint8).fill_(0)
    runtime = _cuda.cudart()
    code = runtime.cudaHostRegister(buffer.data_ptr(), nbytes, 1)  # 1: cudaHostRegisterPortable
    if int(code) != 0:
        raise Unavailable(f"cudaHostRegister refused {nbytes} bytes: {code}; see `ulimit -l`")
    weakref.finalize(buffer, runtime.cudaHostUnregister, buffer.data_ptr())
    return buffer


def peer_buffer(device: torch.device, nbytes: int, where: Where) -> torch.Tensor:
    """Touched memory of the next GPU; there are two. Raises Unavailable for `peer` where there is
    no direct way to it."""
    here = device.index or 0
    other = (here + 1) % torch.cuda.device_count()
    if where == "peer" and not torch.cuda.can_device_access_peer(here, other):
        raise Unavailable(
            f"GPU {here} has no direct access to GPU {other}: see nvidia-smi topo -p2p r"
        )
    return torch.empty(nbytes, dtype=torch.uint8, device=torch.device("cuda", other)).fill_(0)


def empty_host_cache() -> None:
    """Give cached pinned blocks back: public since torch 2.12, private since 2.5."""
    public = getattr(torch.accelerator, "empty_host_cache", None)
    empty = public or getattr(torch._C, "_host_emptyCache", None)
    if empty is not None:
        empty()


def clear_cublas_workspaces() -> None:
    """Each stream that has multiplied matrices keeps one; streams are new in each case."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
