"""The profiler of `hostbench idle` on the fake CUDA: planted waits are named by the line of the
call. Times are the virtual clock's, on which Python takes none."""

import re
import warnings
from collections.abc import Iterator
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
NBYTES = 4 << 20
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


def loss() -> Any:
    return torch.ones((), device="cuda")


def log(value: Any) -> float:
    text = "the loss"
    assert text
    return float(value.item())  # waits: aten::_local_scalar_dense


def work(pageable: Any, pinned: Any, event: Any) -> None:
    """The first waits torch warns of, whatever filters of warnings the script sets."""
    log(loss())
    if loss() > 3:  # waits: aten::_local_scalar_dense
        raise AssertionError
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss().item()  # waits: aten::_local_scalar_dense
        loss().item()  # waits: aten::_local_scalar_dense
    with warnings.catch_warnings(record=True) as listed:
        warnings.simplefilter("always")
        loss().item()  # waits: aten::_local_scalar_dense
        warnings.warn("theirs", stacklevel=1)
    assert [str(warning.message) for warning in listed] == ["theirs"]
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        loss().item()  # waits: aten::_local_scalar_dense
    _cuda.synchronize()  # waits: cudaDeviceSynchronize
    event.record()
    event.synchronize()  # waits: cudaEventSynchronize
    _cuda.current_stream().synchronize()  # waits: Stream.synchronize
    pageable.to("cuda", non_blocking=True)  # waits: aten::_to_copy
    pinned.to("cuda", non_blocking=True)


def test_each_wait_has_the_line_of_its_call(tmp_path: Path) -> None:
    left = torch.ones(256, 256, device="cuda")
    pageable, pinned = torch.zeros(NBYTES // 4), torch.zeros(NBYTES // 4, pin_memory=True)
    session = Session()
    for _ in range(STEPS):
        for _ in range(3):
            torch.mm(left, left)
        work(pageable, pinned, _cuda.Event())
        session.step()
    session.stop(tmp_path / "trace.json")
    report, _ = answer(tmp_path / "trace.json")
    matches = (re.search(r"# waits: ([\w:.]+)$", line) for line in HERE.read_text().splitlines())
    calls = {number: match[1] for number, match in enumerate(matches, 1) if match}
    assert {wait.line: wait.call for wait in report.waits} == calls
    assert {(Path(wait.file).name, wait.count) for wait in report.waits} == {(HERE.name, STEPS)}
    assert {wait.function for wait in report.waits} == {"log", "work"}
    assert all(wait.seconds > 0 for wait in report.waits)
    total = STEPS * NBYTES
    copied = {(copy.way, copy.count, copy.nbytes) for copy in report.copies}
    assert {("H2D pageable", STEPS, total), ("H2D pinned", STEPS, total)} <= copied
    assert [wait.nbytes for wait in report.waits if wait.nbytes] == [total]


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
