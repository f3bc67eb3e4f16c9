"""How the simulated device copies, with the temporaries that torch's copy makes.

As in torch's CUDA copy: memory that is not dense is gathered first, on the side it is on; a cast
runs on the host when the copy blocks and on the device when it does not; what the host casts or
gathers is pageable, whatever its source was. Source: pytorch, aten/src/ATen/native/cuda/Copy.cu.
"""

from typing import TYPE_CHECKING

from hostbench.device.activity import COMPUTE
from hostbench.device.simulated_parts import SimulatedBuffer

if TYPE_CHECKING:
    from hostbench.device.simulated import SimulatedDevice

_SIZES = {"uint8": 1, "float16": 2, "float32": 4}


def copy(
    device: "SimulatedDevice", target: SimulatedBuffer, source: SimulatedBuffer, *, blocking: bool
) -> None:
    """`target.copy_(source, non_blocking=not blocking)`."""
    if not source.is_dense:
        source = _converted(device, source, source.dtype)
    if source.dtype == target.dtype:
        return _raw(device, target, source, blocking=blocking)
    cast_on_host = blocking and (source.on_host or target.on_host)
    if source.on_host == cast_on_host:
        return _raw(device, target, _converted(device, source, target.dtype), blocking=blocking)
    between = _like(source, target, source.dtype)
    _raw(device, between, source, blocking=blocking)
    return _convert(device, target, between)


def _converted(device: "SimulatedDevice", source: SimulatedBuffer, dtype: str) -> SimulatedBuffer:
    """The source gathered and cast, on the side it is on."""
    made = _like(source, source, dtype)
    _convert(device, made, source)
    return made


def _like(source: SimulatedBuffer, place: SimulatedBuffer, dtype: str) -> SimulatedBuffer:
    """A new dense buffer for the source's elements as `dtype`, on the side of `place`."""
    nbytes = source.nbytes // _SIZES[source.dtype] * _SIZES[dtype]
    return SimulatedBuffer(nbytes, on_host=place.on_host, device=place.device, dtype=dtype)


def _convert(device: "SimulatedDevice", target: SimulatedBuffer, source: SimulatedBuffer) -> None:
    """Both on one side; the temporary was allocated by a cache."""
    nbytes = max(source.nbytes, target.nbytes)
    device.spend(device.link.alloc_s)
    if source.on_host:
        start_s = device.host_s
        device.spend(nbytes / device.link.host_bytes_per_s)
        end_s = device.host_s
    else:
        seconds = nbytes / device.link.device_bytes_per_s
        start_s, end_s = device.enqueue("compute", seconds, what=COMPUTE)
    target.contents.write(device.host_s, start_s, end_s, source.contents.token(start_s))


def _raw(
    device: "SimulatedDevice", target: SimulatedBuffer, source: SimulatedBuffer, *, blocking: bool
) -> None:
    """Bytes as they are, by an engine."""
    engine, seconds, what = _plan(device, target, source)
    start_s, end_s = device.enqueue(engine, seconds, what=what, nbytes=source.nbytes)
    target.contents.write(device.host_s, start_s, end_s, source.contents.token(start_s))
    if blocking:
        device.current.synchronize()
    elif what.endswith("pageable"):
        device.host_s = max(device.host_s, end_s)


def _plan(
    device: "SimulatedDevice", target: SimulatedBuffer, source: SimulatedBuffer
) -> tuple[str, float, str]:
    """(engine, seconds, what `observe` calls it)."""
    link = device.link
    if not source.on_host and not target.on_host:
        if source.device == target.device:
            return "compute", source.nbytes / link.device_bytes_per_s, "D2D"
        return "peer", link.latency_s + source.nbytes / link.peer_bytes_per_s, "P2P"
    to_device = source.on_host
    pinned = (source if to_device else target).pinned
    rate = link.host_to_device_bytes_per_s if to_device else link.device_to_host_bytes_per_s
    if not pinned:
        rate = min(rate, link.pageable_bytes_per_s)
    engine = "copy" if link.num_copy_engines == 1 or to_device else "copy back"
    what = f"{'H2D' if to_device else 'D2H'} {'pinned' if pinned else 'pageable'}"
    return engine, link.latency_s + source.nbytes / rate, what
