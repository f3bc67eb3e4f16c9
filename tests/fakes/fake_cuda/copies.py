"""`copy_` between hosts and GPUs, by the rules of aten/src/ATen/native/cuda/Copy.cu.

A cast runs on the GPU where the copy does not block and on the host where it does. What is not
dense is gathered first, on its own side, from or into pageable memory on the host. Copies from and
to pinned memory are enqueued; those from and to pageable memory drain the stream first, but for
small ones to the GPU, which are taken along with the command. One to the GPU that does not block
returns when all of it is staged: the last part is still on its way (NVIDIA, "API synchronization
behavior").
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch

from hostbench.core.units import KIB
from tests.fakes.fake_cuda.memory import Backed, copy_bytes
from tests.fakes.fake_cuda.tensors import CudaTensor, Late, byte_range, on_host, reads, writes
from tests.fakes.fake_cuda.timeline import Machine

_aten: Any = torch.ops.aten

STAGED_BYTES = 64 * KIB
"""Up to this size a pageable copy to the GPU is taken along."""


class Memories(Protocol):
    """What a copy must know of the floor it is on."""

    machine: Machine

    def pinned_block(self, tensor: torch.Tensor) -> Backed | None:
        """Of a CPU tensor; None for pageable memory."""


def copy(
    floor: Memories, target: torch.Tensor, source: torch.Tensor, non_blocking: bool
) -> torch.Tensor:
    """`target.copy_(source, non_blocking)`, where at least one of them is on a GPU."""
    same_type = target.dtype == source.dtype
    dense = target.is_contiguous() and source.is_contiguous() and target.size() == source.size()
    plain = same_type and dense
    if isinstance(target, CudaTensor) and isinstance(source, CudaTensor):
        _between(floor, target, source, plain)
    elif plain:
        _over_the_link(floor, target, source, non_blocking)
    else:
        _converted(target, source, non_blocking)
    return target


def _converted(target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
    """By way of dense temporaries."""
    same_type = target.dtype == source.dtype
    converts = "cuda" if non_blocking else "cpu"
    if source.device.type == converts or (same_type and source.device.type == "cpu"):
        staged_to = target if target.is_contiguous() else _empty_like(target, target.dtype)
        staged_from = source.to(target.dtype).expand(target.size()).contiguous()
    else:
        fits = target.is_contiguous() and same_type
        staged_to = target if fits else _empty_like(target, source.dtype)
        staged_from = source.expand(target.size()).contiguous()
    _aten.copy_(staged_to, staged_from, non_blocking)
    if staged_to is not target:
        _aten.copy_(target, staged_to, non_blocking)


def _between(floor: Memories, target: CudaTensor, source: CudaTensor, plain: bool) -> None:
    """On one GPU, or from one to another: then both current streams take part."""
    machine, costs, nbytes = floor.machine, floor.machine.costs, target.nbytes
    queue, other = source.gpu.queue, target.gpu.queue
    touches = [*reads([source]), *writes([target])]
    do = _moves(Late(target), Late(source), nbytes if plain else None)
    if source.gpu is not target.gpu:
        machine.let_wait(queue, machine.record(other))
        seconds = costs.copy_s + nbytes / costs.peer_bytes_per_s
        machine.enqueue(queue, "P2P", seconds, "peer", do, touches, nbytes)
        machine.let_wait(other, machine.record(queue))
        return
    seconds = costs.kernel_s + (nbytes + source.nbytes) / costs.memory_bytes_per_s
    what = "D2D" if plain else "kernel copy"
    machine.enqueue(queue, what, seconds, "compute", do, touches, nbytes)


def _over_the_link(
    floor: Memories, target: torch.Tensor, source: torch.Tensor, non_blocking: bool
) -> None:
    """One dense copy between host and GPU."""
    into = isinstance(target, CudaTensor)
    there, host = (target, source) if into else (source, target)
    assert isinstance(there, CudaTensor)
    if not there.nbytes:
        return
    machine, queue, nbytes = floor.machine, there.gpu.queue, there.nbytes
    if not non_blocking:
        machine.tell_of_sync()
    machine.moved(there.gpu.index, nbytes if into else 0, 0 if into else nbytes)
    block = floor.pinned_block(host)
    if block is None:
        _pageable(machine, there, host, into, non_blocking)
        return
    way = "H2D" if into else "D2H"
    touches = [*(writes if into else reads)([there]), (block, *byte_range(host), not into)]
    do = _moves(Late(target, block), Late(source, block), nbytes)
    seconds = machine.costs.copy_s + nbytes / machine.costs.link_bytes_per_s
    machine.enqueue(queue, f"{way} pinned", seconds, way, do, touches, nbytes)
    if non_blocking:
        block.uses[queue] = queue.free_s
    else:
        machine.wait_queue(queue, "implicit")


def _pageable(
    machine: Machine, there: CudaTensor, host: torch.Tensor, into: bool, non_blocking: bool
) -> None:
    queue, nbytes = there.gpu.queue, there.nbytes
    way = "H2D" if into else "D2H"
    seconds = machine.costs.copy_s + nbytes / machine.costs.pageable_bytes_per_s
    touches = (writes if into else reads)([there])
    if into and nbytes <= STAGED_BYTES:
        with machine.behind_the_scenes():
            taken, late = host.clone(), Late(there)

        def do() -> None:
            late.now().copy_(taken)
            late.written()

        machine.enqueue(queue, f"{way} pageable", seconds, way, do, touches, nbytes)
        if not non_blocking:
            machine.wait_queue(queue, "implicit")
        return
    with machine.api("cudaMemcpyAsync"):
        machine.wait_queue(queue, "implicit")
        machine.enqueue(queue, f"{way} pageable", seconds, way, None, touches, nbytes)
        if into and non_blocking:
            machine.call(seconds - machine.costs.copy_s)
        elif non_blocking:
            machine.wait_queue(queue, "implicit")
    if not non_blocking:
        machine.wait_queue(queue, "implicit")
    with machine.behind_the_scenes():
        there.block.pay()
        if into:
            there.host.copy_(on_host(host))
            there.block.holds = None
        else:
            host.copy_(there.host)


def _moves(target: Late, source: Late, nbytes: int | None) -> Callable[[], None]:
    """What the copy does to the bytes, when its time has come; `nbytes` of a dense one."""

    def do() -> None:
        if nbytes is None:
            target.now().copy_(source.now())
            target.written()
        else:
            copy_bytes(target.block, target.start, source.block, source.start, nbytes)

    return do


def _empty_like(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tensor.size(), dtype=dtype, device=tensor.device)
