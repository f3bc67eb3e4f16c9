"""nccl through the real ranks: one rank on one GPU, no second one on it, and two on two."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hostbench.core.records import CaseRecord
from tests.stored import runs_of

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parent.parent.parent
GPUS = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")


def measured(folder: Path, num_gpus: int) -> dict[tuple[int, object], CaseRecord]:
    """By launch, of which the second one observes, and number of ranks."""
    argv = [sys.executable, "-m", "hostbench", "run", "--results", str(folder), "--no-asv"]
    for num_ranks in (1, 2):
        argv += ["--case", f"collectives.all_reduce[nbytes=1MiB,num_ranks={num_ranks}]"]
    done = subprocess.run(
        [*argv, "--device", "cuda", "--launches", "1"],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(GPUS[:num_gpus])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    (run,) = runs_of(folder)
    return {(one.launch, one.case.values["num_ranks"]): one for one in run.parts[0].records}


def test_one_rank_has_its_sum_and_two_do_not_share_a_gpu(gpu: None, tmp_path: Path) -> None:
    records = measured(tmp_path, 1)
    one, two, observed = (records[key] for key in ((0, 1), (0, 2), (1, 1)))
    assert one.status == "ok" and one.measurement.proofs == {"data": "passed"}, one
    assert list(one.measurement.ranks) == ["0"] and one.nbytes == 0
    assert one.seconds is not None and one.seconds > 0
    assert one.measurement.device_s, one.measurement.device_reason
    assert "kernels_per_step" in observed.measurement.findings, observed
    assert (two.status, two.reason) == ("skipped", "needs 2 GPUs, this machine has 1")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs")
def test_two_ranks_have_their_sum_by_kernels(gpu: None, tmp_path: Path) -> None:
    records = measured(tmp_path, 2)
    assert records[0, 2].measurement.proofs == {"data": "passed"}
    assert records[0, 2].measurement.device_s
    assert records[1, 2].measurement.proofs == {"kernels": "passed"}
    assert records[1, 2].measurement.findings["algorithm"]
