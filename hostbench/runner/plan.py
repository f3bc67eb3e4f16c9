"""What a run measures: profiles, the choice of cases, their random order."""

import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hostbench.core.case import Case, Selector
from hostbench.core.errors import UsageError
from hostbench.core.records import Launch, Settings
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.device.simulated_file import MARK
from hostbench.facts.gpu import Hardware
from hostbench.families import check_selects
from hostbench.measure.workload import REGISTRY, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How thorough a run is; never which depth or size a case has."""

    name: str
    launches: int
    settings: Settings = field(default_factory=Settings)
    deadline_s: float = 60.0
    shares_workers: bool = False
    """On cuda, which takes seconds to start, families without ranks share a launch's worker."""

    @property
    def is_judged(self) -> bool:
        """Whether it has enough launches for a verdict."""
        return self.launches >= MIN_LAUNCHES

    def of(self, launches: int | None = None, deadline_s: float | None = None) -> "Profile":
        """With other numbers where they are given. What has too few launches for a verdict samples
        as a quick run does, in as few workers."""
        deadline_s = deadline_s or self.deadline_s
        changed = replace(self, launches=launches or self.launches, deadline_s=deadline_s)
        if changed.is_judged:
            return changed
        return replace(changed, settings=QUICK.settings, shares_workers=QUICK.shares_workers)


STANDARD = Profile(name="standard", launches=12)
"""From 8 to 11 launches the 99 % interval of the median is from the least to the most: with 12 one
that was disturbed is forgiven."""
QUICK = Profile(
    name="quick", launches=8, settings=Settings(budget_s=0.04, warmup_s=0.08), shares_workers=True
)
"""Two or three minutes. With 3 launches a second run often said otherwise: see docs/judgement.md. A
third of the sampling time costs little: launches scatter more than the samples inside one."""


SPARE = 1.1  # times the seconds that a launch took: what is planned for the next
RANKS_AXIS = "num_ranks"
CaseT = TypeVar("CaseT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Cases times launches."""

    profile: Profile
    cases: tuple[Case, ...]
    device_override: str | None = None
    """`simulated` in place of the device that each case names; None otherwise."""
    seed: int = 0
    start: int = 0
    """The first launch; those before it are measured already."""

    def families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(case.family for case in self.cases))

    def workers(self, launch: int, *, apart: bool = False, **more: Any) -> Iterator[Launch]:
        """What each worker of a launch is asked for: cases in their order, and the variables that
        differ from this process's own. `more` are fields of Launch that no plan knows. A worker has
        one family; or all that need no ranks, where the profile shares workers, if not `apart`."""
        is_real, shared = self.device_override is None, list[str]()
        is_slow = all(case.values["device"] == "cuda" for case in self.cases)
        if self.profile.shares_workers and is_slow and is_real and not apart:
            ranked = {case.family for case in self.cases if _ranks(case)[0]}
            shared = [family for family in self.families() if family not in ranked]
        random.Random(f"{self.seed}-{launch}-walk").shuffle(shared)
        alone = [[family] for family in self.families() if family not in shared]
        for families in [shared, *alone]:
            cases_of: dict[tuple[tuple[str, str], ...], list[Case]] = {}
            for case in (case for family in families for case in self.order(family, launch)):
                wanted = REGISTRY[case.workload].options(case).environment if is_real else {}
                other = {pair for pair in wanted.items() if os.environ.get(pair[0], "") != pair[1]}
                cases_of.setdefault(tuple(sorted(other)), []).append(case)
            for variables, cases in cases_of.items():
                yield Launch(
                    number=launch,
                    cases=tuple(cases),
                    variables=dict(variables),
                    settings=self.profile.settings,
                    device=self.device_override,
                    deadline_s=self.profile.deadline_s,
                    **more,
                )

    def order(self, family: str, launch: int) -> tuple[Case, ...]:
        """The family's cases of a launch in the order they are measured, shuffled by the seed. One
        number of ranks and one backend stay together: their ranks are started once."""
        cases = [case for case in self.cases if case.family == family]
        rng = random.Random(f"{self.seed}-{family}-{launch}")
        rng.shuffle(cases)
        pools = sorted({_ranks(case) for case in cases})
        rng.shuffle(pools)
        return tuple(sorted(cases, key=lambda case: pools.index(_ranks(case))))

    def turns(self, family: str, launch: int) -> tuple[int, int]:
        """The order in which two sides walk the family in this launch, 0, 1 or 1, 0. Of each two
        launches the first is drawn by the seed and the second turned round (ABBA), so that a steady
        drift cancels out and a periodic one cannot keep step."""
        first = random.Random(f"{self.seed}-{family}-{launch // 2}-turn").randrange(2)
        first ^= launch % 2
        return first, 1 - first

    def launches(self) -> range:
        return range(self.start, self.profile.launches)

    def num_gpus(self) -> int:
        """How many CUDA devices it uses: those of ranks, or those that something is copied to."""
        if self.device_override or self.cases[0].values["device"] != "cuda":
            return 0
        options = [REGISTRY[case.workload].options(case) for case in self.cases]
        return max(o.ranks or 1 + o.needs.count("second device") for o in options)

    def part(self, start: int, end: int, cases: tuple[Case, ...]) -> "Plan":
        """These launches of it, with these of its cases."""
        return replace(self, profile=replace(self.profile, launches=end), cases=cases, start=start)


def fitting(
    costs_s: Mapping[CaseT, float], seconds: float, most: int
) -> tuple[int, tuple[CaseT, ...]]:
    """(launches, cases) that fit into that time, where a launch of a case takes so long: all cases
    with up to `most` launches, or with MIN_LAUNCHES the first that fit."""
    time_s = seconds / SPARE
    launches = min(most, int(time_s / max(sum(costs_s.values()), 1e-9)))
    if launches >= MIN_LAUNCHES:
        return launches, tuple(costs_s)
    chosen = []
    for case, cost_s in costs_s.items():
        time_s -= MIN_LAUNCHES * cost_s
        if time_s >= 0:
            chosen.append(case)
    return MIN_LAUNCHES, tuple(chosen)


def default_device(hardware: Hardware) -> str:
    """cuda where NVIDIA hardware is visible, even if torch cannot use it: that is a failure with a
    remedy, never a silent run on the CPU."""
    return "cuda" if hardware.visible else "cpu"


def choose(
    workloads: Mapping[str, Workload],
    device: str,
    *,
    selectors: Sequence[Selector] = (),
    quick: bool = False,
) -> tuple[Case, ...]:
    """The static cases of `device`, narrowed by selectors (any of them) and to the quick ones.
    Raises UsageError where nothing is selected."""
    every = [case for work in workloads.values() for case in work.cases()]
    for selector in selectors:
        check_selects(selector, workloads, "")
    kind = "cuda" if device == MARK else device
    chosen = [
        case
        for case in every
        if case.values["device"] == kind
        and (not selectors or any(selector.selects(case) for selector in selectors))
        and (not quick or workloads[case.workload].options(case).quick)
    ]
    if not chosen:
        narrowed = " among the quick ones: run without --quick, or declare quick=" if quick else ""
        raise UsageError(
            f"no case is left for device {kind!r}{narrowed}; --device names another, and "
            "`hostbench list --cases` lists all"
        )
    return tuple(chosen)


def cases_of_world(cases: Iterable[Case], num_ranks: int) -> tuple[Case, ...]:
    """The cases; but of those that differ in their number of ranks alone, where none has the
    world's and not all have more, the largest, over as many ranks as there are. Not so what is of
    one process by its nature. What goes half across does so here, too."""
    by_ranks: dict[Case, dict[int, Case]] = {}
    for case in cases:
        any_ranks = Case(case.workload, {**case.values, RANKS_AXIS: ""})
        by_ranks.setdefault(any_ranks, {})[int(case.values.get(RANKS_AXIS, num_ranks))] = case
    chosen: dict[Case, None] = {}  # strides that differ for their ranks alone become the same case
    for declared in by_ranks.values():
        largest = max(declared)
        if num_ranks not in declared and min(declared) < num_ranks and largest > 1:
            values = {**declared[largest].values, RANKS_AXIS: num_ranks}
            if values.get("stride") == largest / 2 > 1:
                values["stride"] = num_ranks // 2
            declared = {num_ranks: Case(declared[largest].workload, values)}
        chosen |= dict.fromkeys(declared.values())
    return tuple(chosen)


def _ranks(case: Case) -> tuple[int, str]:
    """How many ranks, of which backend; none where the worker itself runs the case."""
    options = REGISTRY[case.workload].options(case)
    return (options.ranks, options.backend) if options.ranks else (0, "")
