"""`hostbench.watch` on the fake CUDA: planted waits are named by the line of the call.

Times are the virtual clock's, on which Python takes none.
"""

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import hostbench
from hostbench.core.errors import UsageError
from hostbench.idle import lines
from hostbench.idle.report import IdleReport, WaitingLine
from tests.fakes.fake_cuda import cuda_machine

HERE = Path(__file__)
STEPS = 4
_cuda: Any = torch.cuda


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What stands in for torch is no code of the user's."""
    whose = lines._whose
    fakes = f"{HERE.parent.parent}/fakes/"
    monkeypatch.setattr(
        lines, "_whose", lambda file: "none" if file.startswith(fakes) else whose(file)
    )
    with cuda_machine():
        _cuda.init()
        yield


def is_large(loss: Any) -> bool:
    if loss > 3:
        return True
    return False


def log(loss: Any) -> float:
    text = "the loss"
    assert text
    return float(loss.item())


def watched(work: Callable[[], Any], **how: Any) -> IdleReport:
    """Of some steps, each with a few kernels before the work."""
    left = torch.ones(256, 256, device="cuda")
    with hostbench.watch(show=False, **how) as watch:
        for _ in range(STEPS):
            for _ in range(3):
                torch.mm(left, left)
            work()
            watch.step()
    return watch.report


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def only(report: IdleReport) -> WaitingLine:
    (line,) = report.waits
    assert line.file is not None
    assert Path(line.file).name == HERE.name
    return line


def test_an_item_in_a_helper_function() -> None:
    loss = torch.ones((), device="cuda")
    report = watched(lambda: log(loss))
    assert any(".item() waits for the device, 1 a step" in each.what for each in report.advice)
    line = only(report)
    assert (line.line, line.function) == (line_of(log, ".item()"), "log")
    assert (line.call, line.count) == ("aten::_local_scalar_dense", STEPS)
    assert line.seconds > 0


def test_a_comparison_in_an_if() -> None:
    loss = torch.ones((), device="cuda")
    line = only(watched(lambda: is_large(loss)))
    assert (line.line, line.function) == (line_of(is_large, "if loss > 3"), "is_large")
    assert line.count == STEPS


def wait_for_the_device() -> None:
    _cuda.synchronize()


def wait_for_an_event() -> None:
    event = _cuda.Event()
    event.record()
    event.synchronize()


def wait_for_the_stream() -> None:
    _cuda.current_stream().synchronize()


@pytest.mark.parametrize(
    ("wait", "text", "call"),
    [
        (wait_for_the_device, "_cuda.synchronize", "cudaDeviceSynchronize"),
        (wait_for_an_event, "event.synchronize", "cudaEventSynchronize"),
        (wait_for_the_stream, ".synchronize()", "Stream.synchronize"),
    ],
)
def test_waits_of_which_torch_does_not_warn(wait: Any, text: str, call: str) -> None:
    line = only(watched(wait))
    assert (line.line, line.call, line.count) == (line_of(wait, text), call, STEPS)


def test_two_waits_on_neighbouring_lines() -> None:
    one, other = torch.ones((), device="cuda"), torch.zeros((), device="cuda")

    def both() -> None:
        one.item()
        other.item()

    report = watched(both)
    first = line_of(both, "one.item")
    assert sorted((line.line, line.count) for line in report.waits) == [
        (first, STEPS),
        (first + 1, STEPS),
    ]


def test_a_copy_from_pageable_memory_that_is_called_non_blocking() -> None:
    batch = torch.zeros(1 << 20)

    def move() -> None:
        batch.to("cuda", non_blocking=True)

    report = watched(move)
    line = only(report)
    assert (line.line, line.count) == (line_of(move, "batch.to"), STEPS)
    assert line.nbytes == STEPS * batch.nbytes
    (way,) = report.copies
    assert (way.way, way.count, way.nbytes) == ("H2D pageable", STEPS, STEPS * batch.nbytes)


def test_a_pinned_copy_is_no_wait() -> None:
    batch = torch.zeros(1 << 20, pin_memory=True)
    report = watched(lambda: batch.to("cuda", non_blocking=True))
    assert report.waits == ()
    assert [way.way for way in report.copies] == ["H2D pinned"]


def test_it_prints_the_page_and_keeps_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loss, kept = torch.ones((), device="cuda"), tmp_path / "trace.json"
    with hostbench.watch(trace=kept):
        log(loss)
        log(loss)
    assert capsys.readouterr().out.startswith("GPU 0: idle ")
    assert kept.exists()


def test_everything_is_as_it_was_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the block fails: then there is no report."""

    def state() -> list[Any]:
        calls = [_cuda.synchronize, _cuda.Event.synchronize, torch.Tensor.to]
        return [*calls, vars(torch.Tensor).get("copy_"), type(warnings), list(warnings.filters)]

    before = state()
    with pytest.raises(ZeroDivisionError), hostbench.watch():
        assert state() != before
        raise ZeroDivisionError
    assert state() == before
    assert _cuda.get_sync_debug_mode() == 0
    assert capsys.readouterr().out == ""
    with pytest.warns(UserWarning, match="another warning"), hostbench.watch(show=False):
        torch.ones(3, device="cuda").sum().item()
        warnings.warn("another warning", stacklevel=1)


def under_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.ones((), device="cuda").item()


def under_a_list() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.ones((), device="cuda").item()
        warnings.warn("theirs", stacklevel=1)
    assert [str(each.message) for each in said] == ["theirs"]


def under_nothing() -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        torch.ones((), device="cuda").item()


@pytest.mark.parametrize("work", (under_an_error, under_a_list, under_nothing))
def test_filters_of_warnings_are_the_scripts_own(work: Callable[[], None]) -> None:
    """It sees no warning of ours, and each wait has its line."""
    line = only(watched(work))
    assert (line.line, line.count) == (line_of(work, ".item()"), STEPS)


def test_a_trace_that_cannot_be_kept_is_an_error_before_the_block(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*none/t\.json: there is no such folder"):
        with hostbench.watch(trace=tmp_path / "none/t.json"):
            pytest.fail("begun")


def test_a_profiler_that_runs_already_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.autograd, "_profiler_enabled", lambda: True)
    with pytest.raises(UsageError, match="profiler does not start: one runs already"):
        with hostbench.watch():
            pass
