"""What the machine under the stand-in for CUDA takes for everything, and what it refuses."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Costs:
    """Seconds of the host and of the GPU. Round figures, in the range of a Hopper in a PCIe Gen5
    slot; they are no measurement."""

    call_s: float = 1e-6
    """Of the host, for any call that enqueues nothing."""
    launch_s: float = 4e-6
    """Of the host, for enqueueing a kernel, a copy or an event."""
    allocate_s: float = 200e-6
    """Of the host, for memory that no cache had; pinned memory takes `pin_s_per_byte` besides."""
    pin_s_per_byte: float = 1 / 5e9
    host_bytes_per_s: float = 10e9
    """What an operation on the CPU writes; `call_s` besides."""
    kernel_s: float = 3e-6
    """Of the GPU: the least that a kernel takes."""
    copy_s: float = 2e-6
    """Of the GPU: the least that a copy over the link takes."""
    link_bytes_per_s: float = 50e9
    """Each way, from and to pinned memory."""
    pageable_bytes_per_s: float = 10e9
    peer_bytes_per_s: float = 100e9
    memory_bytes_per_s: float = 2e12
    flops: float = 40e12
    sm_hz: float = 1.5e9
    """What `_sleep` counts."""
    collective_s: float = 20e-6


@dataclass(slots=True, kw_only=True)
class Refusals:
    """What this machine does not give."""

    pinned_bytes: int | None = None
    """More pinned and registered memory than this is refused; None: no limit."""
    registered: bool = False
    peers: bool = False
    profiler: bool = False
    """CUPTI is missing or not permitted: the profiler sees nothing of the GPU."""
    profiler_early_s: float = 0.0
    """The profiler's stamps are so much too early; it leaves out what is before its beginning."""
    peer_copies_unlisted: bool = False
    """The profiler does not list copies between GPUs."""
    nccl: bool = False
    """This torch is built without nccl, as NVIDIA's for Jetson."""
    lost_after_s: float | None = None
    """From this moment of the virtual clock on every call fails: the GPU fell off the bus."""
