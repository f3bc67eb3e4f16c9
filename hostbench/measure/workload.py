"""What a workload is: a record of what its declaration says, and the registry. Knows no torch."""

import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostbench.core.case import AxisValue, Case, counts_bytes
from hostbench.core.errors import raised_at
from hostbench.device.base import Ability, Device, Step, lacking
from hostbench.limits.links import LinkName
from hostbench.measure.measure import Prepared

DEVICES = ("cuda", "cpu")
"""The values of every workload's first axis. `simulated` stands in for either, on request only."""


BACKENDS = {"cuda": "nccl", "cpu": "gloo"}
"""By what ranks on each kind of device talk to each other where a workload says nothing else."""
ASYNCHRONOUS = ("nccl",)
"""Backends whose call may return before its result is there: collectives are kernels on a stream,
which a profiler sees. The others' calls wait."""

Build = Callable[..., Prepared | Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One thing to measure: its axes, what it moves, and how to build its step."""

    name: str
    """`family.function`, as in `transfer.host_to_device`."""
    axes: Mapping[str, tuple[AxisValue, ...]]
    """Axis name to its values; `device` is the first."""
    version: str
    """Bumped when numbers stop being comparable."""
    build: Build = field(repr=False)
    """Called as build(device, **other axes) with an opened Device."""
    moves: Callable[..., int] | None = None
    """Bytes moved per step, from the axes; None where no rate has a meaning."""
    rate_of: str = ""
    """What these bytes are, where a reader could take them for others."""
    expects: Callable[..., Mapping[str, bool]] | None = None
    """Findings that the case should show, from the axes: `{"asynchronous": True}`."""
    only: Callable[..., bool] | None = None
    """Which cells of the axes' product are cases; docs/benchmarks.md says why not the others."""
    quick: Callable[..., bool] | None = None
    """Which cases belong to the quick profile."""
    depth: int | Callable[..., int] = 1
    """Steps enqueued before one synchronize; from the axes where cases differ in it."""
    sampling: float = 1.0
    """Share of the profile's time for warm-up and samples that a case gets: less where each reading
    is the mean of many steps."""
    host_only: Callable[..., bool] | None = None
    """Cases whose step enqueues nothing: they may be repeated inside one timer reading."""
    needs: Callable[..., Iterable[Ability]] | None = None
    """What its device must have (`hostbench.device.base.Ability`), else a case is skipped, from the
    axes."""
    environment: Callable[..., Mapping[str, str]] | None = None
    """Environment variables of a case, from the axes, for what a library reads as it is loaded: the
    case runs in a process that was started with them. An empty text: without that variable."""
    baseline: Mapping[str, AxisValue] = field(default_factory=dict)
    """What the other values of these axes are held against; the first value where it says none."""
    link: LinkName | Callable[..., LinkName | None] | None = None
    """What the bytes cross, from the axes or always; None: the rate is held against no limit."""
    crosses: Callable[..., float] | None = None
    """Bytes per step that cross the link, where they are not those moved."""
    published: LinkName | Callable[..., str | None] | None = None
    """Which published figures (`limits/published.toml`) a rate may be held against."""
    nvbandwidth: Mapping[str, Mapping[str, AxisValue]] = field(default_factory=dict)
    """Test of nvbandwidth -> the axes that make a case measure the same."""
    ranks: Callable[..., int] | None = None
    """Ranks of a case; None: the worker itself runs the step. The same for a whole family."""
    backend: Callable[..., str] | None = None
    """Of torch.distributed, from the axes; None: that of BACKENDS."""

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def question(self) -> str:
        """First line of the workload's docstring."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    def cases(self) -> Iterator[Case]:
        for values in itertools.product(*self.axes.values()):
            cell = dict(zip(self.axes, values, strict=True))
            if self.only is None or self.only(**cell):
                yield Case.of(self.name, cell)

    def nbytes(self, case: Case) -> int | None:
        return self.moves(**case.values) if self.moves else None

    def link_of(self, case: Case) -> LinkName | None:
        return self.link(**case.values) if callable(self.link) else self.link

    def share_of_link(self, case: Case) -> float:
        """The part of the moved bytes that crosses the link: 0.5 where half of them do."""
        moved = self.nbytes(case)
        return self.crosses(**case.values) / moved if self.crosses and moved else 1.0

    def published_of(self, case: Case) -> str | None:
        return self.published(**case.values) if callable(self.published) else self.published

    def base(self) -> dict[str, AxisValue]:
        """The baseline's value of every axis that counts no bytes and is no device."""
        first = {
            axis: values[0]
            for axis, values in self.axes.items()
            if axis != "device" and not counts_bytes(axis)
        }
        return {**first, **self.baseline}

    def expected(self, case: Case) -> dict[str, bool]:
        return dict(self.expects(**case.values)) if self.expects else {}

    def is_host_only(self, case: Case) -> bool:
        return self.host_only is not None and self.host_only(**case.values)

    def needed(self, case: Case) -> tuple[Ability, ...]:
        """In the order in which the device is asked for them: the first it lacks is the reason."""
        return tuple(self.needs(**case.values)) if self.needs else ()

    def refusal(self, case: Case, num_devices: int) -> str | None:
        """Why the case's device will refuse it, where there are that many of its kind; None where
        it will not. `prepare`, and ranks that join, raise the same."""
        device, num_ranks = str(case.values["device"]), self.num_ranks(case) or 1
        if device == "cuda" and self.ranks is not None and num_devices < num_ranks:
            return f"needs {num_ranks} GPUs, this machine has {num_devices}"
        lacks = lacking(device, num_devices)
        return next((lacks[ability] for ability in self.needed(case) if ability in lacks), None)

    def depth_of(self, case: Case) -> int:
        return self.depth(**case.values) if callable(self.depth) else self.depth

    def num_ranks(self, case: Case) -> int | None:
        return self.ranks(**case.values) if self.ranks else None

    def backend_of(self, case: Case) -> str:
        device = str(case.values["device"])
        return self.backend(**case.values) if self.backend else BACKENDS.get(device, "gloo")

    def variables(self, case: Case) -> dict[str, str]:
        return dict(self.environment(**case.values)) if self.environment else {}

    def is_quick(self, case: Case) -> bool:
        return self.quick is not None and self.quick(**case.values)

    def raised_at(self, error: BaseException) -> str:
        """Where in the workload's file an error was raised; empty where it came through none."""
        module = sys.modules.get(self.build.__module__)
        return raised_at(error, Path(module.__file__)) if module and module.__file__ else ""


_REGISTRY: dict[str, Workload] = {}


def register(work: Workload) -> None:
    """Make a workload known by its name. `hostbench.families` alone calls it."""
    _REGISTRY[work.name] = work


def family_of(module: str) -> str:
    """The family of the workloads in a module of that name."""
    return module.rpartition(".")[2]


def registry() -> dict[str, Workload]:
    """Every workload registered so far, by name. `hostbench.families.load()` fills it."""
    return dict(_REGISTRY)


def prepare(work: Workload, device: Device, case: Case) -> Prepared:
    """Build the case's step on an opened device.

    Raises Unavailable before anything is built where the device lacks what the case needs.
    """
    for ability in work.needed(case):
        device.require(ability)
    axes = {name: value for name, value in case.axes if name != "device"}
    built = work.build(device, **axes)
    device.enter(case)
    prepared = built if isinstance(built, Prepared) else Prepared(step=built)
    return replace(prepared, depth=work.depth_of(case), host_only=work.is_host_only(case))
