"""What a workload is: a record of what its declaration says, and the registry. Knows no torch."""

import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, convert

from hostbench.core.case import AxisValue, Case, counts_bytes
from hostbench.core.errors import raised_at
from hostbench.device.base import Ability, Device, Step, lacking, too_few
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


class CaseOptions(Struct, frozen=True, kw_only=True):
    """What a declaration says of one case. `@workload` takes each as a value, or as a function of
    the axes where cases differ in it."""

    moves: Annotated[int, Meta(ge=0)] | None = None
    """Bytes moved per step; None where no rate has a meaning."""
    expects: dict[str, bool] = {}
    """Findings that the case should show: `{"asynchronous": True}`."""
    quick: bool = False
    """It belongs to the quick profile."""
    depth: Annotated[int, Meta(ge=1)] = 1
    """Steps enqueued before one synchronize."""
    host_only: bool = False
    """The step enqueues nothing: it may be repeated inside one timer reading."""
    needs: tuple[Ability, ...] = ()
    """What its device must have; the first that it lacks is the reason to skip the case."""
    environment: dict[str, str] = {}
    """Environment variables, for what a library reads as it is loaded: the case runs in a process
    that was started with them. An empty text: without that variable."""
    link: LinkName | None = None
    """What the bytes cross; None: the rate is held against no limit."""
    crosses: float | None = None
    """Bytes per step that cross the link, where they are not those moved."""
    published: str | None = None
    """Which published figures (`limits/published.toml`) a rate may be held against."""
    ranks: Annotated[int, Meta(ge=1)] | None = None
    """Ranks of the case; None: the worker itself runs the step. All of a family have some, or
    none."""
    backend: str = ""
    """Of torch.distributed; that of BACKENDS where nothing is said."""

    @property
    def share_of_link(self) -> float:
        """The part of the moved bytes that crosses the link: 0.5 where half of them do."""
        return self.crosses / self.moves if self.crosses and self.moves else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One thing to measure: its axes, what is said of its cases, and how to build its step."""

    name: str
    """`family.function`, as in `transfer.host_to_device`."""
    axes: Mapping[str, tuple[AxisValue, ...]]
    """Axis name to its values; `device` is the first."""
    version: str
    """Bumped when numbers stop being comparable."""
    build: Build = field(repr=False)
    """Called as build(device, **other axes) with an opened Device."""
    per_case: Mapping[str, Any] = field(default_factory=dict)
    """Field of `CaseOptions` -> its value, or a function of the axes."""
    only: Callable[..., bool] | None = None
    """Which cells of the axes' product are cases; docs/benchmarks.md says why not the others."""
    rate_of: str = ""
    """What the moved bytes are, where a reader could take them for others."""
    sampling: float = 1.0
    """Share of the profile's time for warm-up and samples that a case gets: less where each reading
    is the mean of many steps."""
    baseline: Mapping[str, AxisValue] = field(default_factory=dict)
    """What the other values of these axes are held against; the first value where it says none."""

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def question(self) -> str:
        """First line of the workload's docstring."""
        return (inspect.getdoc(self.build) or "").partition("\n")[0]

    @property
    def has_ranks(self) -> bool:
        """Whether ranks run its cases, not the worker itself."""
        return self.per_case.get("ranks") is not None

    def cases(self) -> Iterator[Case]:
        for values in itertools.product(*self.axes.values()):
            cell = dict(zip(self.axes, values, strict=True))
            if self.only is None or self.only(**cell):
                yield Case.of(self.name, cell)

    def options(self, case: Case) -> CaseOptions:
        """All that is said of one case. Raises ValueError where that is not what it may be, or a
        function of the declaration fails."""
        backend = BACKENDS.get(str(case.values.get("device")), "gloo")
        said = dict(self.per_case)
        for name, of_axes in said.items():
            try:
                said[name] = of_axes(**case.values) if callable(of_axes) else of_axes
            except Exception as error:
                raise ValueError(f"{name} fails: {type(error).__name__}: {error}") from error
        said["needs"] = tuple(said.get("needs") or ())  # also what a generator yields
        given = {name: value for name, value in said.items() if value is not None}
        return convert({"backend": backend, **given}, CaseOptions)

    def base(self) -> dict[str, AxisValue]:
        """The baseline's value of every axis that counts no bytes and is no device."""
        first = {
            axis: values[0]
            for axis, values in self.axes.items()
            if axis != "device" and not counts_bytes(axis)
        }
        return {**first, **self.baseline}

    def refusal(self, case: Case, num_devices: int) -> str | None:
        """Why the case's device will refuse it, where there are that many of its kind; None where
        it will not. `prepare`, and ranks that join, raise the same."""
        device, options = str(case.values["device"]), self.options(case)
        if device == "cuda" and num_devices < (options.ranks or 0):
            return too_few(device, options.ranks or 0, num_devices)
        lacks = lacking(device, num_devices)
        return next((lacks[ability] for ability in options.needs if ability in lacks), None)

    def raised_at(self, error: BaseException) -> str:
        """Where in the workload's file an error was raised; empty where it came through none."""
        module = sys.modules.get(self.build.__module__)
        return raised_at(error, Path(module.__file__)) if module and module.__file__ else ""


_REGISTRY: dict[str, Workload] = {}


def register(work: Workload) -> None:
    """Make a workload known by its name. `hostbench.families` alone calls it."""
    _REGISTRY[work.name] = work


def registry() -> dict[str, Workload]:
    """Every workload registered so far, by name. `hostbench.families.load()` fills it."""
    return dict(_REGISTRY)


def prepare(work: Workload, device: Device, case: Case) -> Prepared:
    """Build the case's step on an opened device.

    Raises Unavailable before anything is built where the device lacks what the case needs.
    """
    options = work.options(case)
    for ability in options.needs:
        device.require(ability)
    axes = {name: value for name, value in case.axes if name != "device"}
    built = work.build(device, **axes)
    device.enter(case)
    prepared = built if isinstance(built, Prepared) else Prepared(step=built)
    return replace(prepared, depth=options.depth, host_only=options.host_only)
