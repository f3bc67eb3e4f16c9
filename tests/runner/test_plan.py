"""What a run measures: choice, order, and the launches of its parts."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec import structs

from benchmarks.collectives import NUM_RANKS
from hostbench import asv_measure as suite
from hostbench.asv_env import options_of
from hostbench.core.case import Case, parse_selector
from hostbench.core.errors import Unavailable, UsageError
from hostbench.core.records import CaseRecord, Launch, Measurement
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.families import load
from hostbench.runner import session, worker
from hostbench.runner.plan import QUICK, SPARE, STANDARD, Plan, choose, fitting
from hostbench.runner.progress import Bar
from tests.fakes.builders import InProcess, copy_case, record

WORKLOADS = load(("transfer", "allocation"))


def chosen(*selectors: str, device: str = "cpu", quick: bool = False) -> tuple[Case, ...]:
    parsed = [parse_selector(text) for text in selectors]
    return choose(WORKLOADS, device, selectors=parsed, quick=quick)


def test_selectors_add_up_in_the_order_of_declaration() -> None:
    found = chosen("allocation[nbytes=1MiB,fill=zeros]", "transfer.device_to_host[nbytes=64KiB]")
    assert [case.family for case in found] == ["transfer"] * 6 + ["allocation"] * 2
    assert chosen("transfer", "transfer.host_to_device") == chosen("transfer")
    (one,) = chosen(str(copy_case(nbytes=65536)))
    assert one == copy_case(nbytes=65536)


@pytest.mark.parametrize(
    ("selectors", "device", "num"),
    [
        (["transfer.host_to_device"], "cuda", 1),
        (["transfer.host_to_device", "transfer.between_devices"], "cuda", 2),
        (["transfer.host_to_all"], "cuda", 8),
        (["collectives[num_ranks=4]"], "cuda", 4),
        (["transfer.host_to_device"], "cpu", 0),
    ],
)
def test_the_gpus_that_a_plan_uses(selectors: list[str], device: str, num: int) -> None:
    parsed = [parse_selector(text) for text in selectors]
    plan = Plan(profile=QUICK, cases=choose(load(), device, selectors=parsed))
    assert plan.num_gpus() == num
    assert replace(plan, device_override="simulated").num_gpus() == 0


def test_a_case_of_another_family_than_those_named_is_told() -> None:
    named = "'overlap' selects no case: no family or workload 'overlap' is among them"
    with pytest.raises(UsageError, match=named):
        chosen("transfer", "overlap")


def test_asv_runs_a_number_of_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(suite.LAUNCHES, "0")
    with pytest.raises(UsageError, match=f"{suite.LAUNCHES}='0' is not a number of launches"):
        suite._measure({})


def plan(**changes: object) -> Plan:
    fields = {"profile": replace(QUICK, launches=3), "cases": chosen(quick=True), "seed": 1}
    return Plan(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "scratch"),
    [
        ("python -m asv run HEAD^! --record-samples -b profile", None),
        ("python -m asv run --quick", "asv --quick"),
        ("python /bin/asv run -qe", "asv --quick"),
        ("python /bin/asv --config F run -n", "asv --dry-run"),
        ("python /bin/asv profile transfer", "asv profile"),
    ],
)
def test_what_asv_measures_by_the_way_is_scratch(
    words: str, scratch: str | None, tmp_path: Path
) -> None:
    (tmp_path / "hostbench").mkdir()
    asked = options_of(words.split())
    assert suite._scratch(tmp_path, 10, "f" * 40, asked) == scratch
    assert suite._scratch(tmp_path, 3, "f" * 40, asked) == "3 launches, under 7"
    assert suite._scratch(tmp_path, 10, None, asked) == "asv names no commit"


def test_asv_measures_what_it_is_asked_for() -> None:
    cases = chosen("transfer")
    asked = suite._chosen(cases, WORKLOADS, ["HostToDevice.*'cpu', 65536, 'pageable'", "Nothing"])
    assert asked == chosen("transfer.host_to_device[nbytes=64KiB,memory=pageable]")
    assert suite._chosen(cases, WORKLOADS, ["Renamed"]) == suite._chosen(cases, WORKLOADS, None)


def test_what_fits_into_the_time_is_measured() -> None:
    """All cases while 7 launches of each fit; else the first ones."""
    costs_s = dict.fromkeys("abcd", 0.5)
    launch_s = 0.5 * SPARE
    for launches, fits in ((90.1, (20, "abcd")), (40.1, (10, "abcd")), (28.1, (7, "abcd"))):
        assert fitting(costs_s, launches * launch_s, 20) == (fits[0], tuple(fits[1]))
    assert fitting(costs_s, 27.9 * launch_s, 20) == (7, ("a", "b", "c"))
    assert fitting({"a": 0.1, "b": 9.0}, 2.0, 20) == (7, ("a",))
    assert fitting(costs_s, 0.0, 20) == (7, ())
    assert fitting(dict.fromkeys("ab", 0.0), 1.0, 10) == (10, ("a", "b"))


def test_the_order_is_shuffled_and_can_be_had_again() -> None:
    orders = [plan().order("transfer", launch) for launch in range(3)]
    assert orders == [plan().order("transfer", launch) for launch in range(3)]
    assert len(set(orders)) == 3
    assert plan(seed=2).order("transfer", 0) != orders[0]
    family = {case for case in plan().cases if case.family == "transfer"}
    assert all(set(order) == family and len(order) == len(family) for order in orders)
    # Not by the hash seed: another process has the same order.
    cases = tuple(copy_case(nbytes=number) for number in range(6))
    order = plan(cases=cases, seed=7).order("transfer", 0)
    assert [case.values["nbytes"] for case in order] == [1, 2, 4, 0, 3, 5]


def test_cases_of_one_number_of_ranks_and_one_backend_stay_together() -> None:
    """Ranks are started once for each, those and the cases within in random order."""
    cases = choose(load(("collectives",)), "cpu")
    ranked = plan(cases=cases)
    orders = [ranked.order("collectives", launch) for launch in range(8)]
    assert orders == [plan(cases=cases).order("collectives", launch) for launch in range(8)]
    backends = [[case.values.get("backend", "gloo") for case in order] for order in orders]
    counts = [[case.values["num_ranks"] for case in order] for order in orders]
    pools = [zip(*both, strict=True) for both in zip(counts, backends, strict=True)]
    runs = [tuple(pool for pool, _ in itertools.groupby(each)) for each in pools]
    every = {*((num, "gloo") for num in NUM_RANKS), (2, "mpi")}
    assert all(sorted(each) == sorted(every) for each in runs)
    assert len(set(runs)) > 1
    assert all(set(order) == set(cases) and len(order) == len(cases) for order in orders)
    within = {tuple(c for c in order if c.values["num_ranks"] == 2) for order in orders}
    assert len(within) > 1


def quick_on_gpus(**changes: object) -> Plan:
    workloads = load(("transfer", "allocation", "collectives"))
    return plan(cases=choose(workloads, "cuda", quick=True), **changes)


def families_of(launch: Launch) -> tuple[str, ...]:
    return tuple(dict.fromkeys(case.family for case in launch.cases))


def test_on_gpus_the_families_of_a_quick_launch_share_a_worker() -> None:
    """But for those that need ranks, which are forked before anything of CUDA is started."""
    shared = quick_on_gpus()
    assert shared == quick_on_gpus()
    walks = [[*map(families_of, shared.workers(launch))] for launch in range(8)]
    assert {walk[-1] for walk in walks} == {("collectives",)}
    assert {walk[0] for walk in walks} == {("transfer", "allocation"), ("allocation", "transfer")}


@pytest.mark.parametrize(
    "alone",
    [plan(), quick_on_gpus(profile=STANDARD), quick_on_gpus(device_override="simulated")],
    ids=["cpu", "standard", "simulated"],
)
def test_else_every_family_has_its_own(alone: Plan) -> None:
    families = dict.fromkeys(map(families_of, alone.workers(0)))
    assert list(families) == [(family,) for family in alone.families()]


class Told:
    """Stands in for a Launcher: the launches that it was asked for, each case of which is ok."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []

    def run(self, launch: Launch) -> Iterator[CaseRecord]:
        self.launches.append(launch)
        for case in launch.cases:
            yield record(case, launch.number)


def observed(whole: Plan, launcher: object) -> list[CaseRecord]:
    """All records of a plan on one side that observes."""
    found = session.records(whole, [launcher], Bar(), observes=True)  # type: ignore[list-item]
    return [record for _, record in found]


def test_a_shared_launch_walks_family_by_family_and_is_observed_as_one() -> None:
    shared, told = quick_on_gpus(), Told()
    found = observed(shared, told)
    together = {"transfer", "allocation"}
    assert [{*families_of(launch)} for launch in told.launches] == [together, {"collectives"}] * 4
    for launch in told.launches:
        runs = [family for family, _ in itertools.groupby(case.family for case in launch.cases)]
        assert len(runs) == len(set(runs))
    pairs = [(record.case, record.launch) for record in found]
    num_observed = sum(len(launch.cases) for launch in told.launches[-2:])
    assert len(pairs) == len(set(pairs)) == 3 * len(shared.cases) + num_observed
    # of too few for a verdict the last observes what it has timed
    after = [launch.observes_after for launch in told.launches]
    assert after == 4 * [False] + 2 * [True] + 2 * [False]
    judged = Told()
    observed(quick_on_gpus(profile=QUICK), judged)
    assert not any(launch.observes_after for launch in judged.launches)


def test_two_sides_share_no_worker() -> None:
    """What is compared are the two launches of a family that follow each other."""
    sides = Told(), Told()
    for _ in session.records(quick_on_gpus(), sides, Bar()):  # type: ignore[arg-type]
        pass
    for told in sides:
        families = [("transfer",), ("allocation",), ("collectives",)]
        assert [*map(families_of, told.launches)] == families * 3


def test_a_part_of_a_run_has_its_own_launches_and_cases() -> None:
    whole = plan(device_override="simulated")
    assert whole.families() == ("transfer", "allocation")
    rest = whole.part(1, 3, whole.cases[:2])
    assert list(rest.launches()) == [1, 2]
    assert list(whole.part(1, 3, ()).workers(1)) == [], "no case fits into the time that is left"
    found = observed(rest, InProcess())
    assert {record.launch for record in found} == {1, 2, 3}, "the last observes"
    assert {record.case for record in found} == set(whole.cases[:2])


def test_a_case_that_was_skipped_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "open_device", Mock(side_effect=Unavailable("no simulated")))
    launcher = InProcess()
    cases = chosen("transfer[nbytes=64KiB]")
    skipping = plan(cases=cases, device_override="simulated")
    found = observed(skipping, launcher)
    assert len(found) == len(cases)
    assert {(r.status, r.reason, r.launch) for r in found} == {("skipped", "no simulated", 0)}
    assert len(launcher.launches) == 1


class Breaking(InProcess):
    """Launches that observe break at every case."""

    def run(self, launch: Launch) -> Iterator[CaseRecord]:
        for one in super().run(launch):
            if launch.observe:
                one = structs.replace(
                    one, status="failed", reason="the profiler broke", measurement=Measurement()
                )
            yield one


def test_observing_gives_up_but_says_so_of_every_case() -> None:
    whole = plan(device_override="simulated", cases=chosen(device="simulated", quick=True))
    last = whole.part(MIN_LAUNCHES - 1, MIN_LAUNCHES, whole.cases)
    found = observed(last, Breaking())
    passes = [record for record in found if record.launch == MIN_LAUNCHES]
    # of the cases of the host alone nothing can be observed
    ours = {case for case in whole.cases if not WORKLOADS[case.workload].options(case).host_only}
    assert {record.case for record in passes} == ours < set(whole.cases)
    assert {record.status for record in passes} == {"ok"}
    said = [str(record.measurement.proofs["copies"]) for record in passes]
    lost = "unavailable: the observing pass failed: the profiler broke"
    after = "unavailable: left out after 3 broken observing passes, the last: the profiler broke"
    assert said[: session.MAX_LOST] == [lost] * session.MAX_LOST
    assert set(said[session.MAX_LOST :]) == {after}
