"""What the simulated device is made of: the machine's figures, buffers, streams and events."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hostbench.core.units import GB


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The simulated machine. The default is a round-numbered PCIe Gen5 x16 card with a peer."""

    host_to_device_bytes_per_s: float = 50 * GB
    device_to_host_bytes_per_s: float = 50 * GB
    pageable_bytes_per_s: float = 10 * GB
    latency_s: float = 5e-6
    launch_s: float = 2e-6
    wait_s: float = 3e-6
    alloc_s: float = 1e-6
    """An allocation that a cache answers."""
    malloc_s: float = 1e-3
    """A device allocation that no cache answers, beside `alloc_s`."""
    pin_bytes_per_s: float = 2 * GB
    """Page-locking host memory that no cache holds."""
    num_copy_engines: int = 2
    host_bytes_per_s: float = 20 * GB
    device_bytes_per_s: float = 2000 * GB
    host_randn_bytes_per_s: float = 0.5 * GB
    device_randn_bytes_per_s: float = 500 * GB
    num_devices: int = 2
    peer_bytes_per_s: float = 400 * GB
    start_worker_s: float = 0.01
    """Of a DataLoader."""
    compute_speed: float = 1.0
    """2: a compute takes half of the time that it was asked to take."""


@dataclass(slots=True, eq=False)
class Contents:
    """What a piece of memory holds. `writes` is (start in seconds, end, token), in order of time;
    views of one buffer share it."""

    writes: list[tuple[float, float, object]] = field(default_factory=list)
    marks: list["Note"] = field(default_factory=list)
    """Notes of what it held, not yet known: a copy may still be enqueued that ends before them."""

    def token(self, at_s: float) -> object:
        """What a reader sees at that time: while a copy runs, neither the old nor the new."""
        for start_s, end_s, token in reversed(self.writes):
            if end_s <= at_s:
                return token
            if start_s < at_s:
                return ("torn", start_s)
        return None

    def write(self, now_s: float, start_s: float, end_s: float, token: object) -> None:
        """From `end_s` on readers see `token`. Nobody reads before `now_s` any more."""
        self.settle_marks(now_s)
        places = range(len(self.writes) - 1, 0, -1)
        seen = next((place for place in places if self.writes[place][1] <= now_s), 0)
        self.writes = [*self.writes[seen:], (start_s, end_s, token)]

    def settle_marks(self, now_s: float) -> None:
        """Resolve the marks that the host's clock has passed: no later copy can end before them."""
        for mark in self.marks:
            if mark.read_s <= now_s:
                mark.token = self.token(mark.read_s)
        self.marks = [mark for mark in self.marks if mark.read_s > now_s]


@dataclass(slots=True, eq=False)
class SimulatedBuffer:
    """`nbytes` in some memory, or a view of it."""

    nbytes: int
    on_host: bool
    pinned: bool = False
    device: int = 0
    dtype: str = "uint8"
    is_dense: bool = True
    """False for a view of every second element."""
    contents: Contents = field(default_factory=Contents)


@dataclass(slots=True, eq=False)
class Note:
    """When a buffer was read, and what it held then."""

    contents: Contents
    read_s: float
    token: object = None


@dataclass(slots=True, eq=False)
class SimulatedStream:
    """`wait_until` is the device's: the host waits for a time."""

    wait_until: Callable[[float], None]
    free_s: float = 0.0

    def wait(self, event: Any) -> None:
        self.free_s = max(self.free_s, event.at_s)

    def synchronize(self) -> None:
        self.wait_until(self.free_s)


@dataclass(slots=True, eq=False)
class SimulatedEvent:
    """`device` is the SimulatedDevice that made it."""

    device: Any
    at_s: float = 0.0

    def record(self, stream: SimulatedStream | None = None) -> None:
        self.at_s = max((stream or self.device.current).free_s, self.device.host_s)

    def synchronize(self) -> None:
        self.device.wait_until(self.at_s)

    def query(self) -> bool:
        return bool(self.at_s <= self.device.host_s)

    def seconds_since(self, earlier: "SimulatedEvent") -> float:
        return self.at_s - earlier.at_s
