"""The profiler of `hostbench idle` on the fake CUDA: planted waits are named by the line of the
call. Times are the virtual clock's, on which Python takes none."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hostbench.idle import lines
from hostbench.idle.recording import Session
from tests.fakes.fake_cuda import cuda_machine
from tests.made_trace import answer

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


def record(work: Callable[[], Any], folder: Path) -> Any:
    """Of some steps, each with a few kernels before the work."""
    left = torch.ones(256, 256, device="cuda")
    session = Session()
    for _ in range(STEPS):
        for _ in range(3):
            torch.mm(left, left)
        work()
        session.step()
    session.stop(folder / "trace.json")
    return answer(folder / "trace.json")[0]


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def loss() -> Any:
    return torch.ones((), device="cuda")


def log(value: Any) -> float:
    text = "the loss"
    assert text
    return float(value.item())


def in_a_helper_function() -> None:
    log(loss())


def in_an_if() -> bool:
    if loss() > 3:
        return True
    return False


def for_the_device() -> None:
    _cuda.synchronize()


def for_an_event() -> None:
    event = _cuda.Event()
    event.record()
    event.synchronize()


def for_the_stream() -> None:
    _cuda.current_stream().synchronize()


def under_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss().item()


def under_a_list() -> None:
    with warnings.catch_warnings(record=True) as listed:
        warnings.simplefilter("always")
        loss().item()
        warnings.warn("theirs", stacklevel=1)
    assert [str(warning.message) for warning in listed] == ["theirs"]


def under_no_filters() -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        loss().item()


ITEM = "aten::_local_scalar_dense"


@pytest.mark.parametrize(
    ("wait", "function", "text", "call"),
    [
        (in_a_helper_function, log, ".item()", ITEM),
        (in_an_if, in_an_if, "if loss() > 3", ITEM),
        (for_the_device, for_the_device, "_cuda.synchronize", "cudaDeviceSynchronize"),
        (for_an_event, for_an_event, "event.synchronize", "cudaEventSynchronize"),
        (for_the_stream, for_the_stream, ".synchronize()", "Stream.synchronize"),
        (under_errors, under_errors, "loss().item()", ITEM),
        (under_a_list, under_a_list, "loss().item()", ITEM),
        (under_no_filters, under_no_filters, "loss().item()", ITEM),
    ],
)
def test_a_wait_has_the_line_of_its_call(
    wait: Callable[[], Any], function: Callable[..., Any], text: str, call: str, tmp_path: Path
) -> None:
    """torch warns of the first two; whatever filters of warnings the script sets."""
    (line,) = record(wait, tmp_path).waits
    assert line.file is not None and Path(line.file).name == HERE.name
    assert (line.line, line.function) == (line_of(function, text), function.__name__)
    assert (line.call, line.count) == (call, STEPS)
    assert line.seconds > 0


def test_two_waits_on_neighbouring_lines(tmp_path: Path) -> None:
    one, other = loss(), loss()

    def both() -> None:
        one.item()
        other.item()

    report = record(both, tmp_path)
    first = line_of(both, "one.item")
    assert sorted((line.line, line.count) for line in report.waits) == [
        (first, STEPS),
        (first + 1, STEPS),
    ]


@pytest.mark.parametrize("is_pinned", (False, True), ids=("pageable", "pinned"))
def test_a_copy_that_is_called_non_blocking(is_pinned: bool, tmp_path: Path) -> None:
    """From pageable memory it is a wait."""
    batch = torch.zeros(1 << 20, pin_memory=is_pinned)

    def move() -> None:
        batch.to("cuda", non_blocking=True)

    report = record(move, tmp_path)
    total = STEPS * batch.nbytes
    assert [(line.line, line.count, line.nbytes) for line in report.waits] == [
        (line_of(move, "batch.to"), STEPS, total)
    ] * (not is_pinned)
    (copy,) = report.copies
    way = "H2D pinned" if is_pinned else "H2D pageable"
    assert (copy.way, copy.count, copy.nbytes) == (way, STEPS, total)


def test_everything_is_as_it_was_afterwards() -> None:
    def state() -> list[Any]:
        calls = [_cuda.synchronize, _cuda.Event.synchronize, torch.Tensor.to]
        return [*calls, vars(torch.Tensor).get("copy_"), type(warnings), list(warnings.filters)]

    before = state()
    session = Session()
    assert state() != before
    with pytest.warns(UserWarning, match="another warning"):
        loss().sum().item()
        warnings.warn("another warning", stacklevel=1)
    session.stop(None)
    assert state() == before
    assert _cuda.get_sync_debug_mode() == 0
