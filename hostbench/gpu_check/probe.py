"""The delay probe: with the stream kept busy, does the call of a copy wait for it?

Outside the reading: one warm-up copy, enqueueing the delay. Inside: the call of the copy alone. The
delay's own length is read with events, so that a change of clock does not change the answer.
"""

import itertools
from dataclasses import asdict, dataclass
from pathlib import Path

from hostbench.core import units
from hostbench.core.errors import Unavailable
from hostbench.core.units import KIB
from hostbench.device import open_device
from hostbench.device.base import Buffer, Device
from hostbench.gpu_check.record import Answer, answered

SIZES = tuple(KIB * 4**power for power in range(10))  # 1 KiB to 256 MiB
DELAY_S = 0.02
_READINGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One copy behind a delay; the reading with the middle call time of three."""

    direction: str
    memory: str
    blocking: bool
    nbytes: int
    call_s: float
    delay_s: float
    returns_early: bool


def delay_probe(folder: Path) -> Answer:
    device = open_device("cuda")
    cells = list(probe_all(device))
    early = {memory: _early_share(cells, memory) for memory in ("pinned", "pageable")}
    text = (
        f"non_blocking calls that return early: pinned {early['pinned']}, "
        f"pageable {early['pageable']}\n\n{table(cells)}"
    )
    return answered(text, cells=[asdict(cell) for cell in cells])


def probe_all(device: Device, sizes: tuple[int, ...] = SIZES) -> list[Cell]:
    """Every cell; those whose memory the device refuses are left out."""
    device.delay(DELAY_S)  # calibrates
    device.synchronize()
    cells = []
    for nbytes, memory in itertools.product(sizes, ("pageable", "pinned")):
        try:
            host = device.host_buffer(nbytes, pinned=memory == "pinned")
        except Unavailable:
            continue
        there = device.buffer(nbytes)
        for direction, blocking in itertools.product(("H2D", "D2H"), (True, False)):
            target, source = (there, host) if direction == "H2D" else (host, there)
            call_s, delay_s = probe(device, target, source, blocking=blocking)
            cells.append(
                Cell(
                    direction=direction,
                    memory=memory,
                    blocking=blocking,
                    nbytes=nbytes,
                    call_s=call_s,
                    delay_s=delay_s,
                    returns_early=call_s < delay_s / 2,
                )
            )
    return cells


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


def table(cells: list[Cell]) -> str:
    """Markdown: a row per size, a column per way to copy."""
    columns = list(dict.fromkeys((cell.direction, cell.memory, cell.blocking) for cell in cells))
    names = [f"{way} {memory} {_word(blocking)}" for way, memory, blocking in columns]
    lines = [f"| size | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    found = {(cell.nbytes, cell.direction, cell.memory, cell.blocking): cell for cell in cells}
    for nbytes in dict.fromkeys(cell.nbytes for cell in cells):
        row = [_shown(found.get((nbytes, *column))) for column in columns]
        lines.append(f"| {units.format_bytes(nbytes)} | {' | '.join(row)} |")
    return "\n".join(lines)


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    return f"{units.format_seconds(cell.call_s)} {'early' if cell.returns_early else 'waits'}"


def _word(blocking: bool) -> str:
    return "blocking" if blocking else "non_blocking"


def _early_share(cells: list[Cell], memory: str) -> str:
    mine = [cell for cell in cells if cell.memory == memory and not cell.blocking]
    return f"{sum(cell.returns_early for cell in mine)} of {len(mine)}"
