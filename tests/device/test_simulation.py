"""HOSTBENCH_SIMULATION: the file, its device, and stories told through the real program."""

import re
from pathlib import Path
from typing import Any

import pytest

from hostbench import facts
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE
from hostbench.core.records import Run
from hostbench.device import simulated_file
from hostbench.device.simulated_file import Link
from hostbench.facts.software import TorchState
from hostbench.store.points import case_rows
from tests.commands import Done, hostbench, python
from tests.stored import runs_of

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "commands.md"
CASES = "transfer[nbytes=64KiB,memory=pinned,blocking=True]"
FASTEST = ("--launches", "7", "--case", CASES)


@pytest.fixture
def declare(stage: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a file and let HOSTBENCH_SIMULATION name it."""

    def write(text: str) -> Path:
        path = stage / "simulation.toml"
        path.write_text(text)
        monkeypatch.setenv(simulated_file.VARIABLE, str(path))
        return path

    return write


def simulate(*more: str, code: int = EXIT_OK) -> Done:
    return hostbench("run", "--device", "simulated", *FASTEST, *more, code=code)


def stored() -> list[Run]:
    return runs_of(Path("results"))


# The file


def test_the_example_of_the_page_can_be_read(declare: Any) -> None:
    (example,) = re.findall(r"```toml\n(# night.toml.*?)```", PAGE.read_text(), re.DOTALL)
    declare(example)
    simulation = simulated_file.declared()
    assert simulation and simulation.slowdown and simulation.noise
    assert {*Link.__struct_fields__} <= set(re.findall(r"`(\w+)`", PAGE.read_text()))


# Stories through the program


def test_it_is_ignored_by_other_devices(declare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = TorchState(installed=True, importable=True)
    monkeypatch.setattr(facts, "probe_torch", lambda _: there)
    declare("nonsense = 1")
    case = "transfer.host_to_device[nbytes=1KiB,memory=pinned]"
    args = ("run", "--device", "cpu", "--launches", "1", "--case", case)
    hostbench(*args, code=EXIT_NOTHING_MEASURED)  # the cpu device has no pinned memory
    said = hostbench(*args, "--machine", "simulated-x", code=EXIT_USAGE).err
    assert "'simulated-x' is named simulated" in said


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("linkk = 1", "unknown field `linkk`"),
        ("x = y", "Invalid value (at line 1"),
        ("[slowdown]\n'transfer[' = 2", "cannot read 'transfer['"),
        ('[slowdown]\n"transfer.h2d" = 2', "'transfer.h2d' selects no case"),
        ("noise = 2.0", "`$.noise`"),
    ],
)
def test_a_bad_file_stops_the_run(text: str, part: str, declare: Any) -> None:
    path = declare(text)
    err = simulate(code=EXIT_USAGE).err
    assert err.startswith(f"hostbench: {path}") and part in err and err.count("\n") == 1
    assert not Path("results").exists()


def test_measured_results_are_no_place_for_it(declare: Any, stage: Path) -> None:
    (stage / "asv.conf.json").write_text('{"results_dir": "results"}')
    declare("link.host_to_device_bytes_per_s = 14e9")
    assert "the folder of measured results" in simulate(code=EXIT_USAGE).err
    case = "transfer.host_to_device[memory=pinned,nbytes=4KiB,blocking=True]"
    hostbench("trace", case, "--device", "simulated", "-o", "a.json")
    simulate("--results", "elsewhere")
    (one,) = runs_of(stage / "elsewhere")
    assert one.header.scratch == "no git repository"


def test_workers_have_the_noise_of_their_launch(declare: Any, stage: Path) -> None:
    """The real program with worker processes gives what this process gives, and names no path."""
    declare("noise = 0.02\nseed = 5")
    one = "transfer.host_to_device[nbytes=64KiB,memory=pinned,blocking=True]"
    args = ["run", "--device", "simulated", "--launches", "3", "--case", one]
    hostbench(*args)
    done = python("-m", "hostbench", *args, "--results", "real")
    assert done.code == EXIT_OK, done.err
    here, there = stored(), runs_of(Path("real"))
    mine, theirs = ([*case_rows(run[0])[0]["launches"].values()] for run in (here, there))
    assert len(set(theirs)) == 3 and str(stage) not in str(there)
    assert theirs == pytest.approx(mine[:3], rel=1e-6)  # then it observes
