"""The stand-in's profiler: what Kineto lists, on the virtual clock, each call beside its work."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hostbench.core.units import MIB
from tests.gpu_stand_in import Costs, Floor, cuda_machine

COSTS = Costs()
_cuda: Any = torch.cuda
_profiler: Any = torch.profiler
N = 4 * MIB


@pytest.fixture
def floor() -> Iterator[Floor]:
    with cuda_machine() as made:
        yield made


def profiled(tmp_path: Path, work: Callable[[], Any]) -> list[dict[str, Any]]:
    """The events that a profiler sees of the work."""
    with _profiler.profile(activities=[]) as profile:
        work()
    path = tmp_path / "trace.json"
    profile.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def calls(events: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in events if event["cat"] == "cuda_runtime"]


def buffers(*, pinned: bool) -> tuple[Any, Any]:
    host = torch.zeros(N, dtype=torch.uint8, pin_memory=pinned)
    there = torch.zeros(N, dtype=torch.uint8, device="cuda")
    _cuda.synchronize()
    return host, there


@pytest.mark.parametrize(
    ("pinned", "into", "non_blocking", "functions"),
    [
        (True, True, True, ["cudaMemcpyAsync"]),
        (True, False, True, ["cudaMemcpyAsync"]),
        (True, True, False, ["cudaMemcpyAsync", "cudaStreamSynchronize"]),
        (False, True, True, ["cudaMemcpyAsync"]),
        (False, True, False, ["cudaMemcpyAsync", "cudaStreamSynchronize"]),
        (False, False, True, ["cudaMemcpyAsync"]),
        (False, False, False, ["cudaMemcpyAsync", "cudaStreamSynchronize"]),
    ],
)
def test_a_copy_is_one_call_and_a_wait_where_it_blocks(
    floor: Floor,
    tmp_path: Path,
    pinned: bool,
    into: bool,
    non_blocking: bool,
    functions: list[str],
) -> None:
    host, there = buffers(pinned=pinned)
    target, source = (there, host) if into else (host, there)
    events = profiled(tmp_path, lambda: target.copy_(source, non_blocking=non_blocking))
    assert calls(events) == functions
    call = next(event for event in events if event["name"] == "cudaMemcpyAsync")
    (copy,) = (event for event in events if event["cat"] == "gpu_memcpy")
    assert copy["args"]["correlation"] == call["args"]["correlation"]
    assert copy["args"]["bytes"] == N
    waits_inside = not pinned and not (into and non_blocking)
    assert call["dur"] * 1e-6 >= (COSTS.launch_s if pinned else COSTS.call_s)
    if waits_inside and non_blocking:  # the whole copy is inside the call
        assert call["ts"] + call["dur"] >= copy["ts"] + copy["dur"]


def test_waits_events_and_launches_are_named_as_the_runtime_names_them(
    floor: Floor, tmp_path: Path
) -> None:
    _, there = buffers(pinned=True)
    side, event = _cuda.Stream(), _cuda.Event()

    def work() -> None:
        there.add_(1)
        event.record()
        side.wait_event(event)
        event.query()
        side.query()
        event.synchronize()
        side.synchronize()
        _cuda.synchronize()

    events = profiled(tmp_path, work)
    assert calls(events) == [
        "cudaLaunchKernel",
        "cudaEventRecord",
        "cudaStreamWaitEvent",
        "cudaEventQuery",
        "cudaStreamQuery",
        "cudaEventSynchronize",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
    ]
    launch = next(event for event in events if event["name"] == "cudaLaunchKernel")
    assert launch["dur"] * 1e-6 == pytest.approx(COSTS.launch_s)
    (kernel,) = (event for event in events if event["cat"] == "kernel")
    assert kernel["args"]["correlation"] == launch["args"]["correlation"]
    assert kernel["ts"] == pytest.approx(launch["ts"] + launch["dur"])


def test_item_is_a_copy_and_a_wait_for_the_stream(floor: Floor, tmp_path: Path) -> None:
    _, there = buffers(pinned=True)
    named = calls(profiled(tmp_path, lambda: there[0].item()))
    assert named[-2:] == ["cudaMemcpyAsync", "cudaStreamSynchronize"]


def test_what_the_program_names_spans_what_it_did(floor: Floor, tmp_path: Path) -> None:
    _, there = buffers(pinned=True)

    def work() -> None:
        there.add_(1)
        with _profiler.record_function("my step"):
            there.add_(1)

    events = profiled(tmp_path, work)
    first, second = (event for event in events if event["name"] == "cudaLaunchKernel")
    (named,) = (event for event in events if event["cat"] == "user_annotation")
    assert named["name"] == "my step"
    assert first["ts"] + first["dur"] <= named["ts"] <= second["ts"]
    assert named["ts"] + named["dur"] == pytest.approx(second["ts"] + second["dur"])
    assert named["tid"] == second["tid"]


def test_torch_names_its_waits_for_a_dataloader(floor: Floor, tmp_path: Path) -> None:
    loader: Any = torch.utils.data.DataLoader(range(2))  # type: ignore[arg-type]
    events = profiled(tmp_path, lambda: list(loader))
    named = [event["name"] for event in events if event["cat"] == "user_annotation"]
    assert named == ["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"] * 3


def test_nothing_is_kept_of_calls_that_nobody_profiles(floor: Floor, tmp_path: Path) -> None:
    profiled(tmp_path, lambda: _cuda.synchronize())
    _cuda.synchronize()
    assert floor.machine.calls is None
    assert calls(profiled(tmp_path, lambda: None)) == []


def test_operations_are_listed_around_their_calls(floor: Floor, tmp_path: Path) -> None:
    left = torch.ones(64, 64, device="cuda")
    events = profiled(tmp_path, lambda: torch.mm(left, left).sum().item())
    ops = {event["name"]: event for event in events if event["cat"] == "cpu_op"}
    assert list(ops) == ["aten::mm", "aten::sum", "aten::_local_scalar_dense"]
    inside = ops["aten::_local_scalar_dense"]
    waits = [event for event in events if event["name"] == "cudaStreamSynchronize"]
    for wait in waits:
        assert inside["ts"] <= wait["ts"]
        assert wait["ts"] + wait["dur"] <= inside["ts"] + inside["dur"]
    assert len(waits) == 1


def test_a_warning_comes_when_the_operation_is_done(floor: Floor) -> None:
    """As torch's bindings keep it back: the host has waited already."""
    one = torch.ones((), device="cuda")
    _cuda.synchronize()
    at_s: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_, **__: at_s.append(floor.machine.now_s)
        _cuda.set_sync_debug_mode("warn")
        at_s.clear()  # it says that it does not see everything
        before_s = floor.machine.now_s
        one.item()
        _cuda.current_stream().synchronize()
    first_s, second_s = at_s
    assert before_s + COSTS.launch_s + COSTS.copy_s <= first_s < second_s == floor.machine.now_s
