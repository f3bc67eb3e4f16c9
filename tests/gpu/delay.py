"""The delay probe: with the stream kept busy, does the call of a copy wait for it?

Outside the reading: one warm-up copy, enqueueing the delay. Inside: the call of the copy alone. The
delay's own length is read with events, so that a change of clock does not change the answer.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from hostbench.core import units
from hostbench.device.base import Buffer, Device

DELAY_S = 0.02
_READINGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One copy behind a delay; the reading with the middle call time of three."""

    way: str
    """`H2D pinned non_blocking`."""
    nbytes: int
    call_s: float
    delay_s: float

    @property
    def returns_early(self) -> bool:
        return self.call_s < self.delay_s / 2


def probe_all(device: Device, sizes: tuple[int, ...]) -> Iterator[Cell]:
    device.delay(DELAY_S)  # calibrates
    device.synchronize()
    for nbytes, memory in itertools.product(sizes, ("pageable", "pinned")):
        host = device.host_buffer(nbytes, pinned=memory == "pinned")
        there = device.buffer(nbytes)
        for direction, blocking in itertools.product(("H2D", "D2H"), (True, False)):
            target, source = (there, host) if direction == "H2D" else (host, there)
            call_s, delay_s = probe(device, target, source, blocking=blocking)
            way = f"{direction} {memory} {'blocking' if blocking else 'non_blocking'}"
            yield Cell(way=way, nbytes=nbytes, call_s=call_s, delay_s=delay_s)


def probe(
    device: Device, target: Buffer, source: Buffer, *, blocking: bool, delay_s: float = DELAY_S
) -> tuple[float, float]:
    """(seconds of the call, seconds that the delay before it took on the device)."""
    device.copy(target, source, blocking=blocking)
    device.synchronize()
    readings = []
    for _ in range(_READINGS):
        start, end = device.event(), device.event()
        start.record()
        device.delay(delay_s)
        end.record()
        called_s = device.now()
        device.copy(target, source, blocking=blocking)
        call_s = device.now() - called_s
        device.synchronize()
        readings.append((call_s, end.seconds_since(start)))
    return sorted(readings)[_READINGS // 2]


def shown(cell: Cell) -> str:
    returns = "early" if cell.returns_early else "late"
    size = units.format_bytes(cell.nbytes)
    return f"{cell.way} of {size}: {returns}, {units.format_seconds(cell.call_s)}"
