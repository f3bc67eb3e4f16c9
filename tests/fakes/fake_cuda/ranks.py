"""nccl on the stand-in: gloo carries the data, the rules are nccl's.

A rank needs a GPU of its own, which it names when it joins; a collective is enqueued behind the
current stream, on a stream of nccl's own, and the current stream waits for it; the host does not.
"""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from tests.fakes.fake_cuda.floor import Floor
from tests.fakes.fake_cuda.tensors import CudaTensor, Late, writes

_KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
_dist: Any = dist


class Nccl:
    """The process group of this process, if it joins one."""

    def __init__(self, floor: Floor) -> None:
        self._floor, self._is_joined = floor, False
        self._join, self._all_reduce = _dist.init_process_group, _dist.all_reduce

    def install(self, put: Callable[..., None]) -> None:
        has_nccl = not self._floor.machine.refusals.nccl
        put(_dist, init_process_group=self.join, all_reduce=self.all_reduce)
        put(_dist, is_nccl_available=lambda: has_nccl)

    def join(self, backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        """Raises as torch does without a GPU."""
        if backend != "nccl":
            self._join(backend, *args, **kwargs)
            return
        if self._floor.machine.refusals.nccl:
            raise RuntimeError("Distributed package doesn't have NCCL built in")
        device = kwargs.pop("device_id", None)
        if not self._floor.machine.gpus:
            raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
        if device is not None and (device.type != "cuda" or device.index is None):
            raise ValueError(f"init_process_group device_id must be a cuda device, not {device}")
        self._join("gloo", *args, **kwargs)
        self._is_joined = True

    def all_reduce(
        self, tensor: Any, op: Any = dist.ReduceOp.SUM, group: Any = None, async_op: bool = False
    ) -> Any:
        """Raises as torch does for a tensor that is not on a GPU."""
        if not self._is_joined:
            return self._all_reduce(tensor, op, group, async_op)
        if not isinstance(tensor, CudaTensor):
            raise RuntimeError("No backend type associated with device type cpu")
        if async_op:
            raise NotImplementedError("the stand-in for nccl has no async_op")
        machine, gpu, late = self._floor.machine, tensor.gpu, Late(tensor)

        def do() -> None:
            self._all_reduce(late.now(), op, group)
            late.written()

        comms = gpu.queues[-1]
        machine.let_wait(comms, machine.record(gpu.queue))
        seconds = machine.costs.collective_s + 2 * tensor.nbytes / machine.costs.peer_bytes_per_s
        machine.enqueue(comms, f"kernel {_KERNEL}", seconds, None, do, writes([tensor]))
        machine.let_wait(gpu.queue, machine.record(comms))
        return None
