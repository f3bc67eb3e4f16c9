"""nccl through the real ranks: one on one GPU, and two, which one GPU is refused to."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.stored import runs_of

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parent.parent.parent


def test_ranks_have_their_sum_by_kernels_and_do_not_share_a_gpu(gpu: None, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "hostbench", "run", "--results", str(tmp_path)]
    for num_ranks in (1, 2):
        argv += ["--case", f"collectives.all_reduce[nbytes=1MiB,num_ranks={num_ranks}]"]
    done = subprocess.run(
        [*argv, "--device", "cuda", "--launches", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    (run,) = runs_of(tmp_path)
    # The second launch observes what the first has timed.
    records = {(one.launch, one.case.values["num_ranks"]): one for one in run.records}
    one, two, observed = records[0, 1], records[0, 2], records[1, 1]
    assert one.status == "ok" and one.measurement.proofs == {"data": "passed"}, one
    assert list(one.measurement.ranks) == ["0"] and one.nbytes == 0
    assert one.seconds is not None and one.seconds > 0
    assert one.measurement.device_s
    assert "kernels_per_step" in observed.measurement.findings, observed
    if torch.cuda.device_count() < 2:
        assert (two.status, two.reason) == ("skipped", "needs 2 GPUs, this machine has 1")
        return
    assert two.measurement.proofs == {"data": "passed"} and two.measurement.device_s, two
    seen = records[1, 2].measurement
    assert seen.proofs == {"kernels": "passed"} and seen.findings["algorithm"], seen
