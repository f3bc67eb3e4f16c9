"""`@workload`: a function in a file of benchmarks/ is a workload, and the class that asv finds.

asv imports these files from HEAD with the hostbench of each commit, so nothing is refused here, nor
is an option that this hostbench does not know. `check_family` refuses, where hostbench itself
loads a file. asv calls a file's `setup_cache` once, which measures every launch there, and then
reads the cases one by one with `track_seconds`.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar

from hostbench.core.case import AxisValue, Case, class_name, counts, parse_selector, read_case
from hostbench.core.errors import UsageError
from hostbench.core.records import CaseRecord
from hostbench.core.suggest import did_you_mean
from hostbench.measure.workload import Build, CaseOptions, Workload

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
            family = self.declared.family
            call = f"def setup_cache(): return suite.measure({family!r})"
            raise RuntimeError(f"{family}.py lacks its setup_cache, which measures: add `{call}`")
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
        case = Case.of(work.name, dict(zip(work.axes, values, strict=True)))
        entry: dict[str, Any] | None = cache["records"].get(case_key(case))
        if entry is None:
            raise NotImplementedError(
                cache.get("unknown")
                or f"{case} is not known at this commit, or this machine is measured as another "
                "device"
            )
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
    """Declare the decorated function as a workload; its family is the name of its file.

    Axis names must be the function's parameter names, in order, `device` first. `options` are
    those of `_OPTIONS`, which `Workload` and `CaseOptions` explain.
    """

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
        if suite.unknown:
            name = min(suite.unknown)
            raise ValueError(
                f"{work.name}: @workload has no option {name!r}{did_you_mean(name, _OPTIONS)}"
            )
        _check_axes(work)
        if thorough:
            try:
                cases = [*work.cases()]
            except Exception as error:
                why = f"only fails: {type(error).__name__}: {error}"
                raise ValueError(f"{work.name}: {why}") from error
            for case in cases:
                try:
                    work.options(case)
                except ValueError as error:
                    raise ValueError(f"{work.name}: of {case}: {error}") from error
    if len({suite.declared.has_ranks for suite in declared}) > 1:
        # Ranks are forked, and must be before their parent runs the first torch operation.
        raise ValueError("all of a family's workloads declare `ranks`, or none does")


def _check_axes(work: Workload) -> None:
    parameters = tuple(inspect.signature(work.build).parameters)
    if parameters[:1] != ("device",) or [*work.axes][:1] != ["device"]:
        name = work.name.partition(".")[2]
        raise ValueError(
            f"{work.name}: the first axis and the first parameter must be `device`, as in "
            f'axes={{"device": DEVICES, ...}} and def {name}(device, ...)'
        )
    if parameters != tuple(work.axes):
        raise ValueError(f"{work.name}: axes {tuple(work.axes)} must equal parameters {parameters}")
    for axis, values in work.axes.items():
        _check_values(work.name, axis, values)
        if counts(axis) and not all(isinstance(value, int) for value in values):
            raise ValueError(f"{work.name}: {axis} counts, but {values} are not all whole numbers")
    wrong = {axis for axis, value in work.baseline.items() if value not in work.axes.get(axis, ())}
    if wrong:
        raise ValueError(
            f"{work.name}: the baseline {dict(work.baseline)} is none of the axes' choices"
        )
    if not isinstance(work.version, str) or not work.version:
        raise ValueError(f'{work.name}: version is {work.version!r}, no text such as "1"')


def _check_values(name: str, axis: str, values: Sequence[AxisValue]) -> None:
    """Raises ValueError for values that no case can be named by."""
    for index, value in enumerate(values):
        if not isinstance(value, str | int):
            raise ValueError(
                f"{name}: {axis} has {value!r}: a value is a text, a whole number, True or False"
            )
        if value in values[:index]:
            raise ValueError(f"{name}: {axis} has {value!r} twice")
        case = Case.of(name, {axis: value})
        try:
            parse_selector(str(case))
            if read_case(str(case)) != case:
                raise UsageError("it reads as another")
        except UsageError as error:
            raise ValueError(
                f"{name}: {case} cannot be typed ({error}): names are of a-z, 0-9 and _, values "
                "hold no commas, brackets and blanks at their ends, and are no numbers in quotes"
            ) from error
    if not values:
        raise ValueError(f"{name}: {axis} has no values: a case needs one")


def case_key(case: Case) -> str:
    """The case without the order of its axes, which may differ between commits."""
    return str(Case(case.workload, dict(sorted(case.axes))))


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
