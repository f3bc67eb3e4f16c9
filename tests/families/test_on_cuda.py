"""Every family on the fake CUDA: whole launches of the cuda device, timed and observed.

A synchronize that is missing or one too many is a wrong count, and a typo in a line for CUDA an
error.
"""

import gc
import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostbench.cli.init import recipe
from hostbench.core.case import Case
from hostbench.core.records import CaseRecord, Launch
from hostbench.core.units import KIB, MIB
from hostbench.core.user_project import WORKLOADS
from hostbench.device import numa
from hostbench.device.cuda import CudaDevice
from hostbench.families import known, load
from hostbench.measure import evidence, measure
from hostbench.measure.measure import BRIEF
from hostbench.measure.workload import Workload, prepare
from tests import own_project
from tests.fakes.builders import declared_case, walked
from tests.fakes.fake_cuda import Costs, Machine, cuda_machine

COSTS = Costs()
WORKS = {name: work for name, work in load().items() if not work.has_ranks}
DEPTHS = WORKS["synchronization.loop"].build.__globals__["DEPTHS"]
SMALL = 250 * KIB
"""Less than is looked for in the link's counters."""
BATCH = 2 * MIB
"""Whose copy takes longer than the shortest compute, also a quarter of it."""
SIZED = ("bytes", "_us", "batch_size", "prefetch_factor", "compute_to_copy")
FEW = {"num_workers": 1, "batch_size": 2, "num_tensors": 4, "num_examples": 4, "num_devices": 2}
FEW["num_queued"] = 2
"""The most of what is counted: starting a DataLoader's workers takes long, as a thousand tensors
do."""
WAITS = ("device", "stream", "event", "implicit")


def smallest(work: Workload) -> Iterator[Case]:
    """One cuda case for each choice on the axes that are no size, with smaller sizes than any that
    is measured, and few of what is counted; the shortest steps of a loop. What needs a process of
    its own is run in this one."""
    found: dict[object, Case] = {}
    for case in work.cases():
        anew = case.values.get("persistent") is False  # would fork this process again and again
        if case.values["device"] == "cuda" and not anew:
            small = dict(case.values)
            for name, value in small.items():
                if name.endswith("bytes"):
                    small[name] = min(BATCH if name == "batch_bytes" else SMALL, int(value))
            small |= {n: min(FEW[n], int(v)) for n, v in small.items() if n in FEW}
            rest = tuple(value for name, value in small.items() if not name.endswith(SIZED))
            found.setdefault(rest, Case(case.workload, small))
    return iter(found.values())


def outcomes(family: str) -> list[CaseRecord]:
    """Each case timed, and then observed where it does anything on the device."""
    cases = [case for work in WORKS.values() if work.family == family for case in smallest(work)]
    launch = Launch(
        number=0, cases=tuple(cases), settings=BRIEF, observes_after=True, deadline_s=60.0
    )
    gc.collect()
    gc.freeze()  # as the server does: garbage is looked for after each case
    found = walked(launch)
    timed = [each for each in found if each.launch == 0]
    assert [each.case for each in timed] == cases
    on_device = (
        each.case
        for each in timed
        if each.status == "ok" and not WORKS[each.case.workload].options(each.case).host_only
    )
    assert [each.case for each in found if each.launch == 1] == [*on_device]
    return found


# ---- waits and times of the loops ---------------------------------------------------------------


def stepped(
    floor: Machine, device: CudaDevice, name: str, nbytes: int = SMALL, **axes: Any
) -> tuple[dict[str, int], float, set[int]]:
    """Waits inside one step, the seconds from its start to a synchronize, and the streams that it
    used."""
    work = WORKS[name]
    case = declared_case(work, **{"memory": "pinned", **axes})
    sizes = {axis: nbytes for axis in case.values if axis.endswith("bytes")}
    if "batch_bytes" in sizes:
        sizes["batch_bytes"] = max(BATCH, nbytes)
    prepared = prepare(work, device, Case(name, {**case.values, **sizes}))
    prepared.step()
    device.synchronize()
    counts, start_s = floor.gpus[0].counts.copy(), floor.now_s
    before = len(floor.log)
    prepared.step()
    found = floor.gpus[0].counts - counts
    events = floor.log[before:]
    device.synchronize()
    seconds = floor.now_s - start_s
    assert prepared.verify is None or prepared.verify() is None
    device.reset()
    streams = {event.queue.number for event in events if event.queue is not None}
    return {what: num for what, num in Counter(found).items() if what in WAITS}, seconds, streams


STEPS: tuple[tuple[str, dict[str, Any], dict[str, int], int], ...] = (
    ("overlap.pipeline", {"schedule": "copy_only"}, {}, 0),
    ("overlap.pipeline", {"schedule": "compute_only"}, {}, 0),
    ("overlap.pipeline", {"schedule": "serial"}, {"implicit": 8, "device": 8}, 0),
    ("overlap.pipeline", {"schedule": "default_stream"}, {}, 0),
    ("overlap.pipeline", {"schedule": "copy_stream"}, {}, 2),
    ("overlap.pipeline", {"schedule": "graph"}, {}, 0),
    ("overlap.pipeline", {"schedule": "streams_2"}, {}, 2),
    ("overlap.pipeline", {"schedule": "streams_4"}, {}, 4),
    ("overlap.ordered", {"ordering": "events"}, {}, 2),
    ("overlap.ordered", {"ordering": "record_stream"}, {}, 2),
    ("overlap.ordered", {"ordering": "stream_synchronize"}, {"stream": 16}, 2),
    ("overlap.ordered", {"ordering": "device_synchronize"}, {"device": 8}, 2),
    ("overlap.round_trip", {"schedule": "serial"}, {"implicit": 16}, 0),
    ("overlap.round_trip", {"schedule": "default_stream"}, {}, 0),
    ("overlap.round_trip", {"schedule": "three_streams"}, {}, 3),
    ("loading.loop", {"way": "blocking"}, {"implicit": 1}, 0),
    ("loading.loop", {"way": "non_blocking"}, {}, 0),
    ("loading.loop", {"way": "side_stream"}, {}, 2),
    ("transfer.both_ways", {}, {}, 2),
    ("transfer.host_to_device", {"blocking": True}, {"implicit": 1}, 0),
    ("transfer.host_to_device", {"blocking": False}, {}, 0),
    ("transfer.device_to_host", {"blocking": True}, {"implicit": 1}, 0),
    ("transfer.device_to_host", {"blocking": False}, {}, 0),
)
"""Workload, axes, waits in a step, side streams."""


def test_a_step_waits_as_often_as_its_name_says_and_uses_its_streams(floor: Machine) -> None:
    """Side streams leave the default stream alone: else a copy would be beside the compute by
    luck."""
    device = CudaDevice()
    for name, axes, waits, side_streams in STEPS:
        found, _, used = stepped(floor, device, name, **axes)
        assert found == waits, (name, axes)
        is_aside = 0 not in used and len(used) == side_streams
        assert is_aside if side_streams else used == {0}, (name, axes)


def test_a_loop_that_is_fed_is_never_more_than_two_computes_ahead(floor: Machine) -> None:
    """Each step from the third on waits for the compute of the one before the last."""
    work, device = WORKS["loading.loop"], CudaDevice()
    case = declared_case(work, num_workers=0, way="non_blocking")
    prepared = prepare(work, device, Case(work.name, {**case.values, "item_bytes": KIB}))
    counts = floor.gpus[0].counts
    waits = []
    for _ in range(5):
        before = counts["event"]
        prepared.step()
        waits.append(counts["event"] - before)
    assert waits == [0, 0, 1, 1, 1]
    device.reset()


def test_side_streams_hide_the_copies_behind_the_compute(floor: Machine) -> None:
    """By the virtual clock: all but the first copy, and what the host takes to enqueue."""
    device = CudaDevice()
    serial_s, one_stream_s, copies_s, overlapped_s = (
        stepped(floor, device, "overlap.pipeline", nbytes=8 * MIB, schedule=schedule)[1]
        for schedule in ("serial", "default_stream", "copy_only", "copy_stream")
    )
    each_s = COSTS.copy_s + 8 * MIB / COSTS.link_bytes_per_s
    assert copies_s == pytest.approx(8 * each_s, rel=0.01)
    assert one_stream_s == pytest.approx(16 * each_s, rel=0.02)
    assert serial_s > one_stream_s
    assert overlapped_s == pytest.approx(9 * each_s, rel=0.02)


# ---- whole launches -----------------------------------------------------------------------------


@pytest.mark.parametrize("family", sorted({work.family for work in WORKS.values()}))
def test_every_case_is_measured_and_is_what_it_declares(family: str) -> None:
    """On two GPUs, so that nothing is skipped. What is sure of large copies alone is expected of
    larger cases than these; so are the link's counters, which want many repetitions. On its clock
    what the host does by itself takes no time, however often it is repeated."""
    with (
        cuda_machine(2),
        mock.patch.object(evidence, "MAX_REPEATS", 4),
        mock.patch.object(measure, "MAX_NUMBER", 4),
        mock.patch.object(measure, "MIN_SAMPLES", 1),
        mock.patch.dict(DEPTHS, {10: 10}),
        mock.patch.object(Workload, "options", Workload.options.__wrapped__),  # each time anew
        mock.patch.object(known()["allocation"].module, "NUM_BATCHES", 3),
        mock.patch.object(numa, "far_from", lambda address: nullcontext()),
    ):
        found = outcomes(family)
    for outcome in found:
        if str(outcome.reason).endswith("nothing is staged"):
            continue  # these two reach each other
        assert (outcome.status, outcome.reason) == ("ok", None), outcome
        proofs = outcome.measurement.proofs.values()
        assert all(said == "passed" or said.endswith(UNCOUNTED) for said in proofs), outcome
        expected = WORKS[outcome.case.workload].options(outcome.case).expects
        findings = outcome.measurement.findings
        seen = expected.keys() - {"stale"}  # the fake writes memory at once
        named = {name: findings[name] for name in seen if findings.get(name) is not None}
        assert named == {name: expected[name] for name in named}, outcome


UNCOUNTED = "is too little for the link's counters", "the bytes cross the links of two devices"


# ---- a training step of one's own ---------------------------------------------------------------


def printed(root: Path) -> None:
    own_project.write_files(own_project.FIRST, root)


def begun(root: Path) -> None:
    own_project.write(root, f"# benchmarks/steps.py\n{recipe('project/steps.py')}")
    own_project.write(root, f"# example_model.py\n{recipe('project/example_model.py')}")


@pytest.mark.parametrize(("write", "device"), [(printed, "cuda"), (begun, "cpu"), (begun, "cuda")])
def test_a_training_step_of_ones_own(
    write: Callable[[Path], None], device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/your-own.md prints it (test_own_project runs it on cpu), and as `hostbench init`
    begins one; its loss must shrink."""
    importlib.import_module("torch._dynamo")  # by an optimizer: not while CUDA is a fake
    write(tmp_path)
    (tmp_path / "asv.conf.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(WORKLOADS, str(tmp_path / "benchmarks"))
    with own_project.forgotten(), cuda_machine() if device == "cuda" else nullcontext():
        cases = load(("steps",))["steps.train"].cases()
        wanted = {"num_examples": 32, "device": device}
        chosen = tuple(one for one in cases if wanted.items() <= one.values.items())
        launch = Launch(number=0, cases=chosen, settings=BRIEF, deadline_s=60.0)
        found = walked(launch)
    assert [(one.status, one.reason) for one in found] == [("ok", None)] * len(chosen)
    assert len(chosen) == (2 if write is printed else 1)
    assert all(one.measurement.proofs["data"] == "passed" for one in found)
