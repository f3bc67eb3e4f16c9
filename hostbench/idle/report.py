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
class IdleCause:
    """Seconds add up over devices; those of the causes that are idle add up to the idle time."""

    cause: str
    is_idle: bool
    """False: the device copied, and computed nothing."""
    seconds: float
    share: float
    """Of the spans of all devices."""
    ms_per_step: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLine:
    """A line at which the host waits for a device; all None where the trace lacks it."""

    file: str | None
    line: int | None
    function: str | None
    line_of: str | None
    """`call`: the line is that of the call; `function`: the trace has only where it begins."""
    call: str
    count: int
    num_in_steps: int
    """How many of them lie in marked steps."""
    seconds: float
    """That the host waited."""
    idle_s: float
    """That devices idled for it."""
    nbytes: int
    """Of copies to the device that were called with non_blocking; 0 for all other waits."""


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
class TinyKernels:
    """Kernels that are shorter than `shorter_than_s`."""

    shorter_than_s: float
    count: int
    num_kernels: int
    median_s: float | None
    """Of all kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing that costs time, and what helps."""

    what: str
    remedy: str
    seconds: float
    ms_per_step: float | None
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleReport:
    """Of all traces together."""

    devices: tuple[IdleDevice, ...]
    num_steps: int
    """Steps times devices: what a cost per step is divided by. 0: no steps are marked."""
    step_s: float | None
    """How long a marked step lasts on the host, on average."""
    steps_share: float | None
    """Of the spans, what the steps take until devices are done with what is launched in them."""
    before_first_work_s: float
    """From the start of the first step to a device's first activity, in the process where it is
    longest: no part of a span."""
    before_first_work_in_loader_s: float
    """Of that, in which the host waited for a DataLoader."""
    causes: tuple[IdleCause, ...]
    syncs: tuple[WaitingLine, ...]
    pageable_non_blocking: tuple[WaitingLine, ...]
    copies: tuple[CopyWay, ...]
    tiny_kernels: TinyKernels
    host_late_in_loader_s: float
    host_late_in_allocation_s: float
    collectives_alone_s: float
    """In which collectives ran and no other kernel did."""
    advice: tuple[Advice, ...]
    """The worst first."""
    num_host_operations: int
    warnings: tuple[str, ...]
