"""nccl through the real ranks, as far as one GPU goes: one rank on it, and no second one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stored import runs_of

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parent.parent.parent


def test_one_rank_has_its_sum_and_two_do_not_share_a_gpu(gpu: None, tmp_path: Path) -> None:
    cases = [
        arg
        for num_ranks in (1, 2)
        for arg in ("--case", f"collectives.all_reduce[nbytes=1MiB,num_ranks={num_ranks}]")
    ]
    argv = [sys.executable, "-m", "hostbench", "run", *cases, "--results", str(tmp_path)]
    done = subprocess.run(
        [*argv, "--device", "cuda", "--launches", "1", "--no-asv"],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": _first()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    (run,) = runs_of(tmp_path)
    records = {
        (record.launch, record.case.values["num_ranks"]): record for record in run.parts[0].records
    }
    one, two, observed = (records[key] for key in ((0, 1), (0, 2), (1, 1)))
    assert one.status == "ok" and one.measurement.proofs == {"data": "passed"}, one
    assert list(one.measurement.ranks) == ["0"] and one.nbytes == 0
    assert one.seconds is not None and one.seconds > 0
    assert one.measurement.device_s, one.measurement.device_reason
    assert "kernels_per_step" in observed.measurement.findings, observed
    assert (two.status, two.reason) == ("skipped", "needs 2 GPUs, this machine has 1")


def _first() -> str:
    """The first GPU that this process may use."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
