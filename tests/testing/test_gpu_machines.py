"""What a user is told on GPU machines that nobody here has: by the doctor, a run, its report and
its exit code.

In this process where that is possible. The programs themselves run on the whole table of machines
in `make soak`.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.records import Launch, Opened, Outcome
from hostbench.core.units import KIB, MIB
from hostbench.families import load
from hostbench.ranks import group, rank
from hostbench.ranks.group import Seat
from hostbench.ranks.pool import Deadline, Pool
from hostbench.ranks.replies import RankFailure
from hostbench.runner.plan import choose
from hostbench.runner.worker import walk
from hostbench.store.runs import WholeRun
from hostbench.testing.gpu_machines import LOST, MACHINES
from hostbench.testing.stand_in import python_of
from tests.gpu_stand_in import Floor, Refusals, cuda_machine, hostbench, on_machine
from tests.stored import runs_of

ROOT = Path(__file__).parent.parent.parent
SHORT = {"budget_s": 0.0, "warmup_s": 0.0, "max_samples": 3}
WAIT_S = 60.0
"""For ranks; no test waits for it."""


def case_of(workload: str, **axes: object) -> Case:
    wanted = {"device": "cuda", **axes}
    return next(c for c in load()[workload].cases() if wanted.items() <= c.values.items())


def said(*cases: Case, observe: bool = False) -> list[Any]:
    """Every message of a worker that walks them."""
    found: list[Any] = []
    family = cases[0].family
    walk(Launch(family=family, cases=cases, settings=SHORT, observe=observe), found.append)
    return found


def outcomes(*cases: Case, observe: bool = False) -> list[Outcome]:
    return [each for each in said(*cases, observe=observe) if isinstance(each, Outcome)]


# ---- what does not start ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        ("old_driver", r"too old \(found version 11040\).*; update the NVIDIA driver, or install"),
        ("library_missing", "Found no NVIDIA driver.*; install the driver, start the container"),
        ("cut_off", "CUDA unknown error.*; check nvidia-smi"),
        ("needs_reset", "CUDA unknown error.*; check nvidia-smi"),
    ],
)
def test_a_device_that_does_not_start_ends_the_launch_with_its_remedy(
    machine: str, why: str
) -> None:
    """No case is failed for it, and none waits for it again."""
    case = case_of("transfer.host_to_device", nbytes=64 * KIB)
    with on_machine(machine):
        found = said(case, case)
    assert not any(isinstance(each, Outcome) for each in found)
    assert isinstance(found[-1], Opened)
    assert re.search(why, str(found[-1].lost))


# ---- what is refused ----------------------------------------------------------------------------


def test_without_any_pinned_memory_the_pageable_cases_are_measured() -> None:
    """Also the device settles without it."""
    pinned, pageable = (
        case_of("transfer.host_to_device", nbytes=MIB, memory=memory)
        for memory in ("pinned", "pageable")
    )
    with cuda_machine(refusals=Refusals(pinned_bytes=0)):
        refused, measured = outcomes(pinned, pageable)
    assert refused.status == "skipped"
    assert str(refused.reason).startswith("CUDA pins no 1 MiB: CUDA error: out of memory; a limit")
    assert measured.status == "ok"


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        ("pinned", "CUDA pins no 1 MiB: CUDA error: out of memory; a limit on locked memory"),
        ("registered", "cudaHostRegister refused 1 MiB (CUDA error 2); a limit on locked memory"),
    ],
)
def test_what_is_too_large_to_pin_is_skipped_and_the_next_case_goes_on(
    memory: str, why: str
) -> None:
    """As on WSL2, at sizes that a test can afford."""
    with cuda_machine(refusals=Refusals(pinned_bytes=512 * KIB)):
        large, small = outcomes(
            case_of("transfer.host_to_device", nbytes=MIB, memory=memory),
            case_of("transfer.host_to_device", nbytes=64 * KIB, memory=memory),
        )
    assert large.status == "skipped" and str(large.reason).startswith(why)
    assert (small.status, small.reason) == ("ok", None)


@pytest.mark.parametrize(
    ("machine", "copies", "counted"),
    [
        ("mig_slice", "passed", "unavailable: NVML fields 197 and 198: not supported"),
        ("wsl2", "passed", "unavailable: NVML fields 197 and 198: not supported"),
        ("jetson", "passed", "unavailable: NVML fields 197 and 198: not supported"),
        ("vgpu", "unavailable: ", "unavailable: "),
        ("no_permission", "passed", "unavailable: "),
        ("one_lost", "passed", "passed"),
    ],
)
def test_what_cannot_be_proven_says_why_and_fails_no_case(
    machine: str, copies: str, counted: str
) -> None:
    case = case_of("transfer.host_to_device", nbytes=MIB, memory="pinned")
    with on_machine(machine):
        (observed,) = outcomes(case, observe=True)
    proofs = observed.measurement.proofs
    assert (observed.status, observed.reason) == ("ok", None)
    assert proofs["copies"].startswith(copies), proofs
    assert proofs["link_bytes"].startswith(counted), proofs


# ---- ranks --------------------------------------------------------------------------------------


@pytest.fixture
def floor() -> Iterator[Floor]:
    with cuda_machine(2) as made:
        yield made


def seated(monkeypatch: pytest.MonkeyPatch, before: Callable[[int], None]) -> None:
    """Two ranks take their seats, after `before` was done in each, told its number."""
    take = group.take

    def prepared(seat: Seat) -> Any:
        before(seat.rank)
        return take(seat)

    monkeypatch.setattr(rank, "take", prepared)
    pool = Pool("cuda", 2)
    try:
        pool.ask(Deadline.after(WAIT_S), "take_seat")
    finally:
        pool.kill()


def test_a_rank_that_sees_fewer_gpus_is_a_skip_that_names_it(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one waits for it to join; nobody waits for that."""

    def hide(number: int) -> None:
        del floor.machine.gpus[2 - number :]

    with pytest.raises(Unavailable, match=r"^rank 1: needs 2 GPUs, this machine has 1$"):
        seated(monkeypatch, hide)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("", "rank 1: device cuda: No CUDA GPUs are available; check nvidia-smi and CUDA_VISIBLE"),
        (
            "CUDA-capable device(s) is/are busy or unavailable",
            "rank 1: device cuda: CUDA-capable device\\(s\\) is/are busy or unavailable; another "
            "process holds the GPU",
        ),
    ],
)
def test_a_rank_whose_gpu_does_not_start_is_named(
    floor: Floor, monkeypatch: pytest.MonkeyPatch, broken: str, why: str
) -> None:
    def spoil(number: int) -> None:
        if number == 1 and broken:
            floor.machine.sticky = broken
        elif number == 1:
            floor.machine.gpus.clear()

    with pytest.raises(RankFailure, match=f"^{why}"):
        seated(monkeypatch, spoil)


def test_on_a_jetson_a_torch_without_nccl_is_a_skip() -> None:
    with (
        on_machine("jetson"),
        pytest.raises(Unavailable, match="this torch is built without nccl"),
    ):
        group.take(
            Seat(
                rank=0,
                num_ranks=1,
                device="cuda",
                rendezvous=-1,
                entered=memoryview(b""),
                left=memoryview(b""),
            )
        )


# ---- by the programs ----------------------------------------------------------------------------


def run(python: Path, results: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return hostbench(python, "run", *args, "--no-asv", "--results", str(results))


def only(results: Path) -> WholeRun:
    (found,) = runs_of(results)
    return found


def lose(tmp_path: Path) -> tuple[Path, Path]:
    """A run that loses its GPU: the Python and the results."""
    python, results = python_of(tmp_path / "python", "lost_midway"), tmp_path / "results"
    words = (f"transfer.{way}[nbytes=64KiB]" for way in ("host_to_device", "device_to_host"))
    cases = [each for word in words for each in ("--case", word)]
    done = run(python, results, *cases, "--launches", "1")
    assert done.returncode == 4, done.stdout
    lost = only(results)
    states = [result.status for result in lost.results()]
    assert states.count("ok") >= 1 and states.count("failed") == 1 and lost.not_measured()
    (failed,) = (result for result in lost.results() if result.status == "failed")
    gone = "CUDA error, the process cannot use the device again: unspecified launch failure"
    assert failed.reason == gone
    assert "hostbench: device cuda: No CUDA GPUs are available; check nvidia-smi" in done.stdout
    assert "device lost; what was measured is kept" in done.stdout
    assert lost.parts[0].facts["after"]["gpu0"]["name"]["why"].startswith("the GPU is lost")
    return python, results


def test_a_gpu_that_is_lost_ends_the_run_which_is_kept(tmp_path: Path) -> None:
    lose(tmp_path)


@pytest.mark.soak
def test_after_a_reset_the_run_is_resumed(tmp_path: Path) -> None:
    python, results = lose(tmp_path)
    (tmp_path / "python" / LOST).unlink()  # a reset
    python_of(tmp_path / "python", "1_gpu")  # and no other loss
    rest = run(python, results, "--resume")
    assert rest.returncode == 0, rest.stdout
    assert {result.status for result in only(results).results()} == {"ok"}
    assert not only(results).not_measured()


def test_a_run_on_gpus_that_do_not_start_says_so_before_it_measures(tmp_path: Path) -> None:
    python = python_of(tmp_path / "python", "cut_off")
    done = run(python, tmp_path / "results", "--quick")
    assert done.returncode == 4
    (line,) = done.stdout.splitlines()
    assert line.startswith("hostbench: 1 NVIDIA GPU(s) visible (dev), but torch.cuda does not work")
    assert "in a container, start it again" in line
    assert not list(tmp_path.glob("results/*/runs/*"))


DOCTOR: dict[str, tuple[int, tuple[str, ...]]] = {
    "library_missing": (4, ("broken", "libnvidia-ml.so.1 is missing: install the NVIDIA driver")),
    "cut_off": (4, ("broken", "in a container, start it again")),
    "no_permission": (0, ("no permission: run as root", "nobody tells the GPU's model")),
    "old_driver": (4, ("too old", "the driver supports CUDA 11.4, torch was built for 12.8")),
    "vgpu": (0, ("a virtual GPU; link and counters stay unknown", "48 GiB")),
    "mig_slice": (0, ("MIG is on; figures are those of a slice", "for all slices together")),
    "wsl2": (0, ("WSL2: Windows' driver has the GPU, and pinned memory may be scarce",)),
    "jetson": (0, ("an integrated GPU shares", "this torch is built without nccl")),
    "lost_midway": (0, ("the link is fine",)),
    "needs_reset": (4, ("the GPU needs a reset: `nvidia-smi --gpu-reset`",)),
    "one_lost": (4, ("gpu0 does not answer", "gpu1: the link is fine")),
}


@pytest.mark.soak
@pytest.mark.parametrize("machine", DOCTOR)
def test_what_the_doctor_and_a_run_say(tmp_path: Path, machine: str) -> None:
    code, words = DOCTOR[machine]
    python, results = python_of(tmp_path / "python", machine), tmp_path / "results"
    told = hostbench(python, "doctor")
    assert told.returncode == code, told.stdout
    for each in words:
        assert each in told.stdout
    case = ("--case", "transfer.host_to_device[nbytes=1MiB]", "--case", "collectives.all_reduce")
    done = run(python, results, *case, "--launches", "1")
    starts = code == 0 or machine == "one_lost"
    assert done.returncode == (0 if starts and machine != "lost_midway" else 4), done.stdout
    if starts:
        found = {result.status for result in only(results).results()}
        assert "ok" in found, done.stdout


def test_no_machine_is_left_out() -> None:
    assert set(DOCTOR) == {name for name in MACHINES if not name[0].isdigit()}


@pytest.mark.soak
def test_quick_on_eight_gpus(tmp_path: Path) -> None:
    python, results = python_of(tmp_path / "python", "8_gpus"), tmp_path / "results"
    done = run(python, results, "--quick")
    assert done.returncode == 0, done.stdout
    assert {result.status for result in only(results).results()} == {"ok"}


SUM_OF_512_MIB = re.compile(r"collectives\.all_reduce.*nbytes=536870912\]")
"""20 of them, over gloo, can take this machine longer than a case may; a GPU takes milliseconds."""


@pytest.mark.soak
def test_gpu_check_from_start_to_report(tmp_path: Path) -> None:
    python, out = python_of(tmp_path / "python", "2_gpus"), tmp_path / "report"
    done = subprocess.run(
        [str(python), "-m", "tests.gpu.check", "-o", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    report = (out / "report.md").read_text()
    late = re.findall(r"^E +- failed: (\S+): (.*)$", report, re.M)
    assert all(SUM_OF_512_MIB.match(case) and "did not answer" in why for case, why in late), report
    assert done.returncode == (4 if late else 0), done.stdout + report
    head = report.splitlines()[2]
    assert "1 failed" in head if late else "failed" not in head
    assert "(stand-in)" in report
    num_quick = len(choose(load(), "cuda", quick=True))
    assert f"{num_quick} ok, 0 not reached" in report, "the quick cases"
    assert "not expected" not in report
