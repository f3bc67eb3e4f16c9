"""The command line: words in, exit codes out. Most of it in this process, on the simulated device,
with the launcher replaced; one run is the real program with real worker processes."""

import csv
import errno
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from msgspec.structs import replace

from hostbench import facts
from hostbench.cli import main, measuring
from hostbench.cli import run as run_command
from hostbench.core.case import as_typed
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_USAGE,
    BrokenError,
    DeviceLost,
    HostbenchError,
)
from hostbench.core.records import CaseRecord, Launch, Measurement, Run
from hostbench.facts.torch_probe import TorchState
from hostbench.families import load
from hostbench.runner import journal
from hostbench.store.runs import case_results
from tests.fakes.builders import InProcess, copy_case, record, run, write_journal
from tests.stored import read_tree, runs_of

ROOT = Path(__file__).parent.parent.parent
ONE = "transfer.host_to_device[nbytes=64KiB,memory=pinned,blocking=True]"
COPY = "transfer.host_to_device[device=cpu,nbytes=1KiB,memory=pageable,blocking=True]"
SIMULATED = ("run", "--device", "simulated", "--launches", "1")


@pytest.fixture(autouse=True)
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is no checkout, a home of its own, no GPU, no worker processes."""
    for name in ("HOSTBENCH_MACHINE", "HOSTBENCH_LAUNCHES"):
        monkeypatch.delenv(name, raising=False)
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HOSTBENCH_MACHINE", "shelf")
    monkeypatch.chdir(here)
    torch = TorchState(installed=True, importable=True, version="2.13.0", cuda_runtime="13.0")
    monkeypatch.setattr(facts, "probe_torch", lambda _: torch)
    monkeypatch.setattr(run_command, "become_subreaper", lambda: None)
    monkeypatch.setattr(measuring, "Launcher", InProcess)
    return here


@pytest.fixture
def results(stage: Path) -> Path:
    return stage / "results"


def only(results: Path) -> Run:
    (one,) = runs_of(results)
    return one


def python(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The real program, from the folder where the test is."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *args], env=env, text=True, capture_output=True, timeout=120, **options
    )


# Help, and what it costs


@pytest.mark.parametrize("args", [("--help",), (), ("run", "--help"), ("--version",)])
def test_help_imports_click_alone(args: tuple[str, ...]) -> None:
    code = f"""
import sys
before = set(sys.modules)  # of the interpreter's own start, which may have hooks
from hostbench.cli import main
code = main({list(args)!r})
tops = {{name.partition(".")[0] for name in {{*sys.modules}} - before}} - sys.stdlib_module_names
assert "statistics" not in sys.modules
print(*sorted(name for name in tops if name[0] != "_"), file=sys.stderr)
sys.exit(code)
"""
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (0, "click hostbench\n")
    assert done.stdout.startswith("hostbench 0." if "--version" in args else "Usage: hostbench ")


# Bad input: one line, the value, the remedy, exit code 2


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("run", "transfers"), ("'transfers'", "transfer, ")),
        ((*SIMULATED, "--case", "transfr.x"), ("'transfr.x'", "'transfer'", "hostbench list")),
        ((*SIMULATED, "--case", "transfer[nbytes=infKiB]"), ("'infKiB'", "list")),
        ((*SIMULATED, "--case", "transfer[x"), ("'transfer[x'", "axis=value")),
        (
            (*SIMULATED, "--case", "transfer[device=cpu]"),
            (
                "'transfer[device=cpu]': cases of device cpu alone",
                "those of cuda; leave device= out",
            ),
        ),
        (("run", "--device", "cuda"), ("--device cuda", "CUDA_VISIBLE_DEVICES")),
        ((*SIMULATED, "--machine", "a/b"), ("'a/b'", "letters, digits")),
        (("run", "--device", "simulated", "--launches", "0"), ("'--launches': 0 is not", "x>=1")),
        ((*SIMULATED, "--deadline", "nan"), ("'--deadline': 'nan' is no time above zero: write",)),
        (("ab", "HEAD", "--launches", "6"), ("'--launches': 6 is not", "x>=7")),
        (("comparr", "A", "B"), ("'compare'", "--help`")),
        (("triage", "series"), ("name all of SERIES SINCE STATE",)),
        (("run", "--quic"), ("'--quick'", "--help`")),
        (("compare",), ("'A'", "--help`")),
    ],
)
def test_bad_input(
    args: tuple[str, ...], parts: tuple[str, ...], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == EXIT_USAGE
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and said.err.startswith("hostbench: ")
    assert all(part in said.err for part in parts), said.err
    assert said.out == ""
    assert not list(results.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "args",
    [
        ("run", "--case", "transfer[memory=pined]"),
        ("run", "--device", "cpu", "--case", "transfer[device=cuda]"),
        ("ab", "nosuch"),
        ("ab", "HEAD", "--case", "nosuch"),
        ("bisect", "transfer.nosuch"),
        ("bisect", COPY, "--good", "nosuch", "--bad", "HEAD"),
    ],
)
def test_what_cannot_be_run_is_refused_before_torch_is_asked(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(device: str) -> TorchState:
        raise AssertionError("torch takes seconds to import")

    monkeypatch.setattr(facts, "probe_torch", ask)
    monkeypatch.chdir(ROOT)
    assert main(args) == EXIT_USAGE


def test_without_torch_the_remedy_is_said_before_anything_is_written(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch = TorchState(installed=False, importable=False)
    monkeypatch.setattr(facts, "probe_torch", lambda _: torch)
    assert main(["run", "--device", "cpu", "--case", COPY]) == EXIT_FAILED
    err = capsys.readouterr().err
    assert "torch is not installed" in err and "make bench" in err and err.count("\n") == 1
    assert not results.exists()
    assert main([*SIMULATED, "--case", ONE]) == EXIT_OK  # needs none


# Exit codes


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (HostbenchError("mend it"), EXIT_USAGE, "hostbench: mend it\n"),
        (BrokenError("mend it"), EXIT_FAILED, "hostbench: mend it\n"),
        (KeyboardInterrupt(), EXIT_FAILED, "hostbench: interrupted\n"),
        (ZeroDivisionError("a bug"), EXIT_FAILED, "Traceback"),
    ],
)
def test_what_ends_a_command_has_its_exit_code(
    error: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A bug is not mistaken for a regression: Python's own exit code is 1."""

    def fail(**_: object) -> int:
        raise error

    monkeypatch.setattr("hostbench.cli.list.execute", fail)
    assert main(["list"]) == code
    err = capsys.readouterr().err
    assert err.startswith(message) and (err == message or message == "Traceback")


def test_sigterm_while_the_answer_is_given(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run is archived by then."""
    before = signal.getsignal(signal.SIGTERM)

    def terminated(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("hostbench.cli.run.screen", terminated)
    assert main(QUICK) == EXIT_FAILED
    assert case_results(only(results))
    assert capsys.readouterr().err.endswith("hostbench: interrupted\n")
    assert signal.getsignal(signal.SIGTERM) is before


Change = Callable[[int, CaseRecord], CaseRecord]


def launcher(change: Change) -> type[InProcess]:
    """Its records go through `change`, with their position."""

    class Changed(InProcess):
        def run(self, launch: Launch) -> Iterator[CaseRecord]:
            # on the simulated device, whatever the run thinks that it measures
            for position, one in enumerate(super().run(replace(launch, device="simulated"))):
                yield change(position, one)

    return Changed


def refuse(_: int, one: CaseRecord) -> CaseRecord:
    none = Measurement()
    return replace(one, status="skipped", reason="not here", seconds=None, measurement=none)


def fail_first(position: int, one: CaseRecord) -> CaseRecord:
    return one if position else replace(one, status="failed", reason="it broke")


def end(after: int, error: BaseException) -> Change:
    def change(position: int, one: CaseRecord) -> CaseRecord:
        if position == after:
            raise error
        return one

    return change


LOST = DeviceLost("device cuda: No CUDA GPUs are available; check nvidia-smi")
LOSING, INTERRUPTED = end(2, LOST), end(2, KeyboardInterrupt())


QUICK = ("run", "transfer", "allocation", "--device", "simulated", "--quick")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda _, one: one, EXIT_OK),
        (refuse, EXIT_NOTHING_MEASURED),
        (fail_first, EXIT_FAILED),
        (INTERRUPTED, EXIT_FAILED),
        (LOSING, EXIT_FAILED),
    ],
)
def test_exit_codes_of_a_run(
    change: Change,
    code: int,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever happened, what was measured is archived and answered."""
    monkeypatch.setattr(measuring, "Launcher", launcher(change))
    assert main(QUICK) == code
    one = only(results)
    assert one.header.scratch == "simulated device"
    assert one.header.machine == "simulated-shelf"  # never under a real machine's name
    assert set(read_tree(results).frame["hardware"].str.startswith("Simulated")) == {True}
    assert case_results(one)
    said = capsys.readouterr()
    assert one.run_id in said.out
    assert "kept  " in said.out
    assert not list(results.rglob("*.jsonl"))
    is_cut_off = change in (INTERRUPTED, LOSING)
    assert ("what was measured is kept" in said.err) is is_cut_off
    assert (len(one.winners()) == 2 and not one.is_whole) is is_cut_off
    assert ("device cuda: No CUDA GPUs are available" in said.err) is (change is LOSING)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (LOST, EXIT_FAILED, "No CUDA GPUs are available; check nvidia-smi"),
        (KeyboardInterrupt(), EXIT_NOTHING_MEASURED, "interrupted before anything was"),
    ],
)
def test_before_the_first_case_nothing_is_kept(
    error: BaseException,
    code: int,
    said: str,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(measuring, "Launcher", launcher(end(0, error)))
    assert main(QUICK) == code
    assert said in capsys.readouterr().err
    assert [path for path in results.rglob("*") if path.is_file()] == []


# A run in parts, and what it leaves


def test_a_budget_ends_a_run_and_its_remedies_name_the_folder(
    stage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--results", "my results", "--machine", "table")
    assert main([*QUICK, *where, "--budget", "0.000001"]) == EXIT_OK
    first = only(stage / "my results")
    assert len(first.winners()) == 1 and not first.is_whole
    said = capsys.readouterr()
    assert "stopped; what was measured is kept\n" in said.err
    assert " dashboard --results 'my results' (pictures)\n" in said.out


def test_an_orphan_is_archived_by_the_next_run(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_journal(results, run([record(copy_case())]), finish=False)
    assert main([*SIMULATED, "--case", ONE]) == EXIT_OK
    assert not path.exists()
    assert "archived run 20261121T120000Z-1a2b3c4d-0001" in capsys.readouterr().err
    assert len(runs_of(results)) == 2


@pytest.mark.parametrize(("conf", "scratch"), [(False, "no asv.conf.json"), (True, "no git repo")])
def test_without_git_a_run_is_scratch(
    conf: bool, scratch: str, stage: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if conf:
        (stage / "asv.conf.json").write_text('// a comment\n{"results_dir": "results"}')
    monkeypatch.setattr(measuring, "MIN_LAUNCHES", 1)
    monkeypatch.setattr(measuring, "Launcher", launcher(lambda _, one: one))
    case = "transfer[nbytes=64KiB,memory=pageable]"
    assert main(["run", "--launches", "1", "--case", case]) == EXIT_OK
    header = only(results).header
    assert header.commit is None
    assert scratch in str(header.scratch)
    assert "nogit" in header.run_id


# The whole program


def test_end_to_end(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOSTBENCH_MACHINE")
    where = ("--machine", "shelf", "--results", "results")
    done = python("-m", "hostbench", *SIMULATED, "transfer", "allocation", *where)
    assert done.returncode == EXIT_OK, done.stderr
    one = only(stage / "results")
    cases = [
        case
        for work in load(("transfer", "allocation")).values()
        for case in work.cases()
        if case.values["device"] == "cuda"
    ]
    assert {result.case for result in case_results(one)} == set(cases)
    others = {(each.status, each.reason) for each in case_results(one) if each.status != "ok"}
    assert {status for status, _ in others} == {"skipped"}
    assert all("the simulated device" in str(reason) for _, reason in others)
    assert one.is_whole and not any(result.unexpected for result in case_results(one))
    # Exact: 5 us + 256MiB at 50 GB/s + 2 us launch + 3 us synchronize.
    pinned = copy_case(device="cuda", nbytes=1 << 28, memory="pinned", blocking=False)
    (seconds,) = next(r.seconds for r in case_results(one) if r.case == pinned)
    assert seconds == pytest.approx(10e-6 + (1 << 28) / 50e9, rel=1e-6)
    assert "pinned 5.38 ms" in done.stdout and "randn 64MiB, moved or direct" in done.stdout
    assert "results/simulated-shelf/runs/" in done.stdout and str(stage) not in str(one)
    assert {path.name for path in stage.iterdir()} == {"results"}


# list and the rest


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    """Cases as `--case` takes them: sizes with their unit for people, bytes in CSV."""
    assert main(["list"]) == EXIT_OK
    text = capsys.readouterr().out
    for work in load().values():
        counted = rf"^{work.name} +{work.version} +{len(list(work.cases()))} .*"
        assert re.search(counted + re.escape(work.question), text, re.M)
    assert "nbytes: 4KiB, 64KiB, 1MiB, 16MiB, 64MiB, 256MiB, 512MiB" in text
    every = [str(case) for work in load().values() for case in work.cases()]
    assert main(["list", "--cases"]) == EXIT_OK
    assert capsys.readouterr().out.splitlines() == [as_typed(case) for case in every]
    assert main(["list", "allocation", "--cases", "--format", "csv"]) == EXIT_OK
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert [row["case"] for row in rows] == [c for c in every if c.startswith("allocation.")]


def test_dashboard_without_streamlit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["dashboard"]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert "make bench" in err and "-e '.[dashboard]'" in err


def test_facts_are_kept_before_during_and_after(results: Path) -> None:
    long = ("--case", "transfer.device_to_host")  # longer than the kernel's clock ticks
    assert main([*SIMULATED, *long]) == EXIT_OK
    (kept,) = runs_of(results)
    sets = kept.facts
    assert list(sets) == ["before", "during", "after"]
    assert list(sets["during"]) == ["host"]  # a simulated run uses no GPU
    assert 0 <= sets["during"]["host"]["foreign_cpu_share"] <= 1


COMMAND = """
import sys, types
from hostbench.cli.entry import main
from hostbench.cli.output import show
def execute(**_):
    show('long ' * 100_000)
    show('more')
    return 1
sys.modules["hostbench.cli.list"] = types.SimpleNamespace(execute=execute)
sys.exit(main(["list"]))
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("-c", COMMAND), 1),
        (("-m", "hostbench", "list", "--cases", "collectives"), EXIT_OK),
        (("-m", "hostbench", "--help"), EXIT_OK),
    ],
)
def test_a_reader_that_goes_away_changes_no_exit_code(
    words: tuple[str, ...], code: int, unread: IO[str]
) -> None:
    """`hostbench list --cases | head -1`: more, and less, than Python buffers."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, *words],
        env={**env, "PYTHONPATH": str(ROOT)},
        stdout=unread,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (code, b"")


def test_a_full_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "hostbench", "list"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == EXIT_FAILED
    assert done.stderr.startswith("hostbench: standard output cannot be written: No space left")


def meanwhile(act: Callable[[], None]) -> type[InProcess]:
    """It happens once two cases are measured."""

    def change(position: int, one: CaseRecord) -> CaseRecord:
        if position == 2:
            act()
        return one

    return launcher(change)


def test_results_deleted_while_measuring_are_a_failure_of_one_line(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deleting = meanwhile(lambda: shutil.rmtree(results, ignore_errors=True))
    monkeypatch.setattr(measuring, "Launcher", deleting)
    assert main(QUICK) == EXIT_FAILED
    err = capsys.readouterr().err
    assert "was deleted while the run went on" in err.splitlines()[-1], err


def test_a_full_disk_is_one_line_and_keeps_what_was_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, full = os.write, list[bool]()

    def write(number: int, data: bytes) -> int:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(number, data)

    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(measuring, "Launcher", meanwhile(lambda: full.append(True)))
    assert main(QUICK) == EXIT_FAILED
    full.clear()
    said = capsys.readouterr().err.splitlines()[-1]
    (path,) = results.rglob("*.jsonl")
    assert "No space left" in said and "make room" in said and str(path) in said
    assert len(journal.read(path).records) == 2
