"""What one or several traces say together, as records."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleDevice:
    """One device of one process."""

    device: int
    rank: int | None
    file: str
    span_s: float
    """From its first activity to the end of its last."""
    busy_s: float
    idle_fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Time of devices; seconds add up over them."""

    seconds: float
    ms_per_step: float | None
    """None: no steps are marked, or they are only a part of the time."""
    share: float
    """Of the spans of all devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCause(Cost):
    """The seconds of the causes that are idle add up to the idle time."""

    cause: str
    is_idle: bool
    """False: the device copied, and computed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice(Cost):
    """One thing that costs time, and what helps."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    """A line at which the host waits for a device; what is of the line is None where the trace
    lacks it."""

    file: str | None
    line: int | None
    function: str | None
    call: str
    count: int
    num_in_steps: int
    """How many of them lie in marked steps."""
    seconds: float
    """That the host waited."""
    idle_s: float
    """That devices idled for it."""
    nbytes: int
    """Of copies from pageable memory that were called with non_blocking, and wait all the same; 0
    for all other waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyWait:
    """A line that would wait for a GPU, as a run without one shows: no time is known."""

    file: str
    line: int
    function: str
    call: str
    count: int
    per_step: float | None
    """None: no steps are marked."""
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWay:
    """Copies of one way, as `H2D pageable`."""

    way: str
    count: int
    nbytes: int
    seconds: float
    not_hidden_s: float
    """While nothing was computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleReport:
    """Of all traces together. Without devices it has only what the host did."""

    devices: tuple[IdleDevice, ...] = ()
    num_steps: int = 0
    """Steps times devices: what a cost per step is divided by. 0: no steps are marked."""
    step_s: float | None = None
    """How long a marked step lasts on the host, on average."""
    steps_share: float | None = None
    """Of the spans, what the steps take until devices are done with what is launched in them."""
    causes: tuple[IdleCause, ...] = ()
    waits: tuple[WaitingLine, ...] = ()
    """The costliest first."""
    copies: tuple[CopyWay, ...] = ()
    advice: tuple[Advice, ...] = ()
    """The worst first."""
    likely_waits: tuple[LikelyWait, ...] = ()
    """The most frequent first; empty where a device did work."""
    warnings: tuple[str, ...] = ()
