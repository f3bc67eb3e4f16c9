"""HOSTBENCH_SIMULATION: the file, its device, and stories told through the real program."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostbench import facts
from hostbench.cli import main, measuring
from hostbench.cli import run as run_command
from hostbench.core.case import Case
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE, UsageError
from hostbench.device import open_device, simulated_file
from hostbench.device.simulated_file import Link, Noise, Pace, Simulation
from hostbench.facts.torch_probe import TorchState
from hostbench.families import load
from hostbench.measure.measure import Settings, measure
from hostbench.measure.workload import prepare
from hostbench.store import archive
from hostbench.store.runs import WholeRun
from tests.fakes.builders import InProcess, copy_case, record, run
from tests.stored import read_tree, runs_of

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "simulation.md"
OLD, NEW = "a" * 40, "b" * 40
CASES = "transfer[nbytes=64KiB,memory=pinned,blocking=True]"
FASTEST = ("--launches", "7", "--case", CASES)
STORY = """
date = {date}
commit = "{commit}"
facts.nvml.driver = "{driver}"
facts.software.torch = "2.12"
facts.gpu0.name = "Toy"
link.generation = 4
link.width = 8
[slowdown]
{slowdown}
"""


@pytest.fixture(autouse=True)
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No checkout, no home, no worker processes, no GPU."""
    for name in ("HOSTBENCH_MACHINE", "HOSTBENCH_SIMULATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        facts, "probe_torch", lambda _: TorchState(installed=False, importable=False)
    )
    monkeypatch.setattr(run_command, "become_subreaper", lambda: None)
    monkeypatch.setattr(measuring, "Launcher", InProcess)
    return tmp_path


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a file and let HOSTBENCH_SIMULATION name it."""

    def write(text: str) -> Path:
        path = tmp_path / "simulation.toml"
        path.write_text(text)
        monkeypatch.setenv(simulated_file.VARIABLE, str(path))
        return path

    return write


def story(day: int, *, commit: str = OLD, driver: str = "580.1", slowdown: str = "") -> str:
    date = f"2026-03-{day:02d}T02:00:00Z"
    return STORY.format(date=date, commit=commit, driver=driver, slowdown=slowdown)


def simulate(*more: str) -> int:
    return main(["run", "--device", "simulated", *FASTEST, *more])


def stored() -> list[WholeRun]:
    return runs_of(Path("results"))


# The file


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("linkk = 1", ("unknown field `linkk`",)),
        ("x = y", ("no TOML", "line 1")),
        ("[slowdown]\n'No case' = 2", ("cannot read case 'No case'", "hostbench list")),
        (r'facts.nvml.driver = "\u001b[2J"', ("`$.facts",)),
    ],
)
def test_a_bad_file_is_one_clear_error(text: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        simulated_file.read(path)
    said = str(caught.value)
    assert said.startswith(str(path)) and said.isprintable()
    assert all(part in said for part in parts), said


def test_the_examples_of_the_page_can_be_read(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(# night.toml.*?)```", PAGE.read_text(), re.DOTALL)
    assert examples
    for text in examples:
        (tmp_path / "example.toml").write_text(text)
        found = simulated_file.read(tmp_path / "example.toml")
        assert found.slowdown and found.noise.launch
        page_names = set(re.findall(r"`(\w+)`", PAGE.read_text()))
        assert {*Link.__struct_fields__} - {"generation", "width"} <= page_names


# The device


def seconds_of(case: Case, launch: int = 0) -> float:
    device = open_device("simulated", launch=launch)
    work = load((case.family,))[case.workload]
    return measure(device, prepare(work, device, case), Settings()).end_to_end_s[0]


def test_a_slowdown_is_exact_and_of_its_cases_only(declare: Any) -> None:
    slow = copy_case(device="cuda", memory="pinned")
    other = copy_case("transfer.device_to_host", device="cuda", memory="pinned")
    before = {case: seconds_of(case) for case in (slow, other)}
    declare('[slowdown]\n"transfer.host_to_device" = 1.2\n"transfer[nbytes=1MiB]" = 2')
    assert seconds_of(slow) == pytest.approx(2.4 * before[slow], rel=1e-12)
    assert seconds_of(other) == pytest.approx(2 * before[other], rel=1e-12)


def test_noise_is_seeded_and_of_its_size() -> None:
    noise = Noise(launch=0.02, sample=0.01, seed=1)
    case, other = copy_case(), copy_case(nbytes=1)

    def factors(noise: Noise, case: Case, launch: int) -> list[float]:
        pace = Pace(Simulation(noise=noise), launch)
        pace.enter(case)
        logs = []
        for _ in range(40):
            logs.append(math.log(pace.factor))
            pace.next_sample()
        return logs

    usual = factors(noise, case, 1)
    assert usual == factors(noise, case, 1)
    assert usual not in (factors(noise, other, 1), factors(noise, case, 2))
    assert usual != factors(replace(noise, seed=2), case, 1)
    within = factors(Noise(sample=0.01), case, 1)
    spread = math.sqrt(sum(x * x for x in within) / len(within))
    assert 0.006 < spread < 0.014
    assert len({factors(Noise(launch=0.02), case, launch)[0] for launch in range(10)}) == 10
    assert len(set(factors(Noise(launch=0.02), case, 3))) == 1


# Stories through the program


def test_exactly_the_slowed_workload_is_slower(declare: Any) -> None:
    """Two nights, a driver apart: facts, dates and commits are the file's, and so is the step."""
    declare(story(1))
    assert simulate() == EXIT_OK
    declare(story(2, commit=NEW, driver="590.7", slowdown='"transfer.host_to_device" = 1.2'))
    assert simulate() == EXIT_OK
    first, second = stored()
    times = [{str(r.case): r.seconds for r in one.results()} for one in (first, second)]
    assert times[0].keys() == times[1].keys() and len(times[0]) > 1
    for case, before in times[0].items():
        factor = 1.2 if case.startswith("transfer.host_to_device") else 1.0
        assert times[1][case] == pytest.approx(tuple(factor * s for s in before), rel=1e-9)
    for one, day, commit, driver in ((first, 1, OLD, "580.1"), (second, 2, NEW, "590.7")):
        header = one.header
        assert header.started_at == f"2026-03-{day:02d}T02:00:00.000Z" == header.committed_at
        assert header.run_id.startswith(f"202603{day:02d}T020000Z-{commit[:8]}-")
        assert (header.commit, header.scratch, header.device) == (commit, None, "simulated")
        assert header.machine == "1x-simulated-toy"
        assert one.facts["nvml"]["driver"] == driver
        assert {r.started_at for r in one.parts[0].records} == {header.started_at}
        assert one.parts[0].facts.keys() == {"before", "after"}
    told = facts.differences(*(facts.from_json(one.facts) for one in (first, second)))
    assert [(d.group, d.name) for d in told] == [("nvml", "driver")]


def test_a_story_is_judged_and_marked(declare: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for day in (1, 2):
        slowdown = '"transfer" = 1.3' if day == 2 else ""
        declare(story(day, commit=(OLD, NEW)[day - 1], slowdown=slowdown))
        assert simulate("--machine", "shelf") == EXIT_OK
    said = capsys.readouterr()
    assert (
        "simulated-shelf · Simulated Toy · torch 2.12 · simulated: nothing here was measured"
        in said.out
    )
    assert "asv" not in said.err
    rows = read_tree(Path("results")).frame
    assert set(rows["device"]) == {"simulated"} and set(rows["hardware"]) == {"Simulated Toy"}
    assert rows["scratch"].isna().all() and rows["published"].isna().all()
    copies = rows[rows["ceiling"] == "the simulated link"]
    assert set(round(copies["ceiling_gb_per_s"], 2)) == {14.40}  # Gen4 x8
    assert main(["compare", OLD, NEW, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {one["verdict"] for one in found["series"]} == {"slower"}
    assert main(["report", "--machine", "simulated-shelf"]) == EXIT_OK


def test_simulated_is_never_held_against_measured(
    declare: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    case = copy_case(device="cuda", nbytes=1 << 16, memory="pinned")
    archive.write(Path("results"), run([record(case, n) for n in range(7)], launches=7))
    declare(story(1))
    assert simulate() == EXIT_OK
    assert main(["compare", "machine:shelf", "machine:1x-simulated-toy"]) == EXIT_USAGE
    assert "one is simulated, the other measured" in capsys.readouterr().err


def test_it_is_ignored_by_other_devices_and_says_so(
    declare: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = TorchState(installed=True, importable=True)
    monkeypatch.setattr(facts, "probe_torch", lambda _: there)
    declare("nonsense = 1")
    case = "transfer.host_to_device[nbytes=1KiB,memory=pinned]"
    args = ("run", "--device", "cpu", "--launches", "1", "--case", case)
    assert main(args) == EXIT_NOTHING_MEASURED  # the cpu device has no pinned memory
    assert "HOSTBENCH_SIMULATION is ignored: this run is on cpu" in capsys.readouterr().err
    assert main([*args, "--machine", "simulated-x"]) == EXIT_USAGE
    assert "'simulated-x' is named simulated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('[slowdown]\n"transfer.h2d" = 2', ("'transfer.h2d' selects no case", "hostbench list")),
    ],
)
def test_a_bad_file_stops_the_run(
    text: str, parts: tuple[str, ...], declare: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    declare(text)
    assert simulate() == EXIT_USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and all(part in err for part in parts), err
    assert not Path("results").exists()


def test_measured_results_are_no_place_for_it(
    declare: Any, stage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stage / "asv.conf.json").write_text('{"results_dir": "results"}')
    declare(story(1))
    assert simulate() == EXIT_USAGE
    assert "the folder of measured results" in capsys.readouterr().err
    assert simulate("--results", "elsewhere") == EXIT_OK
    (one,) = runs_of(stage / "elsewhere")
    assert one.header.scratch is None and one.header.commit == OLD


def test_a_simulation_is_resumed_as_one(declare: Any) -> None:
    declare(story(1))
    assert simulate("--budget", "0.000001") == EXIT_OK
    assert main(["run", "--resume"]) == EXIT_OK
    (one,) = stored()
    assert one.is_complete and len(one.parts) == 2
    assert one.header.resumes is None and one.parts[1].header.resumes == one.run_id


def test_workers_have_the_noise_of_their_launch(declare: Any, tmp_path: Path) -> None:
    """The real program with worker processes gives what this process gives."""
    declare(story(1) + "\n[noise]\nlaunch = 0.02\nsample = 0.01\nseed = 5\n")
    one = "transfer.host_to_device[nbytes=64KiB,memory=pinned,blocking=True]"
    args = ["run", "--device", "simulated", "--launches", "3", "--case", one]
    assert main(args) == EXIT_OK
    done = subprocess.run(
        [sys.executable, "-m", "hostbench", *args, "--results", "real"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == EXIT_OK, done.stderr
    here, there = stored(), runs_of(tmp_path / "real")
    (mine,), (theirs,) = here[0].results(), there[0].results()
    assert len(set(theirs.seconds)) == 3
    assert theirs.seconds == pytest.approx(mine.seconds[:3], rel=1e-6)  # then it observes
