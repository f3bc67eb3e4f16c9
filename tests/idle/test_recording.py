"""A script under `hostbench idle`: it stays what it is, and some of its steps are recorded.

Real processes, and torch's real profiler, on the CPU: what it sees of a GPU is in test_lines.py.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from hostbench.cli import main
from hostbench.idle.child import processes_of
from hostbench.idle.recording import RecordedProcess
from hostbench.idle.trace import read_trace
from tests.made_trace import answer

QUICKLY = """
import atexit, gc
gc.disable()
atexit.register(gc.freeze)
"""
"""A script that imports torch spends a third of its time looking for garbage in it."""

TRAIN = f"""
{QUICKLY}
import sys
import torch
from torch import nn

def work(steps):
    model = nn.Linear(8, 8)
    one = torch.optim.SGD(model.parameters(), lr=0.1)
    other = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        batch = torch.ones(2, 8).to("cpu")
        loss = model(batch).sum()
        loss.backward()
        one.step()
        other.step()
        loss.item()

def read(loss):
    bool(loss), int(loss), float(loss), [0, 1][loss.to(torch.int64)], loss.tolist(), loss.cpu()
    f"{{loss[0]:.3f}} {{loss}}", loss.nonzero(), loss.clone()

if __name__ == "__main__":
    work(int(sys.argv[1]))
    print(__name__, sys.argv[1:], __file__.endswith("train.py"))
    sys.exit(int(sys.argv[2]))
"""

FORKING = f"""
{QUICKLY}
import json, os, pathlib, signal, sys
import torch, torch._dynamo  # an optimizer imports it when it first steps
from hostbench.idle.recording import Recorder, RecordSettings

def record(seconds=60.0, after_s=60.0, **settings):
    Recorder(
        RecordSettings("notes", ".", seconds=seconds, after_s=after_s, **settings)
    ).install()

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
signal.alarm(120)  # for code that does not end
folder, code = json.loads(line)
os.chdir(folder)
sys.path.insert(0, folder)
import train
sys.stdout = open("said", "w", buffering=1)
status = 1
atexit.register(lambda: os._exit(status))  # last; to take torch apart takes a second
exec(code)
status = 0
"""
Forked = Callable[[str], RecordedProcess | None]


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported torch: it takes seconds."""
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", FORKING]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


@pytest.fixture
def forked(
    forking: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Forked:
    """Runs code in a fork of that process, beside `train`; what its recorder wrote."""
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("train.py").write_text(TRAIN)

    def run(code: str) -> RecordedProcess | None:
        assert forking.stdin is not None and forking.stdout is not None
        forking.stdin.write(json.dumps([str(tmp_path), dedent(code)]) + "\n")
        forking.stdin.flush()
        assert forking.stdout.readline() == "0\n"
        return next(processes_of(Path("notes")), None)

    return run


def line_of(part: str) -> int:
    return next(n for n, line in enumerate(TRAIN.splitlines(), 1) if part in line)


def test_lines_that_would_wait_for_a_gpu(forked: Forked) -> None:
    """Counted in the steps, which are those of the optimizer that steps first. What torch reads of
    its own is no wait: Adam's count of steps."""
    process = forked("record(warmup=0, steps=4)\ntrain.work(5)  # of the last, nothing is recorded")
    assert process is not None and process.trace is not None
    assert len(read_trace(Path(process.trace)).steps.starts) == 4
    report, page = answer(Path(process.trace))
    assert page.startswith("The trace has no GPU work")
    assert f"1 a step  train.py:{line_of('batch = ')} (work)  .to(device)" in page
    assert {
        (wait.call, wait.file, wait.line, wait.count, wait.per_step) for wait in report.likely_waits
    } == {
        (".to(device)", "train.py", line_of("batch = "), 4, 1.0),
        (".item()", "train.py", line_of("loss.item()"), 3, 0.75),
    }


def test_without_an_optimizer_it_goes_by_the_clock(forked: Forked) -> None:
    """The main thread is busy in Python all the while."""
    process = forked(
        """
        record(warmup=2, steps=3, seconds=0.3, after_s=0.2)
        while not [*pathlib.Path("notes").glob("*.json")]:
            train.read(torch.ones(1))
        """
    )
    assert process is not None and process.trace is not None
    trace = read_trace(Path(process.trace))
    assert len(trace.ops) > 0
    assert len(trace.steps.starts) == 0
    report, _ = answer(Path(process.trace))
    assert {wait.call for wait in report.likely_waits} == {
        *("bool(t)", "int(t)", "float(t)", "index(t)", "print(t)"),
        *(".tolist()", ".cpu()", ".nonzero()"),
    }
    assert {wait.per_step for wait in report.likely_waits} == {None}


def test_an_end_in_the_middle_keeps_what_was_recorded(forked: Forked) -> None:
    process = forked("record(warmup=2, steps=3)\ntrain.work(3)")
    assert process is not None and process.trace is not None
    assert (process.steps, process.error) == (3, None)
    assert len(read_trace(Path(process.trace)).steps.starts) == 1


NOTHING: dict[str, tuple[str, int, str | None]] = {
    "too few steps": ("record(warmup=2, steps=3)\ntrain.work(1)", 1, None),
    "the script has a profiler of its own": (
        """
        record(warmup=2, steps=3)
        with torch.profiler.profile() as profile:
            train.work(4)
        assert len(profile.events()) > 0
        """,
        2,
        "torch's profiler does not start: one runs already",
    ),
    "the trace cannot be written": (
        """
        def full(*_):
            raise OSError("no space left")

        torch.profiler.profile.export_chrome_trace = full
        record(warmup=2, steps=3)
        train.work(8)
        """,
        5,
        "the trace was not written: no space left",
    ),
    "a worker of a DataLoader, which is spawned and imports torch": (
        """
        import torch.utils.data
        record(warmup=0, steps=3)
        torch.utils.data._utils.worker._worker_info = object()
        """,
        0,
        None,
    ),
}


@pytest.mark.parametrize(("code", "steps", "error"), NOTHING.values(), ids=NOTHING)
def test_what_is_not_recorded_is_no_error_in_the_script(
    code: str, steps: int, error: str | None, forked: Forked
) -> None:
    process = forked(code)
    assert process is not None
    assert (process.trace, process.steps, bool(process.error)) == (None, steps, bool(error))
    assert (process.error or "").startswith(error or "")


def test_what_is_put_into_a_script_needs_nothing_but_torch() -> None:
    """Its environment may lack all that hostbench itself uses."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('msgspec', 'numpy.typing', 'click')));"
        "import hostbench.idle.recording, hostbench.idle.lines;"
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'numpy', 'pandas')"
        " and sys.modules[m]])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def idle(*words: str | Path) -> int:
    return main(["idle", "--warmup", "2", "--steps", "3", *map(str, words)])


def test_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script keeps its `__main__`, its arguments and its exit code. What it prints is no part of
    the JSON; of its files only the trace stays. torch's own switch for what it loads is set against
    us."""
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    script, kept = tmp_path / "train.py", tmp_path / "kept"
    script.write_text(TRAIN)
    assert idle("--format", "json", "--keep", kept, "--", sys.executable, script, "8", "7") == 7
    output = capfd.readouterr()
    report = json.loads(output.out)
    assert report["devices"] == []
    assert [wait["per_step"] for wait in report["likely_waits"]] == [1.0, 1.0]
    (took,) = report["recorded_steps"]
    assert set(took) == {"free_s", "recorded_s"}
    assert "__main__ ['8', '7'] True" in output.err
    assert "ended with exit code 7" in output.err
    (path,) = kept.iterdir()
    assert len(read_trace(path).steps.starts) == 3
