"""hostbench on GPU machines that nobody here has, by the program that people use."""

from pathlib import Path

import pytest

from hostbench.core.units import MIB
from hostbench.store.runs import WholeRun
from hostbench.testing.gpu_machines import MACHINES
from hostbench.testing.stand_in import python_of
from tests.gpu_stand_in import hostbench
from tests.stored import runs_of

CASES = (
    "transfer.host_to_device[nbytes=64KiB,memory=pinned]",
    "transfer.between_devices[nbytes=1MiB]",
    "overlap.pipeline[batch_bytes=512KiB,memory=pinned,schedule=copy_stream]",
    "allocation.create[nbytes=1MiB]",
    "allocation.mixed[setting=default,room=free]",
    "allocation.mixed[setting=cudaMallocAsync,room=free]",
    "collectives.all_reduce[num_ranks=2,nbytes=64KiB]",
    "collectives.all_reduce_queued[num_ranks=2,nbytes=64KiB]",
)


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[WholeRun, str]:
    """A run of these cases there, and what it printed."""
    folder = tmp_path_factory.mktemp("two_gpus")
    python, results = python_of(folder / "python", "2_gpus"), folder / "results"
    cases = [word for case in CASES for word in ("--case", case)]
    limits = ("--launches", "1", "--no-asv", "--results", str(results))
    done = hostbench(python, "run", *cases, *limits)
    assert done.returncode == 0, done.stdout
    (run,) = runs_of(results)
    return run, done.stdout


def test_a_run_on_two_gpus_from_facts_to_ranks(two_gpus: tuple[WholeRun, str]) -> None:
    """Every family, observed too; nccl starts, its data carried by gloo."""
    run, said = two_gpus
    found = run.results()
    assert {result.case.family for result in found} == {case.partition(".")[0] for case in CASES}
    for result in found:
        assert (result.status, result.reason) == ("ok", None)
        too_small = "unavailable: 64 KiB is too little for the link's counters"
        assert set(result.proofs.values()) <= {"passed", too_small}, result
        assert not result.unexpected, result
    ranks = [result for result in found if result.case.family == "collectives"]
    assert all(result.proofs == {"data": "passed"} for result in ranks)
    assert run.header.machine == "2x-nvidia-h200-stand-in"
    torch = run.parts[0].facts["before"]["software"]["torch"]
    assert torch.endswith("stand-in"), "no GPU may have a name, and the user may name the machine"
    assert f"torch {torch}" in said


def test_each_setting_is_measured_in_a_process_that_was_started_with_it(
    two_gpus: tuple[WholeRun, str],
) -> None:
    mixed = [each for each in two_gpus[0].results() if each.case.workload == "allocation.mixed"]
    found = {str(one.case.values["setting"]): one.findings for one in mixed}
    native, other = found["default"], found["cudaMallocAsync"]
    assert int(str(native["peak_reserved"])) > 2 * int(str(native["peak_allocated"]))
    assert other["peak_reserved"] == other["peak_allocated"] == 461896704
    assert "peak_inactive_split" not in other, "it counts no such thing"


def test_a_copy_wakes_the_link_for_the_process_that_watches_it(tmp_path: Path) -> None:
    """Copies run in a worker, and the run's own process looks at the link."""
    watching, _ = MACHINES["wsl2"].make(tmp_path)
    watching.nvmlInit()
    assert watching.nvmlDeviceGetCurrPcieLinkGeneration(0) == 1, "asleep"
    _, copying = MACHINES["wsl2"].make(tmp_path)
    copying.moved(0, MIB, 0)
    assert watching.nvmlDeviceGetCurrPcieLinkGeneration(0) == 4
    assert watching.loads[0].into == 0, "it copied nothing itself"


def test_an_unknown_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="9_gpus"):
        python_of(tmp_path, "9_gpus")
