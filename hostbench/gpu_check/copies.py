"""Checks of the copies themselves: rates, what the profiler calls them, graphs."""

from pathlib import Path
from typing import Any

from hostbench.core import units
from hostbench.core.errors import Unavailable
from hostbench.core.samples import median
from hostbench.core.units import MIB
from hostbench.device import open_device
from hostbench.device.base import Buffer, Device
from hostbench.gpu_check.record import Answer, answered

NBYTES = 256 * MIB
_PUBLISHED_GB_PER_S = {"H2D": 55.43, "D2H": 55.06}
"""8x H200, PCIe Gen5: ml-engineering, network/README (research/transfers.md, section 3)."""
_COPIES = 8
_READINGS = 9


def rates(folder: Path) -> Answer:
    device = open_device("cuda")
    device.settle()
    host, there = device.host_buffer(NBYTES, pinned=True), device.buffer(NBYTES)
    seconds = {
        "H2D": copy_seconds(device, there, host),
        "D2H": copy_seconds(device, host, there),
    }
    shown = [
        f"{way} {units.format_rate(units.gb_per_s(NBYTES, median(taken)))} "
        f"(published for an H200: {_PUBLISHED_GB_PER_S[way]})"
        for way, taken in seconds.items()
    ]
    return answered("pinned, 256 MiB, by events: " + ", ".join(shown), seconds=seconds)


def copy_seconds(device: Device, target: Buffer, source: Buffer) -> list[float]:
    """Seconds per copy between two events behind a delay, several readings after one to warm up."""
    readings = []
    for _ in range(1 + _READINGS):
        start, end = device.event(), device.event()
        device.delay(0.002)
        start.record()
        for _ in range(_COPIES):
            device.copy(target, source, blocking=False)
        end.record()
        device.synchronize()
        readings.append(end.seconds_since(start) / _COPIES)
    return readings[1:]


def profiler_names(folder: Path) -> Answer:
    device = open_device("cuda")
    names: dict[str, list[str]] = {}
    for memory in ("pageable", "pinned"):
        host, there = device.host_buffer(MIB, pinned=memory == "pinned"), device.buffer(MIB)
        names[f"H2D {memory}"] = _profiled(device, there, host)
        names[f"D2H {memory}"] = _profiled(device, host, there)
    if not any(names.values()):
        raise Unavailable(
            "the profiler saw no copy: CUPTI is missing or not permitted here (see the log)"
        )
    shown = [f"{case}: {', '.join(found) or 'nothing'}" for case, found in names.items()]
    return answered("; ".join(shown), names=names)


def _profiled(device: Device, target: Buffer, source: Buffer) -> list[str]:
    """Names of the memory copies that the profiler saw during one copy."""
    import torch.profiler

    profiler: Any = torch.profiler
    kinds = [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    device.synchronize()
    with profiler.profile(activities=kinds) as profile:
        device.copy(target, source, blocking=False)
        device.synchronize()
    return sorted({event.name for event in profile.events() if event.name.startswith("Memcpy")})


def accelerator_graph(folder: Path) -> Answer:
    import torch

    accelerator: Any = torch.accelerator
    if not hasattr(accelerator, "Graph"):
        raise Unavailable(f"torch {torch.__version__} has no torch.accelerator.Graph")
    open_device("cuda")
    number = torch.zeros(1, device="cuda")
    number += 1
    torch.cuda.synchronize()
    try:
        graph = accelerator.Graph()
        with torch.Stream(device="cuda"), graph:
            number += 1
        graph.replay()
        torch.cuda.synchronize()
    except (RuntimeError, NotImplementedError) as error:
        return answered(f"does not work: {error}", works=False)
    works = number.item() == 2
    return answered("works" if works else f"replays wrongly: {number.item()}", works=works)
