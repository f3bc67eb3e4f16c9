"""One launch in a worker, walked in this process over workloads made for the test."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import structs

from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, DeviceLost, Unavailable
from hostbench.core.processes import children
from hostbench.core.records import CaseRecord, Done, Launch, Message, Started
from hostbench.device.base import Device
from hostbench.device.simulated import SimulatedDevice
from hostbench.families import load
from hostbench.measure.measure import Prepared
from hostbench.measure.workload import Workload
from hostbench.runner import launcher, worker
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import QUICK, Plan, choose
from tests.fakes.builders import walked

BUSY_S = 100.0


def build(device: Device, kind: str) -> Any:
    if kind == "skips":
        raise Unavailable("not here")
    if kind == "raises":
        device.delay(BUSY_S)
        raise ValueError("two\nlines")
    if kind == "wrong":
        return Prepared(step=lambda: device.delay(1e-3), verify=lambda: "stale")
    return lambda: device.delay(1e-3)


WORK = Workload(
    name="odd.go",
    axes={"device": ("cuda",), "kind": ("fine", "skips", "raises", "wrong")},
    version="1",
    build=build,
)


@pytest.fixture(autouse=True)
def odd_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "load", lambda families: {WORK.name: WORK})


def walk(*kinds: str, device: str | None = "simulated") -> list[Message]:
    messages: list[Message] = []
    cases = tuple(Case(WORK.name, {"device": "cuda", "kind": kind}) for kind in kinds)
    worker.walk(Launch(device=device, cases=cases), messages.append)
    return messages


def records(*kinds: str, device: str | None = "simulated") -> list[CaseRecord]:
    messages = walk(*kinds, device=device)
    return [message.record for message in messages if isinstance(message, Done)]


def test_each_case_starts_and_ends_in_order() -> None:
    messages = walk("fine", "fine")
    begins = [message for message in messages if isinstance(message, Started)]
    assert [type(each) for each in messages] == [*[Started] * 3, Done, Started, Done]
    assert [each.opening for each in begins] == ["", "simulated", "", ""]  # the device, once
    done = [message.record for message in messages if isinstance(message, Done)]
    assert {record.status for record in done} == {"ok"}
    assert done[0].seconds == pytest.approx(1e-3 + 5e-6)


def test_evidence_is_gathered_of_what_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a record of its own, without building the step again."""
    building = Mock(wraps=build)
    work = replace(WORK, build=building)
    monkeypatch.setattr(worker, "load", lambda families: {WORK.name: work})
    cases = tuple(Case(WORK.name, {"device": "cuda", "kind": kind}) for kind in ("fine", "skips"))
    done = walked(Launch(device="simulated", cases=cases, observes_after=True))
    outcomes = [(record.status, record.launch) for record in done]
    assert outcomes == [("ok", 0), ("ok", 1), ("skipped", 0)]
    assert done[0].seconds and done[1].seconds is None and done[1].measurement.findings
    assert [call.kwargs["kind"] for call in building.mock_calls] == ["fine", "skips"]


def test_a_failed_case_leaves_nothing_to_the_next() -> None:
    """The next one is as fast as alone."""
    (alone,) = records("fine")
    for first in ("raises", "skips", "wrong"):
        _, after = records(first, "fine")
        assert after.seconds == pytest.approx(alone.seconds)


def test_the_simulated_device_has_no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Workload(
        name="odd.go", axes={"device": ("cpu",)}, version="1", build=build, per_case={"ranks": 2}
    )
    monkeypatch.setattr(worker, "load", lambda families: {work.name: work})
    (skip,) = records("fine")
    assert (skip.status, skip.reason) == ("skipped", "the simulated device has no ranks")


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BrokenError("no driver; install it"), "no driver; install it"),
        (
            RuntimeError("CUDA error: the launch timed out"),
            "device cuda does not start: CUDA error, the process cannot use the device again: the "
            "launch timed out",
        ),
    ],
)
def test_a_device_that_is_lost_ends_the_walk_without_an_outcome(
    monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    monkeypatch.setattr(worker, "open_device", Mock(side_effect=error))
    messages = walk("fine", "fine", device=None)
    said = [(each.opening, each.lost) for each in messages if isinstance(each, Started)]
    assert len(said) == len(messages) and said[1:] == [("cuda", ""), ("", why)]


def test_a_device_that_cannot_be_reset_ends_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDevice, "reset", Mock(side_effect=RuntimeError("stuck")))
    (fine,) = records("fine", "fine")
    assert (fine.status, fine.reason, fine.seconds) == ("failed", "RuntimeError: stuck", None)
    (raises,) = records("raises", "fine")
    assert "ValueError: two lines" in str(raises.reason)


ASKING = """
import sys
from hostbench import DEVICES, Prepared, workload


@workload(axes={"device": DEVICES}, version="1")
def torch(device):
    there = "torch" in sys.modules
    return Prepared(step=lambda: None, verify=lambda: f"imported: {there}", host_only=True)
"""


def test_the_server_imports_torch_for_what_is_not_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it forks: a worker that imported it would spend seconds of each launch."""
    (tmp_path / "asking.py").write_text(ASKING)
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    with Launcher() as launcher:
        for device, there in (("simulated", False), (None, True), ("simulated", True)):
            cases = (Case("asking.torch", {"device": "cpu"}),)
            launch = Launch(device=device, cases=cases)
            (done,) = launcher.run(launch)
            assert done.reason == f"proof failed: imported: {there}"


READING = """
import os

from hostbench import DEVICES, Prepared, workload

LOADED = {name: os.environ.get(name) for name in ("SETTING", "OTHER")}


@workload(
    axes={"device": DEVICES, "setting": ("as it is", "fast", "none")},
    environment=lambda setting, **_: {
        "as it is": {}, "fast": {"SETTING": "fast"}, "none": {"OTHER": ""}
    }[setting],
    version="1",
)
def read(device, setting):
    said = f"{LOADED}, server {os.getppid()}"
    return Prepared(step=lambda: None, verify=lambda: said, host_only=True)
"""


def test_an_environment_is_there_when_the_server_loads_what_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one launch each environment has a server of its own, which serves the next launch too;
    what the environment is already needs none."""
    (tmp_path / "reading.py").write_text(READING)
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    monkeypatch.setenv("OTHER", "there")
    cases = choose(load(("reading",)), "cpu")
    planned = Plan(profile=replace(QUICK, launches=2), cases=cases)

    def failing(launcher: Launcher) -> dict[str, set[str]]:
        said: dict[str, set[str]] = {}
        for number in range(2):
            for launch in planned.workers(number):
                for done in launcher.run(structs.replace(launch, device="simulated")):
                    said.setdefault(str(done.case.values["setting"]), set()).add(str(done.reason))
        return said

    children_before = children()
    with Launcher() as launcher:
        said = failing(launcher)
        monkeypatch.setenv("SETTING", "fast")
        assert {len(launch.cases) for launch in planned.workers(0)} == {2, 1}
    assert os.environ["OTHER"] == "there"
    assert children() == children_before
    assert all(len(each) == 1 for each in said.values()), "one server for both launches"
    loaded = {name: one.partition(", server")[0] for name, (one,) in said.items()}
    assert loaded == {
        "as it is": "proof failed: {'SETTING': None, 'OTHER': 'there'}",
        "fast": "proof failed: {'SETTING': 'fast', 'OTHER': 'there'}",
        "none": "proof failed: {'SETTING': None, 'OTHER': None}",
    }


HANGING = """
import time

from hostbench import DEVICES, workload


@workload(axes={"device": DEVICES, "kind": ("hangs", "fine")}, version="1")
def go(device, kind):
    if kind != "fine":
        time.sleep(60)
    return lambda: None
"""


def test_a_worker_that_cannot_be_killed_is_told_and_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver may hold it: SIGKILL does nothing. The next case has another worker."""
    (tmp_path / "hanging.py").write_text(HANGING)
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    monkeypatch.setattr(launcher, "kill_group", lambda pid: None)
    monkeypatch.setattr(launcher, "_KILLED_S", 0.2)
    cases = [Case("hanging.go", {"device": "cpu", "kind": k}) for k in ("hangs", "fine")]
    launch = Launch(device="simulated", cases=tuple(cases), deadline_s=1.0)
    with Launcher() as held:
        found = [(one.status, one.reason) for one in held.run(launch)]
    left = "missed its deadline of 1 s, and its process cannot be killed"
    assert found == [("failed", left), ("ok", None)]


STARTING = """
import os
import time

from hostbench import DEVICES, workload
from hostbench.runner import worker

worker.open_device = lambda name, **_: {start}


@workload(axes={{"device": DEVICES, "size": (1, 2)}}, version="1")
def go(device, size):
    return lambda: None
"""


@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("time.sleep(60)", "device simulated does not start: missed its deadline of 1 s"),
        (
            "os._exit(7)",
            "device simulated does not start: the worker process was lost: exit code 7",
        ),
    ],
)
def test_a_device_that_hangs_or_dies_at_its_start_is_not_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str, why: str
) -> None:
    """One case would be failed after the other, each after its deadline."""
    (tmp_path / "starting.py").write_text(STARTING.format(start=start))
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    cases = tuple(Case("starting.go", {"device": "cpu", "size": size}) for size in (1, 2))
    launch = Launch(device="simulated", cases=cases, deadline_s=1.0)
    found: list[CaseRecord] = []
    with Launcher() as starting, pytest.raises(DeviceLost, match=f"^{why}$"):
        found += starting.run(launch)
    assert found == []
    if "lost" in why:  # a setting that the device refuses is not the device: its cases fail
        with Launcher() as starting:
            apart = list(starting.run(structs.replace(launch, variables={"A_SETTING": "1"})))
        assert [(one.status, one.reason) for one in apart] == [("failed", why)] * 2


def test_a_torch_that_cannot_be_imported_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asking.py").write_text(f"{ASKING}\nsys.modules['torch'] = None\n")
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    cases = (Case("asking.torch", {"device": "cpu"}),)
    wrong = "the measuring process could not import torch \\(exit code 1\\): ModuleNotFoundError"
    with Launcher() as launcher, pytest.raises(BrokenError, match=wrong):
        list(launcher.run(Launch(cases=cases)))
