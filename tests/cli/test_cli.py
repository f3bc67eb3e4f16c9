"""The command line: words in, exit codes out. Most of it in this process, on the simulated device,
with the launcher replaced; one run is the real program with real worker processes."""

import csv
import errno
import io
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from hostbench import facts
from hostbench.core import journal
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
from hostbench.core.records import CaseRecord, Launch, Measurement
from hostbench.facts.software import TorchState
from hostbench.families import load
from hostbench.store import archive
from hostbench.store.points import case_rows
from hostbench.vcs import measure
from tests.commands import hostbench, python
from tests.fakes.builders import InProcess, copy_case, record, run
from tests.stored import only_run, read_tree, runs_of

ROOT = Path(__file__).parent.parent.parent
ONE = "transfer.host_to_device[nbytes=64KiB,memory=pinned,blocking=True]"
COPY = "transfer.host_to_device[device=cpu,nbytes=1KiB,memory=pageable,blocking=True]"
SIMULATED = ("run", "--device", "simulated", "--launches", "1")
QUICK = ("run", "transfer", "allocation", "--device", "simulated", "--quick")
pytestmark = pytest.mark.usefixtures("stage")


@pytest.fixture
def results(stage: Path) -> Path:
    return stage / "results"


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
    assert (done.code, done.err) == (0, "click hostbench\n")
    assert done.out.startswith("hostbench 0." if "--version" in args else "Usage: hostbench ")


# Bad input: one line, the value, the remedy, exit code 2


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (("run", "transfers"), ("'transfers'", "transfer, ")),
        ((*SIMULATED, "--case", "transfr.x"), ("'transfr.x'", "'transfer'", "hostbench list")),
        ((*SIMULATED, "--case", "transfer[nbytes=infKiB]"), ("'infKiB'", "it is 1KiB, 4KiB")),
        ((*SIMULATED, "--case", "transfer[size=9]"), ("has no axis 'size'", "device, nbytes,")),
        ((*SIMULATED, "--case", "transfer[device=gpu]"), ("'gpu'; it is cuda, cpu",)),
        ((*SIMULATED, "--case", "transfer[x"), ("'transfer[x'", "axis=value")),
        (
            (*SIMULATED, "--case", "transfer[device=cpu]"),
            ("no case is left for device 'cuda'", "--device names another"),
        ),
        (("run", "--device", "cuda"), ("--device cuda", "CUDA_VISIBLE_DEVICES")),
        ((*SIMULATED, "--machine", "a/b"), ("'a/b'", "letters, digits")),
        (("run", "--device", "simulated", "--launches", "0"), ("'--launches': 0 is not", "x>=1")),
        ((*SIMULATED, "--deadline", "nan"), ("'--deadline': 'nan' is not a time above zero:",)),
        (("ab", "HEAD", "--launches", "6"), ("'--launches': 6 is not", "x>=7")),
        (("comparr", "A", "B"), ("'compare'", "--help`")),
        (("triage", "series"), ("name all of SERIES SINCE STATE",)),
        (("run", "--quic"), ("'--quick'", "--help`")),
        (("compare",), ("'A'", "--help`")),
    ],
)
def test_bad_input(args: tuple[str, ...], parts: tuple[str, ...], results: Path) -> None:
    said = hostbench(*args, code=EXIT_USAGE)
    assert said.err.count("\n") == 1 and said.err.startswith("hostbench: ")
    assert all(part in said.err for part in parts), said.err
    assert said.out == ""
    assert not list(results.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("run", "--case", "transfer[memory=pined]"), "'pined'"),
        (
            ("run", "--device", "cpu", "--case", "transfer[device=cuda]"),
            "no case is left for device",
        ),
        (("ab", "nosuch"), "there is no commit 'nosuch'"),
        (("ab", "HEAD", "nosuch"), "'nosuch' is neither a commit that git knows nor a family"),
        (("ab", "HEAD", "transferr"), "nor a family (did you mean 'transfer'?)"),
        (("ab", "HEAD", "HEAD", "nosuch"), "unknown family 'nosuch'"),
        (("ab", "HEAD", "--case", "nosuch"), "'nosuch'"),
        (("bisect", "transfer.nosuch", "--good", "HEAD", "--bad", "HEAD"), "'transfer.nosuch'"),
        (("bisect", COPY, "--good", "nosuch", "--bad", "HEAD"), "no commit 'nosuch'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_torch_is_asked(
    args: tuple[str, ...], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = AssertionError("torch takes seconds to import")
    monkeypatch.setattr(facts, "probe_torch", Mock(side_effect=asked))
    monkeypatch.chdir(ROOT)
    assert part in hostbench(*args, code=EXIT_USAGE).err


def test_without_torch_the_remedy_is_said_before_anything_is_written(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = TorchState(installed=False, importable=False)
    monkeypatch.setattr(facts, "probe_torch", lambda _: torch)
    err = hostbench("run", "--device", "cpu", "--case", COPY, code=EXIT_FAILED).err
    assert "torch is not installed" in err and "make bench" in err and err.count("\n") == 1
    assert not results.exists()
    hostbench(*SIMULATED, "--case", ONE)  # needs none
    monkeypatch.setattr(measure, "Launcher", launcher(lambda _, one: one))
    for version, which in (("1.13.1", "older than"), ("3.0.0", "of a later major version than")):
        torch = TorchState(installed=True, importable=True, version=version)
        err = hostbench("run", "--device", "cpu", "--case", ONE, "--launches", "1").err
        assert f"torch {version} is {which} 2.6" in err and "make bench" in err


# Exit codes


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (HostbenchError("fix it"), EXIT_USAGE, "hostbench: fix it\n"),
        (BrokenError("fix it"), EXIT_FAILED, "hostbench: fix it\n"),
        (KeyboardInterrupt(), EXIT_FAILED, "hostbench: interrupted\n"),
        (ZeroDivisionError("a bug"), EXIT_FAILED, "Traceback"),
    ],
)
def test_what_ends_a_command_has_its_exit_code(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug is not mistaken for a regression: Python's own exit code is 1."""
    monkeypatch.setattr("hostbench.cli.list.execute", Mock(side_effect=error))
    err = hostbench("list", code=code).err
    assert err.startswith(message) and (err == message or message == "Traceback")


def test_a_signal_in_code_that_is_made_from_text_leaves_the_exit_code(stage: Path) -> None:
    """As dataclasses does while a module is imported: then `python -m` would end by SIGINT."""
    (stage / "ended.py").write_text(
        "import contextlib, os, sys; from hostbench.core.processes import terminate_as_interrupt\n"
        "with contextlib.suppress(KeyboardInterrupt), terminate_as_interrupt():\n"
        "    exec('os.kill(os.getpid(), 15)')\n"
        "sys.exit(4)"
    )
    assert python("-m", "ended").code == EXIT_FAILED


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


def once(measured: int, act: Callable[[], object]) -> Change:
    """It happens when so many cases are measured."""

    def change(position: int, one: CaseRecord) -> CaseRecord:
        if position == measured:
            act()
        return one

    return change


LOST = DeviceLost("device cuda: No CUDA GPUs are available; check nvidia-smi")
LOSING, INTERRUPTED = (once(2, Mock(side_effect=e)) for e in (LOST, KeyboardInterrupt))


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
    change: Change, code: int, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happened, what was measured is archived and answered."""
    monkeypatch.setattr(measure, "Launcher", launcher(change))
    said = hostbench(*QUICK, code=code)
    one = only_run(results)
    assert one.header.scratch == "simulated device"
    assert one.header.machine == "simulated-shelf"  # never under a real machine's name
    assert set(read_tree(results).frame["hardware"].str.startswith("Simulated")) == {True}
    assert case_rows(one)
    assert one.run_id in said.out and "stored  " in said.out
    assert not list(results.rglob("*.jsonl"))
    is_cut_off = change in (INTERRUPTED, LOSING)
    assert ("what was measured is stored" in said.err) is is_cut_off
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
    error: BaseException, code: int, said: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "Launcher", launcher(once(0, Mock(side_effect=error))))
    assert said in hostbench(*QUICK, code=code).err
    assert [path for path in results.rglob("*") if path.is_file()] == []


# A run in parts, and what it leaves


def test_a_budget_ends_a_run_and_its_remedies_name_the_folder(stage: Path) -> None:
    where = ("--results", "my results", "--machine", "table")
    said = hostbench(*QUICK, *where, "--budget", "0.000001")
    first = only_run(stage / "my results")
    assert len(first.winners()) == 1 and not first.is_whole
    assert "out of time; what was measured is stored\n" in said.err
    assert " dashboard --results 'my results' (pictures)\n" in said.out


def test_a_clock_that_was_set_back_is_named(results: Path) -> None:
    later = {"run_id": "29991121T120000Z-1a2b3c4d-0001", "machine": "simulated-shelf"}
    archive.write(results, run([record(copy_case())], **later))
    err = hostbench(*SIMULATED, "--case", ONE).err
    assert f"run {later['run_id']} of this machine began later than now" in err
    assert "timedatectl" in err and len(runs_of(results)) == 2


def test_a_clock_that_is_set_while_it_measures(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, steps_s = time.time, list[int]()
    monkeypatch.setattr(time, "time", lambda: clock() + sum(steps_s))
    monkeypatch.setattr(measure, "Launcher", launcher(once(2, lambda: steps_s.append(86_400))))
    out = hostbench(*QUICK).out
    assert steps_s and only_run(results).is_whole
    assert int(re.findall(r" 8 launches, (\d+) s · ", out)[0]) < 3600


# list and the rest


def test_list() -> None:
    """Cases as `--case` takes them: sizes with their unit for people, bytes in CSV."""
    text = hostbench("list").out
    for work in load().values():
        counted = rf"^{work.name} +{work.version} +{len(list(work.cases()))} .*"
        assert re.search(counted + re.escape(work.question), text, re.M)
    assert "nbytes: 4KiB, 64KiB, 1MiB, 16MiB, 64MiB, 256MiB, 512MiB" in text
    every = [str(case) for work in load().values() for case in work.cases()]
    assert hostbench("list", "--cases").out.splitlines() == [as_typed(case) for case in every]
    table = hostbench("list", "allocation", "--cases", "--format", "csv").out
    rows = csv.DictReader(io.StringIO(table))
    assert [row["case"] for row in rows] == [c for c in every if c.startswith("allocation.")]


def test_dashboard_without_streamlit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    err = hostbench("dashboard", code=EXIT_USAGE).err
    assert "make bench" in err and "'hostbench[dashboard]'" in err


def test_facts_are_kept_before_during_and_after(results: Path) -> None:
    long = ("--case", "transfer.device_to_host")  # longer than the kernel's clock ticks
    hostbench(*SIMULATED, *long)
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


def test_results_deleted_while_measuring_are_a_failure_of_one_line(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleting = once(2, lambda: shutil.rmtree(results, ignore_errors=True))
    monkeypatch.setattr(measure, "Launcher", launcher(deleting))
    err = hostbench(*QUICK, code=EXIT_FAILED).err
    assert "was deleted while the run went on" in err.splitlines()[-1], err


def test_a_full_disk_is_one_line_and_keeps_what_was_measured(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    filling = once(2, lambda: monkeypatch.setattr(os, "write", full))
    monkeypatch.setattr(measure, "Launcher", launcher(filling))
    said = hostbench(*QUICK, code=EXIT_FAILED).err.splitlines()[-1]
    (path,) = results.rglob("*.jsonl")
    assert "No space left" in said and "make room" in said and str(path) in said
    assert len(journal.read(path).records) == 2
