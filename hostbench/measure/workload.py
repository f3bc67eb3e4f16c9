"""What a workload is: `@workload` makes a function in a file of benchmarks/ one, and the class that
asv finds. Knows no torch.

asv imports these files from HEAD with the hostbench of each commit, so nothing is refused here, nor
is an option that this hostbench does not know: `check_family` does, where hostbench loads a file.
"""

import hashlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct, convert

from hostbench.core.case import AxisValue, Case, class_name, counts_bytes, did_you_mean, read_case
from hostbench.core.errors import raised_at
from hostbench.core.records import CaseRecord
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
    """None: the worker itself runs the step. All cases of a family have ranks, or none."""
    backend: str = ""
    """Of torch.distributed; that of BACKENDS where nothing is said."""

    @property
    def share_of_link(self) -> float:
        """The part of the moved bytes that crosses the link: 0.5 where half of them do."""
        return self.crosses / self.moves if self.crosses and self.moves else 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    """Share of the profile's time for a case: less where a reading is the mean of many steps."""
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
                yield Case(self.name, cell)

    @cache  # noqa: B019 - workloads are there as long as the process
    def options(self, case: Case) -> CaseOptions:
        """All that is said of one case, worked out once. Raises ValueError where that is not what
        it may be, or a function of the declaration fails."""
        given: dict[str, Any] = {"backend": BACKENDS.get(str(case.values.get("device")), "gloo")}
        for name, option in self.per_case.items():
            try:
                value = option(**case.values) if callable(option) else option
            except Exception as error:
                raise ValueError(f"{name} fails: {type(error).__name__}: {error}") from error
            if value is not None:
                given[name] = tuple(value) if name == "needs" else value  # a generator's, too
        return convert(given, CaseOptions)

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
        num_needed = options.ranks or 1 + options.needs.count("second device")
        if device == "cuda" and num_devices < num_needed:
            return too_few(device, num_needed, num_devices)
        lacks = lacking(device, num_devices)
        return next((lacks[ability] for ability in options.needs if ability in lacks), None)

    def raised_at(self, error: BaseException) -> str:
        """Where in the workload's file an error was raised; empty where it came through none."""
        module = sys.modules.get(self.build.__module__)
        return raised_at(error, Path(module.__file__)) if module and module.__file__ else ""


# ---- how it is declared -------------------------------------------------------------------------

Cache = dict[str, Any]


class Suite:
    """Base of every asv class: `setup` skips a case, `track_seconds` reads it."""

    declared: ClassVar[Workload]
    unknown: ClassVar[Set[str]]
    """Options of its declaration that this hostbench does not know."""
    unit = "seconds"
    timeout = 600.0

    def setup(self, cache: Cache | AxisValue, *values: AxisValue) -> None:
        """Skip what the installed commit lacks or this machine cannot do."""
        if not isinstance(cache, dict):  # asv has passed the first value in its place
            call = f"def setup_cache(): return suite.measure({self.declared.family!r})"
            raise RuntimeError(f"the file lacks its setup_cache, which measures: add `{call}`")
        entry = self._entry(cache, values)
        if entry["status"] == "skipped":
            raise NotImplementedError(entry["reason"])

    def track_seconds(self, cache: Cache, *values: AxisValue) -> dict[str, Any]:
        """The launch medians in seconds per step; none when this cache was read before."""
        entry = self._entry(cache, values)
        if entry["status"] == "failed":
            raise RuntimeError(entry["reason"])
        # asv reads a cache once per round; its folder is the working directory of each read
        text = f"{self.declared.name}{values!r}"
        try:
            Path(f"read-{hashlib.sha256(text.encode()).hexdigest()[:16]}").touch(exist_ok=False)
        except FileExistsError:
            return {"samples": [], "number": 1}
        return {"samples": entry["samples"], "number": 1}

    track_seconds.rounds = 2  # type: ignore[attr-defined]

    def _entry(self, cache: Cache, values: Sequence[AxisValue]) -> dict[str, Any]:
        work = self.declared
        case = Case(work.name, dict(zip(work.axes, values, strict=True)))
        entry: dict[str, Any] | None = cache["records"].get(case_key(case))
        if entry is None:
            why = f"{case} is not known at this commit, or this machine is another device's"
            raise NotImplementedError(cache.get("unknown") or why)
        if entry["version"] != work.version:
            raise NotImplementedError(
                f"{work.name} has version {entry['version']} at this commit, not {work.version}"
            )
        return entry


_PER_CASE = set(CaseOptions.__struct_fields__)
_OPTIONS = {"only", "rate_of", "sampling", "baseline", *_PER_CASE}


def workload(
    *, axes: Mapping[str, tuple[AxisValue, ...]], version: str, **options: Any
) -> Callable[[Build], type[Suite]]:
    """Declare the decorated function as a workload; its family is the name of its file. Axis names
    must be the function's parameter names, in order, `device` first. `options` are those of
    `_OPTIONS`, which `Workload` and `CaseOptions` explain."""

    def declare(build: Build) -> type[Suite]:
        known = {name: value for name, value in options.items() if name in _OPTIONS}
        work = Workload(
            name=f"{build.__module__.rpartition('.')[2]}.{build.__name__}",
            axes=axes,
            version=version,
            build=build,
            per_case={name: known.pop(name) for name in _PER_CASE & known.keys()},
            **known,
        )
        attributes = {
            "__doc__": build.__doc__,
            "__module__": build.__module__,
            "declared": work,
            "unknown": options.keys() - _OPTIONS,
            "version": version,
            "param_names": tuple(axes),
            "params": tuple(axes.values()),
        }
        return type(class_name(work.name), (Suite,), attributes)

    return declare


def check_family(declared: Sequence[type[Suite]], *, thorough: bool) -> None:
    """Raises ValueError for workloads of a family that no run could follow; `thorough`: also for
    what does not hold for each of their cases, which takes a while."""
    for suite in declared:
        work = suite.declared
        try:
            for name in sorted(suite.unknown):
                raise ValueError(f"@workload has no option {name!r}{did_you_mean(name, _OPTIONS)}")
            _check_axes(work)
            for case in work.cases() if thorough else ():
                work.options(case)
        except Exception as error:  # `only` may raise anything
            kind = "" if isinstance(error, ValueError) else f"only fails: {type(error).__name__}: "
            raise ValueError(f"{work.name}: {kind}{error}") from error
    if len({suite.declared.has_ranks for suite in declared}) > 1:
        # Ranks are forked, and must be before their parent runs the first torch operation.
        raise ValueError("all of a family's workloads declare `ranks`, or none does")


def _check_axes(work: Workload) -> None:
    parameters = tuple(inspect.signature(work.build).parameters)
    if parameters != tuple(work.axes) or parameters[:1] != ("device",):
        raise ValueError(
            f"axes {tuple(work.axes)} must equal parameters {parameters}, and begin with `device`"
        )
    for axis, values in work.axes.items():
        if not values or any(values.count(value) > 1 for value in values):
            raise ValueError(f"{axis} has {values}: a case needs a value, and each once")
        if counts_bytes(axis) and not all(isinstance(value, int) for value in values):
            raise ValueError(f"{axis} counts bytes, but {values} are not all whole numbers")
        for value in values:
            case = Case(work.name, {axis: value})
            if read_case(str(case)) != case:
                raise ValueError(
                    f"{case} cannot be typed: a value is True, False, a whole number, or a text "
                    "that is not a number, without commas, brackets and blanks at its ends"
                )
    if any(value not in work.axes.get(axis, ()) for axis, value in work.baseline.items()):
        raise ValueError(f"the baseline {dict(work.baseline)} is none of the axes' choices")
    if not isinstance(work.version, str) or not work.version:
        raise ValueError(f'version is {work.version!r}, not text such as "1"')


def case_key(case: Case) -> str:
    """The case without the order of its axes, which may differ between commits."""
    return str(Case(case.workload, dict(sorted(case.values.items()))))


def summarize(records: Iterable[CaseRecord]) -> dict[str, dict[str, Any]]:
    """Records of many launches as a cache has them, an entry a case; samples are launch medians in
    seconds."""
    entries: dict[str, dict[str, Any]] = {}
    for record in records:
        entry = entries.setdefault(
            case_key(record.case),
            {"status": "ok", "reason": None, "version": record.version, "samples": []},
        )
        if record.status != "ok":
            entry["status"], entry["reason"] = record.status, record.reason
        elif record.seconds is not None:
            entry["samples"].append(record.seconds)
    return entries


# ---- those that are known -----------------------------------------------------------------------

REGISTRY: dict[str, Workload] = {}
"""Every workload by name, as `hostbench.families` registers it."""


def prepare(work: Workload, device: Device, case: Case) -> Prepared:
    """Build the case's step on an opened device. Raises Unavailable before anything is built where
    the device lacks what the case needs."""
    options = work.options(case)
    for ability in options.needs:
        device.require(ability)
    axes = {name: value for name, value in case.values.items() if name != "device"}
    built = work.build(device, **axes)
    device.enter(case)
    prepared = built if isinstance(built, Prepared) else Prepared(step=built)
    return replace(prepared, depth=options.depth, host_only=options.host_only)
