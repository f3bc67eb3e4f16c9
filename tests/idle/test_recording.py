"""A script under `hostbench idle`: it stays what it is, and some of its steps are recorded.

Real processes, and torch's real profiler, on the CPU: what it sees of a GPU is in test_watch.py.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from hostbench.core.errors import UsageError
from hostbench.idle.child import RecordedProcess, RecordedRun, processes_of, recorded
from hostbench.idle.recording import RecordSettings
from hostbench.idle.trace import Trace, read_trace

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
    other = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2, 8)).sum().backward()
        one.step()
        other.step()

if __name__ == "__main__":
    work(int(sys.argv[1]))
    print(__name__, sys.argv[1:], __file__.endswith("train.py"))
    sys.exit(int(sys.argv[2]))
"""


FORKING = f"""
{QUICKLY}
import json, os, pathlib, signal, sys
import torch
import hostbench
from hostbench.idle.recording import Recorder, RecordSettings

def record(seconds=60.0, after_s=60.0, **settings):
    Recorder(
        RecordSettings("kept", seconds=seconds, after_s=after_s, **settings)
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
Forked = Callable[[str], list[RecordedProcess]]


@pytest.fixture(scope="module")
def forking() -> Iterator[subprocess.Popen[str]]:
    """A process that has imported torch: it takes seconds."""
    pipe = subprocess.PIPE
    argv = [sys.executable, "-c", FORKING]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        yield process


@pytest.fixture
def forked(forking: subprocess.Popen[str], tmp_path: Path, script: str) -> Forked:
    """Runs code in a fork of that process, beside `train`, and tells what its recorder wrote."""
    (tmp_path / "kept").mkdir()

    def run(code: str) -> list[RecordedProcess]:
        assert forking.stdin is not None and forking.stdout is not None
        forking.stdin.write(json.dumps([str(tmp_path), dedent(code)]) + "\n")
        forking.stdin.flush()
        assert forking.stdout.readline() == "0\n"
        return list(processes_of(tmp_path / "kept"))

    return run


def run(
    tmp_path: Path, *command: str, warmup: int = 2, steps: int = 3, stop: bool = False
) -> tuple[RecordedRun, list[Trace]]:
    def settings(folder: str) -> RecordSettings:
        return RecordSettings(folder, warmup, steps, seconds=60.0, after_s=60.0)

    with recorded(command, settings, keep=tmp_path / "kept", stop=stop) as done:
        return done, [read_trace(path) for path in done.traces]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return str(path)


def test_a_module_and_a_script_that_fails_while_it_is_recorded(
    tmp_path: Path, script: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made three steps, of which one was recorded; its traceback is its own alone."""
    monkeypatch.chdir(tmp_path)
    Path(script).with_name("mine.py").write_text(
        "import train, sys\nprint(sys.argv[1:])\ntrain.work(3)\nraise ValueError('broken')\n"
    )
    done, (trace,) = run(tmp_path, sys.executable, "-m", "mine", "--lr", "3")
    said = capfd.readouterr()
    assert (done.exit_code, len(trace.steps)) == (1, 1)
    assert "['--lr', '3']" in said.out
    assert "ValueError: broken" in said.err
    assert "hostbench" not in said.err


def test_watch_counts_the_steps_of_the_first_optimizer(tmp_path: Path, forked: Forked) -> None:
    forked(
        """
        with hostbench.watch(trace="kept.json") as watch:
            train.work(4)
        train.work(1)  # nobody listens any more
        assert watch.report.devices == ()
        """
    )
    assert (tmp_path / "said").read_text().startswith("No work of a GPU is in the trace")
    assert len(read_trace(tmp_path / "kept.json").steps) == 4


def test_a_process_counts_its_steps_until_it_ends(forked: Forked) -> None:
    """Too few of them here, to record any."""
    (process,) = forked("record(warmup=2, steps=3)\ntrain.work(1)")
    assert (process.trace, process.steps, process.error) == (None, 1, None)


def test_a_profiler_of_the_scripts_own_stays_alone(forked: Forked) -> None:
    (process,) = forked(
        """
        record(warmup=2, steps=3)
        with torch.profiler.profile() as profile:
            train.work(4)
        assert len(profile.events()) > 0
        """
    )
    assert process.trace is None
    assert process.error is not None
    assert "profiler does not start" in process.error


def test_a_trace_that_cannot_be_written_is_no_error_in_the_script(forked: Forked) -> None:
    (process,) = forked(
        """
        def full(*_):
            raise OSError("no space left")

        torch.profiler.profile.export_chrome_trace = full
        record(warmup=2, steps=3)
        train.work(8)
        """
    )
    assert process.trace is None
    assert process.error == "the trace was not written: no space left"


def test_a_worker_of_a_data_loader_is_not_recorded(forked: Forked) -> None:
    """One that is spawned imports torch, as the script does."""
    (process,) = forked(
        """
        import torch.utils.data
        record(warmup=0, steps=3)
        torch.ones(3).add(1)
        torch.utils.data._utils.worker._worker_info = object()
        """
    )
    assert (process.trace, process.error) == (None, None)


def test_without_an_optimizer_it_goes_by_the_clock(forked: Forked) -> None:
    """CUDA is said to have started; the main thread is busy in Python all the while."""
    (process,) = forked(
        """
        torch.cuda.is_initialized = lambda: True
        record(warmup=2, steps=3, seconds=0.3, after_s=0.2)
        while not list(pathlib.Path("kept").glob("*.done")):
            torch.ones(3).add(1)
        """
    )
    assert process.trace is not None
    trace = read_trace(process.trace)
    assert len(trace.ops) > 0
    assert len(trace.steps) == 0


def test_a_sitecustomize_that_was_there_runs_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('theirs')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done, _ = run(tmp_path, sys.executable, "-c", "import sys; print('torch' in sys.modules)")
    assert capfd.readouterr().out.split() == ["theirs", "False"]
    assert (done.exit_code, done.processes) == (0, ())


def test_it_ends_what_does_not_end_by_itself(tmp_path: Path) -> None:
    """Here the shell that was started, and the training that it started."""
    path, pid = tmp_path / "endless.py", tmp_path / "pid"
    path.write_text(TRAIN.split("if __name__")[0] + "work(10**9)\n")
    shell = f"{sys.executable} {path} & echo $! > {pid}; wait; echo over"
    done, (trace,) = run(tmp_path, "bash", "-c", shell, stop=True)
    assert done.was_stopped
    assert done.exit_code == 128 + signal.SIGTERM
    assert len(trace.steps) == 3
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot run nosuch"):
        run(tmp_path, "nosuch")


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


def command(*words: str) -> Sequence[str]:
    return [sys.executable, "-m", "hostbench", "idle", *words]


def test_the_program(tmp_path: Path, script: str) -> None:
    """A script keeps its `__main__`, its arguments and its exit code. What it prints is no part of
    the JSON; of its files only the trace stays. torch's compiler is there."""
    Path(script).write_text(TRAIN)
    kept = tmp_path / "kept"
    how = ["--warmup", "2", "--steps", "3", "--format", "json", "--keep", str(kept)]
    words = [*how, "--", sys.executable, script, "8", "7"]
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=120)
    assert done.returncode == 7
    report = json.loads(done.stdout)
    assert report["devices"] == []
    (took,) = report["recorded_steps"]
    assert set(took) == {"free_s", "recorded_s"}
    assert "__main__ ['8', '7'] True" in done.stderr
    assert "ended with exit code 7" in done.stderr
    (path,) = kept.iterdir()
    trace = read_trace(path)
    assert len(trace.steps) == 3
    assert len(trace.ops) > 0
